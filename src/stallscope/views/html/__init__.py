# SPDX-License-Identifier: Apache-2.0
"""A document of `stallscope.reporting` as one page that needs nothing else: no network, no server.

The page's scripts and styles are bundled when the package is built. Data is put in as JSON that no
browser takes for anything else, and only the two bundles may run: their hashes are in the page's
content security policy.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from stallscope.errors import StallscopeError

FOLDER = "_page"
SCRIPT, STYLE = "page.js", "page.css"


@functools.cache
def bundle(name: str) -> str:
    """A file that the build made of views/html/page."""
    extension = importlib.util.find_spec("stallscope._engine")
    origin = extension.origin if extension is not None else None
    path = Path(origin or "").parent / FOLDER / name
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StallscopeError(
            f"the page's {name} is missing",
            "stallscope was built without npm",
            "install nodejs and npm, and build it again",
        ) from error


def embedded(document: Any) -> str:
    """JSON for a script element: nothing in it ends the element or starts a comment."""
    text = msgspec.json.encode(document).decode()
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028"}
    for character, escape in {**escapes, "\u2029": "\\u2029"}.items():
        text = text.replace(character, escape)
    return text


def policy(connect: str = "'none'") -> str:
    """Nothing but the two bundles runs, and nothing is fetched but from where it is said."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(bundle(SCRIPT))}'",
            f"style-src '{_digest(bundle(STYLE))}'",
            "img-src data:",
            f"connect-src {connect}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page(document: Any, title: str, connect: str = "'none'") -> str:
    """The whole page. `document` is a report, or what a server says of itself."""
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy(connect)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',  # else browsers ask the server for one
            f"<title>{html.escape(title)}</title>",
            f"<style>{bundle(STYLE)}</style>",
            "</head>",
            "<body>",
            "<noscript><p>This page draws its pictures and tables with its own script, which is "
            "turned off here. stallscope report --json has the same facts.</p></noscript>",
            '<div id="root"></div>',
            f'<script type="application/json" id="document">{embedded(document)}</script>',
            f"<script>{bundle(SCRIPT)}</script>",
            "</body>",
            "</html>",
            "",
        )
    )


def check(path: Path, *, force: bool = False) -> None:
    """Whether a page can go there."""
    if path.is_dir():
        raise StallscopeError(f"{path} is a folder", now="give the name of a file")
    if not path.parent.is_dir():
        raise StallscopeError(f"there is no folder {path.parent}")
    if path.exists() and not force:
        raise StallscopeError(f"{path} is there already", now="-f to overwrite it, or another -o")


def write(document: dict[str, Any], path: Path, *, force: bool = False) -> int:
    """One file, readable by its owner only, in one step; its size."""
    check(path, force=force)
    name = document.get("recording") or document["fleet"]
    data = page(document, f"{name} · Stallscope").encode()
    try:
        descriptor, fresh = tempfile.mkstemp(prefix=".report-", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(fresh).replace(path)
    except OSError as error:
        raise StallscopeError(f"cannot write {path}", error.strerror or "") from error
    return len(data)
