# SPDX-License-Identifier: Apache-2.0
"""Results in a notebook: as tables, whatever they are the result of."""

from __future__ import annotations


class Shown:
    """A result with `rows`."""

    def _repr_html_(self) -> str:
        from stallscope.views.html_table import table

        return table(self)
