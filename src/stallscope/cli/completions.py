# SPDX-License-Identifier: Apache-2.0
"""stallscope completions"""

from __future__ import annotations

import click


@click.command("completions")
@click.argument("shell", metavar="bash|zsh|fish|man")
def command(shell: str) -> None:
    """Completions for a shell, or the man page, on standard output.

    bash: eval "$(stallscope completions bash)" in ~/.bashrc; man: stallscope completions man | man
    -l -"""
    from stallscope.cli.manual import completion, man_page

    click.echo(man_page() if shell == "man" else completion(shell), nl=False)
