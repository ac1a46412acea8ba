# SPDX-License-Identifier: Apache-2.0
"""stallscope serve"""

from __future__ import annotations

import functools
import socket
from pathlib import Path
from typing import Any

import click

from stallscope.errors import StallscopeError

ADDRESS = "127.0.0.1"


@click.command("serve")
@click.argument("folder", required=False, type=click.Path(path_type=Path), default=Path())
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="[one that is free]")
@click.option("--open", "open_browser", is_flag=True, help="Also open a browser.")
def command(folder: Path, port: int, open_browser: bool) -> None:
    """The reports of a folder of recordings in a browser, live while `record` runs, with what-if:
    change a cache and replay. Of a fleet: its page, with builds to compare.

    Listens on 127.0.0.1 only, and only for who knows the whole address that is printed. Ctrl-C ends
    it.

    \b
    stallscope serve                  the recordings here
    stallscope serve runs --port 8000
    stallscope serve /mnt/fleet       what many hosts recorded
    """
    import secrets

    import uvicorn

    make = _application(folder)
    listening = _listen(port)
    number = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    hosts = frozenset(f"{name}:{number}" for name in (ADDRESS, "localhost"))
    app = make(hosts, token, folder.resolve().name)
    address = f"http://{ADDRESS}:{number}/{token}/"
    click.echo(address)
    click.echo("Ctrl-C ends it", err=True)
    if open_browser:
        import webbrowser

        webbrowser.open(address)
    config = uvicorn.Config(
        app, log_level="error", access_log=False, server_header=False, lifespan="off", ws="none"
    )
    uvicorn.Server(config).run(sockets=[listening])


def _application(folder: Path) -> Any:
    from stallscope.scale.fleet_folder import is_fleet

    if folder.is_dir() and is_fleet(folder):
        from stallscope.scale.fleet_report import FleetDesk
        from stallscope.views.server.fleet import fleet_application

        return functools.partial(fleet_application, FleetDesk(folder))
    from stallscope.serving import Desk
    from stallscope.views.server import application

    return functools.partial(application, Desk(folder))


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
    except OSError as error:
        raise StallscopeError(
            f"cannot listen on port {port}", error.strerror or "", "--port another, or none"
        ) from error
    listening.listen(64)
    return listening
