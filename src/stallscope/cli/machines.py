# SPDX-License-Identifier: Apache-2.0
"""stallscope machines"""

from __future__ import annotations

import click

from stallscope.cli.options import json_option


@click.command("machines")
@click.argument("machine", required=False)
@json_option
@click.option("--toml", "as_toml", is_flag=True, help="Print a machine file, to be changed.")
def command(machine: str | None, as_json: bool, as_toml: bool) -> None:
    """List the machines that can be simulated, or show one: a name or a machine file."""
    from stallscope import machines
    from stallscope.errors import StallscopeError

    if as_toml:
        chosen = machines.load(machine or "default")
        if not chosen.simulates:
            raise StallscopeError(f"{chosen.name} is no machine", now="stallscope machines")
        click.echo(chosen.to_toml(), nl=False)
        return
    found = [machines.load(machine)] if machine else machines.available()
    if as_json:
        from stallscope.views import document

        document.print_json("machines", {"rows": [one.document() for one in found]})
        return

    from rich.console import Console

    from stallscope.views.terminal.machines import show, show_list

    console = Console(highlight=False)
    if machine:
        show(found[0], console)
    else:
        show_list(found, console)
