# SPDX-License-Identifier: Apache-2.0
"""The server: what it answers, and whom it refuses."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from conftest import PATIENCE, STALLSCOPE, Made, Recorder, run
from stallscope import workloads

Build = Callable[..., Path]
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def told(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Server:
    host: str
    port: int
    token: str

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        given = JSON if body is not None and headers is None else dict(headers or {})
        data = json.dumps(body) if body is not None and not isinstance(body, str) else body
        prefix = self.token if token is None else token
        connection.request(method, f"/{prefix}/{path}", data, dict(given))
        response = connection.getresponse()
        answer = Answer(response.status, response.read(), dict(response.getheaders()))
        connection.close()
        return answer


@pytest.fixture(scope="module")
def made(shared_record: Recorder, workload: Callable[[str], Path]) -> Made:
    arguments = workloads.truth("list").command_arguments("quick")
    return shared_record(workload("list"), *arguments, options=["--trace"])


@pytest.fixture(scope="module")
def server(made: Made) -> Iterator[Server]:
    words = [STALLSCOPE, "serve", made.path.parent]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = urlsplit(process.stdout.readline().strip())
        assert address.hostname == "127.0.0.1"
        assert address.port is not None
        yield Server("127.0.0.1", address.port, address.path.strip("/"))
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_the_page_and_the_list_are_there(server: Server, made: Made) -> None:
    page = server.ask("")
    assert page.status == 200
    assert b"<title>" in page.body
    assert page.headers["cache-control"] == "no-store"
    [row] = [row for row in server.ask("api/recordings").told if row["name"] == made.path.name]
    assert row["state"] == "done"
    assert row["trace"] is True


def test_a_report_is_the_one_of_the_verb(server: Server, made: Made) -> None:
    document = server.ask("api/report", "POST", {"name": made.path.name}).told
    assert document["schema"] == "stallscope.report/1"
    assert document["verdict"]["object"].startswith("make_node (list.c:")


REFUSED = {
    "another host": {"Host": "evil.example:80"},
    "no port": {"Host": "127.0.0.1"},
    "another page": {"Origin": "http://evil.example"},
    "a file": {"Origin": "null"},
    "another site": {"Sec-Fetch-Site": "cross-site"},
    "another port here": {"Sec-Fetch-Site": "same-site"},
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "api/recordings"),
        ("GET", "api/live"),
        ("POST", "api/report"),
        ("POST", "api/look"),
        ("POST", "api/what-if"),
        ("OPTIONS", "api/report"),
    ],
)
def test_who_comes_from_elsewhere_is_refused(
    server: Server, why: str, method: str, path: str
) -> None:
    answer = server.ask(path, method, headers=REFUSED[why])
    assert answer.status == 403
    assert answer.body.startswith(b"refused: ")
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("token", ["", "x", "api", "../", "%00"])
def test_without_the_token_nothing_is_told(server: Server, token: str) -> None:
    for path in ("", "api/recordings", "api/live"):
        assert server.ask(path, token=token).status == 403
    assert server.ask("", token=server.token[:-1]).status == 403


def test_who_is_at_home_is_let_in(server: Server) -> None:
    origin = f"http://127.0.0.1:{server.port}"
    headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    assert server.ask("api/recordings", headers=headers).status == 200
    headers = {"Host": f"localhost:{server.port}", "Sec-Fetch-Site": "none"}
    assert server.ask("", headers=headers).status == 200


def test_nothing_is_changed_by_get_and_only_json_is_taken(server: Server, made: Made) -> None:
    assert server.ask("api/report").status == 405
    assert server.ask("api/what-if").status == 405
    assert server.ask("api/look").status == 405
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert server.ask("api/report", "POST", f"name={made.path.name}", form).status == 415
    assert server.ask("api/report", "POST", "x" * 200_000, JSON).status == 413
    for wrong in ("{", "[]", '{"name": 3}', '{"name": "x", "more": 1}'):
        answer = server.ask("api/report", "POST", wrong, JSON)
        assert answer.status == 400
        assert answer.told["error"]["what"] == "the question is wrong"


@pytest.mark.parametrize("name", ["../x.stallscope", "/etc", "", "none.stallscope", "*", "a\0b"])
def test_only_what_is_listed_can_be_asked_for(server: Server, name: str) -> None:
    answers = [
        server.ask("api/report", "POST", {"name": name}),
        server.ask(f"api/live?name={quote(name)}"),
        server.ask(f"api/machine?name={quote(name)}"),
    ]
    for answer in answers:
        assert answer.status == 400
        assert answer.told["error"]["what"].startswith("there is no recording")


def test_a_larger_cache_misses_less(server: Server, made: Made) -> None:
    known = server.ask(f"api/machine?name={made.path.name}").told
    assert "srrip" in known["policies"]
    question = {"name": made.path.name, "changes": {"l1d.size": "512K", "l1d.ways": "8"}}
    told = server.ask("api/what-if", "POST", question).told
    misses = [
        next(row["misses"] for row in told[when]["levels"] if row["level"] == "L1D")
        for when in ("before", "after")
    ]
    assert misses[1] < misses[0] / 2
    assert told["after"]["cycles"] < told["before"]["cycles"]


@pytest.mark.parametrize(
    "question",
    [
        {"changes": {"l9.size": "1M"}},
        {"changes": {"l1d.size": "many"}},
        {"changes": {"l1d.size": "33000"}},
        {"machine": "/etc/passwd"},
        {"machine": "nothing"},
    ],
)
def test_a_machine_that_cannot_be_is_refused_in_words(
    server: Server, made: Made, question: dict[str, Any]
) -> None:
    answer = server.ask("api/what-if", "POST", {"name": made.path.name} | question)
    assert answer.status == 400
    assert answer.told["error"]["what"]


def test_a_recording_is_seen_while_it_is_made(
    server: Server, shared_record: Recorder, program: Build
) -> None:
    path = shared_record.place()
    words = [STALLSCOPE, "record", "-q", "--trace", "-o", path, "--", program("growing")]
    recorder = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE)
    try:
        told = until(server, path.name, lambda now: "main (growing.c:" in str(now.get("objects")))
        assert told["state"] == "recording"
        assert told["instructions"] > 0
        assert not (path / "results").exists()  # half a stream gives no result to keep
    finally:
        recorder.communicate(b"", PATIENCE)
    assert recorder.returncode == 0
    assert until(server, path.name, lambda now: now["state"] == "done")["state"] == "done"


def until(server: Server, name: str, enough: Callable[[Any], bool]) -> Any:
    end = time.monotonic() + PATIENCE
    told: Any = None
    while time.monotonic() < end:
        answer = server.ask(f"api/live?name={name}")
        told = answer.told
        if answer.status == 200 and enough(told):
            return told
        time.sleep(0.2)
    raise AssertionError(told)


def test_no_such_folder_and_a_port_that_is_taken(server: Server, tmp_path: Path) -> None:
    ran = run(STALLSCOPE, "serve", tmp_path / "none")
    assert ran.status == 2
    assert "there is no folder" in ran.stderr
    ran = run(STALLSCOPE, "serve", tmp_path, "--port", server.port)
    assert ran.status == 2
    assert f"cannot listen on port {server.port}" in ran.stderr
