# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import Any

__file__: str

class EngineError(RuntimeError): ...

class SymbolCache:
    def __init__(self, debug_folders: Sequence[str] = ...) -> None: ...

class Target:
    def life(self) -> dict[str, Any]: ...
    def tables(self, symbols: SymbolCache) -> tuple[dict[str, int], dict[str, Mapping[str, Any]]]: ...
    def rows_left(self) -> list[tuple[str, Mapping[str, Any]]]: ...

class Process:
    name: str
    folder: str
    complete: bool
    counted: bool
    stream_bytes: int
    errors: list[tuple[str, str, str]]
    target: Target

class Recorder:
    def __init__(
        self, session_folder: str, output_folder: str, trace: bool, max_bytes: int
    ) -> None: ...
    def start(self, pid: int) -> None: ...
    def stop(self, abandon: bool) -> None: ...
    def progress(self) -> tuple[int, int, int, int]: ...
    def take_finished(self) -> list[Process]: ...
    def take_batches(self) -> list[tuple[str, str, Mapping[str, Any]]]: ...

class Recovered:
    truncated: bool
    truncated_at: int
    target: Target

def recover(path: str) -> Recovered: ...
