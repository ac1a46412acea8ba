# SPDX-License-Identifier: Apache-2.0
"""A fleet's page over HTTP, behind the same guard as recordings."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from stallscope.views.server import Guard, asked, shell, told


class FleetAnswers(Protocol):
    """Who knows the answers: stallscope.scale.fleet_report.FleetDesk."""

    def report(self) -> dict[str, Any]: ...
    def diff(self, program: str, before: str, after: str) -> dict[str, Any]: ...


class Compared(msgspec.Struct, forbid_unknown_fields=True):
    program: str
    before: str
    after: str


def fleet_application(
    answers: FleetAnswers, hosts: frozenset[str], token: str, title: str
) -> ASGIApp:
    async def index(request: Request) -> Response:
        return shell("stallscope.serve.fleet/1", title)

    async def report(request: Request) -> Response:
        return await told(answers.report)

    async def diff(request: Request) -> Response:
        return await asked(
            request, Compared, lambda one: answers.diff(one.program, one.before, one.after)
        )

    routes = [
        Route("/{token}/", index, methods=["GET"]),
        Route("/{token}/api/fleet", report, methods=["GET"]),
        Route("/{token}/api/fleet/diff", diff, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), hosts, token)
