# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import Any

class EngineError(RuntimeError): ...

class SymbolCache:
    def __init__(self, debug_folders: Sequence[str] = ...) -> None: ...

class Symbols:
    def __init__(self, path: str, debug_folders: Sequence[str] = ...) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

class Guess:
    name: str
    size: int
    element_size: int
    confidence: float
    voted: float
    is_allocated: bool

class Types:
    def __init__(
        self,
        modules: Sequence[tuple[str, bytes, int, int, int]],
        debug_folders: Sequence[str] = ...,
    ) -> None: ...
    def infer(
        self, uses: Sequence[tuple[int, bool, int, int]], calls: Sequence[int], largest: int
    ) -> Guess | None: ...
    def variable(self, address: int) -> Guess | None: ...
    def fields(self, guess: Guess, offsets: Sequence[int]) -> list[tuple[str, int, int, str]]: ...

class Target:
    def life(self) -> dict[str, Any]: ...
    def tables(
        self, symbols: SymbolCache
    ) -> tuple[dict[str, int], dict[str, Mapping[str, Any]]]: ...
    def rows_left(self) -> list[tuple[str, Mapping[str, Any]]]: ...

class Process:
    name: str
    folder: str
    complete: bool
    counted: bool
    stream_bytes: int
    errors: list[tuple[str, str, str]]
    target: Target
    def simulation(self) -> dict[str, Any] | None: ...

class Recorder:
    def __init__(
        self,
        session_folder: str,
        output_folder: str,
        trace: bool,
        max_bytes: int,
        symbols: SymbolCache,
        machine: dict[str, Any] | None = ...,
        simulation: dict[str, Any] = ...,
    ) -> None: ...
    @property
    def sieve(self) -> str: ...
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
def valid_bits(column: memoryview, none: int) -> bytes: ...
def check_stream(path: str, counted: bool) -> dict[str, Any]: ...
def replay(
    path: str,
    machine: dict[str, Any],
    options: dict[str, Any],
    placed: list[tuple[str, str, str, int, int]],
    modules: Sequence[tuple[str, bytes, int, int, int]] = ...,
) -> dict[str, Any]: ...
def replay_moved(
    path: str,
    machine: dict[str, Any],
    options: dict[str, Any],
    placed: list[tuple[str, str, str, int, int]],
    policy: str,
    sites: list[tuple[int, str, int]],
) -> dict[str, Any]: ...
def elf_facts(path: bytes) -> Any: ...
def scan_avx512(path: bytes) -> Any: ...
def decode(code: bytes, address: int) -> Any: ...
def instruction_lengths(code: bytes) -> Any: ...
