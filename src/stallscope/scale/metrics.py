# SPDX-License-Identifier: Apache-2.0
"""An agent's numbers as OpenMetrics, on this machine only.

Any page in a browser can send requests to 127.0.0.1, and any name can be made to lead there: only
requests that name this server and come from no page are answered, and all that can be asked for is
the numbers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stallscope.errors import StallscopeError
from stallscope.scale.agent import Numbers

TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PATH = "/metrics"
SECONDS = 10  # that a client may take


def text(numbers: Numbers) -> str:
    with numbers.lock:
        return "".join(f"{line}\n" for line in [*_lines(numbers), "# EOF"])


def _lines(numbers: Numbers) -> Iterator[str]:
    yield from _family("recordings", "counter", "recordings made", numbers.recordings)
    yield from _family("samples", "counter", "samples taken", numbers.samples)
    yield from _family(
        "waiting_samples", "counter", "samples that waited for memory", numbers.waiting
    )
    for name, kind, meaning, value in (
        ("failures", "counter", "rounds that failed", numbers.failures),
        ("removed", "counter", "recordings removed to make room", numbers.removed),
        ("cpu_seconds", "counter", "processor time that the agent took", numbers.cpu),
        ("kept", "gauge", "recordings kept", numbers.kept),
        ("kept_bytes", "gauge", "bytes of recordings kept", numbers.kept_bytes),
        ("up_seconds", "gauge", "since the agent started", time.monotonic() - numbers.started),
    ):
        yield f"# TYPE stallscope_agent_{name} {kind}"
        yield f"# HELP stallscope_agent_{name} {meaning}"
        total = "_total" if kind == "counter" else ""
        yield f"stallscope_agent_{name}{total} {value}"


def _family(name: str, kind: str, meaning: str, values: Mapping[str, int]) -> Iterator[str]:
    yield f"# TYPE stallscope_agent_{name} {kind}"
    yield f"# HELP stallscope_agent_{name} {meaning}"
    for program, value in sorted(values.items()):
        yield f'stallscope_agent_{name}_total{{program="{_escaped(program)}"}} {value}'


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


class Server:
    """Answers until it is closed, on threads of its own."""

    def __init__(self, numbers: Numbers, port: int) -> None:
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(numbers))
        except (OSError, OverflowError) as error:
            raise StallscopeError(f"cannot listen on port {port}", str(error)) from error
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(numbers: Numbers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS

        def do_GET(self) -> None:
            status, body = self._answer()
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Type", TYPE if status == 200 else "text/plain")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.end_headers()
            self.wfile.write(data)

        def _answer(self) -> tuple[int, str]:
            assert isinstance(self.server.server_address, tuple)
            port = self.server.server_address[1]
            hosts = [[f"{name}:{port}"] for name in ("127.0.0.1", "localhost")]
            if self.headers.get_all("Host") not in hosts:
                return 403, "refused: this host name is not mine\n"
            if self.headers.get("Origin") or self.headers.get("Sec-Fetch-Site", "none") != "none":
                return 403, "refused: the request comes from a page\n"
            if self.path != PATH:
                return 404, f"there is {PATH} only\n"
            return 200, text(numbers)

        def version_string(self) -> str:
            return "stallscope"

        def log_message(self, format: str, *args: object) -> None:
            """Standard error is for people."""

    return Handler
