# SPDX-License-Identifier: Apache-2.0
"""The page over HTTP, on this machine only.

Any page in a browser can send requests to 127.0.0.1, and any name can be made to lead there. So a
request counts only when it names this server, comes from one of its own pages or from the address
bar, and knows the token that the address was given with; nothing is changed by GET.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from stallscope.errors import StallscopeError
from stallscope.views import html

MOST = 100_000  # bytes of a request
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Answers(Protocol):
    """Who knows the answers: stallscope.serving.Desk."""

    def recordings(self) -> list[dict[str, Any]]: ...
    def report(self, name: str) -> dict[str, Any]: ...
    def live(self, name: str) -> dict[str, Any]: ...
    def look(self, name: str) -> dict[str, Any]: ...
    def machine(self, name: str) -> dict[str, Any]: ...
    def what_if(
        self, name: str, machine: str | None, changes: Mapping[str, Any]
    ) -> dict[str, Any]: ...


class Named(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    machine: str | None = None
    changes: dict[str, str | int] = {}


class Guard:
    """Lets through what comes from the server's own pages and knows the token."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], token: str) -> None:
        self.app = app
        self.hosts = hosts
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        wrong = "not HTTP" if scope["type"] != "http" else self.wrong(Request(scope))
        if wrong is None:
            await self.app(scope, receive, send)
        else:
            await PlainTextResponse(wrong, 403, HEADERS)(scope, receive, send)

    def wrong(self, request: Request) -> str | None:
        headers = request.headers
        if headers.getlist("host") not in [[host] for host in self.hosts]:
            return "refused: this host name is not mine"
        origins = headers.getlist("origin")
        if origins and origins not in [[f"http://{host}"] for host in self.hosts]:
            return "refused: the request comes from another page"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return "refused: the request comes from another page"
        given = request.path_params.get("token") or request.url.path.split("/")[1]
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return "refused: use the whole address that stallscope serve printed"
        return None


def application(answers: Answers, hosts: frozenset[str], token: str, title: str) -> ASGIApp:
    async def index(request: Request) -> Response:
        return shell("stallscope.serve/1", title)

    async def recordings(request: Request) -> Response:
        return await told(answers.recordings)

    async def live(request: Request) -> Response:
        return await told(answers.live, request.query_params.get("name", ""))

    async def machine(request: Request) -> Response:
        return await told(answers.machine, request.query_params.get("name", ""))

    async def report(request: Request) -> Response:
        return await asked(request, Named, lambda one: answers.report(one.name))

    async def look(request: Request) -> Response:
        return await asked(request, Named, lambda one: answers.look(one.name))

    async def what_if(request: Request) -> Response:
        return await asked(
            request, Asked, lambda one: answers.what_if(one.name, one.machine, one.changes)
        )

    routes = [
        Route("/{token}/", index, methods=["GET"]),
        Route("/{token}/api/recordings", recordings, methods=["GET"]),
        Route("/{token}/api/live", live, methods=["GET"]),
        Route("/{token}/api/machine", machine, methods=["GET"]),
        Route("/{token}/api/report", report, methods=["POST"]),
        Route("/{token}/api/look", look, methods=["POST"]),
        Route("/{token}/api/what-if", what_if, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), hosts, token)


def shell(schema: str, title: str) -> Response:
    """A page that asks for what it shows."""
    text = html.page({"schema": schema, "folder": title}, f"{title} · Stallscope", "'self'")
    return Response(text, media_type="text/html; charset=utf-8", headers=HEADERS)


async def asked(
    request: Request, kind: type[Any], answer: Callable[[Any], dict[str, Any]]
) -> Response:
    """A question in JSON, of a size that a page of ours would send."""
    if request.headers.get("content-type", "").split(";")[0] != "application/json":
        return PlainTextResponse("refused: questions are JSON", 415, HEADERS)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST:
            return PlainTextResponse("refused: too long", 413, HEADERS)
    try:
        question = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _json(
            {"error": {"what": "the question is wrong", "why": str(error), "now": ""}}, 400
        )
    return await told(answer, question)


def told(answer: Callable[..., Any], *words: Any) -> Awaitable[Response]:
    return run_in_threadpool(_told, answer, *words)


def _told(answer: Callable[..., Any], *words: Any) -> Response:
    try:
        return _json(answer(*words))
    except StallscopeError as error:
        return _json({"error": {"what": error.what, "why": error.why, "now": error.now}}, 400)


def _json(value: Any, status: int = 200) -> Response:
    data = msgspec.json.encode(value)
    return Response(data, status, media_type="application/json", headers=HEADERS)
