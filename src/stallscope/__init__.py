# SPDX-License-Identifier: Apache-2.0
"""Stallscope shows where programs lose time in the memory system.

import stallscope

recorded = stallscope.record(["./prog", "1000"], trace=True)
recorded.recording.table("operation")          # an Arrow table
stallscope.info(stallscope.open("prog.stallscope")).instructions
found = stallscope.objects(stallscope.view("prog.stallscope", machine="server"))
stallscope.plot(found, "objects.svg")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Recording",
    "StallscopeError",
    "advise",
    "check",
    "core_view",
    "counters",
    "curve_in_pieces",
    "diff",
    "doctor",
    "events",
    "evictions",
    "exact_curve",
    "explore",
    "export",
    "fleet",
    "fleet_report",
    "functions",
    "import_trace",
    "info",
    "layout",
    "lines",
    "loads",
    "loops",
    "misses",
    "monitor_live",
    "monitor_run",
    "objects",
    "offsets",
    "open",
    "page_allocation",
    "page_epochs",
    "page_overhead",
    "page_prefetching",
    "page_replacement",
    "page_view",
    "pages",
    "place",
    "plot",
    "prefetch_advise",
    "prefetch_predict",
    "prefetch_run",
    "record",
    "regions",
    "replay",
    "replay_in_shards",
    "report",
    "reuse",
    "sharing",
    "slices",
    "stalls",
    "sweep",
    "together",
    "update_baseline",
    "verify",
    "view",
    "watch",
    "watch_process",
    "watch_program",
    "what_if",
]

if TYPE_CHECKING:
    from stallscope.actions.layout import layout
    from stallscope.actions.prefetch import prefetch_run
    from stallscope.advising import advise
    from stallscope.ahead import advise as prefetch_advise
    from stallscope.ahead import predict as prefetch_predict
    from stallscope.ahead import slices
    from stallscope.analyses.counters import counters
    from stallscope.analyses.doctor import Doctor
    from stallscope.analyses.evictions import evictions
    from stallscope.analyses.info import info
    from stallscope.analyses.levels import levels as replay
    from stallscope.analyses.loads import loads
    from stallscope.analyses.misses import misses
    from stallscope.analyses.objects import functions, lines, objects
    from stallscope.analyses.offsets import offsets
    from stallscope.analyses.page_allocation import allocate as page_allocation
    from stallscope.analyses.page_epochs import epochs as page_epochs
    from stallscope.analyses.page_prefetching import prefetching as page_prefetching
    from stallscope.analyses.page_replacement import replacement as page_replacement
    from stallscope.analyses.pages import pages
    from stallscope.analyses.regions import regions
    from stallscope.analyses.stalls import stalls
    from stallscope.analyses.verify import verify
    from stallscope.clustering import sharing
    from stallscope.comparing import check, diff, update_baseline
    from stallscope.counting import events
    from stallscope.errors import StallscopeError
    from stallscope.exploring import explore
    from stallscope.exporting import export
    from stallscope.living import monitor_live
    from stallscope.looping import loops
    from stallscope.measuring import page_overhead
    from stallscope.pipelines import core_view
    from stallscope.placing import place
    from stallscope.record import record
    from stallscope.record.importing import import_trace
    from stallscope.recording import Recording
    from stallscope.recording import open_recording as open
    from stallscope.reporting import report
    from stallscope.reusing import reuse
    from stallscope.scale import fleet
    from stallscope.scale.curves import curve_in_pieces, exact_curve
    from stallscope.scale.fleet_report import fleet_report
    from stallscope.scale.shards import replay_in_shards
    from stallscope.scale.sweep import sweep
    from stallscope.serving import what_if
    from stallscope.systems import monitor_run
    from stallscope.together import together
    from stallscope.viewing import page_view, view
    from stallscope.views.plots import plot
    from stallscope.watch_verb import watch_process, watch_program
    from stallscope.watching import watch

# Loaded when first used: importing stallscope stays cheap.
_HOMES = {
    "Recording": ("stallscope.recording", "Recording"),
    "StallscopeError": ("stallscope.errors", "StallscopeError"),
    "advise": ("stallscope.advising", "advise"),
    "check": ("stallscope.comparing", "check"),
    "core_view": ("stallscope.pipelines", "core_view"),
    "counters": ("stallscope.analyses.counters", "counters"),
    "diff": ("stallscope.comparing", "diff"),
    "curve_in_pieces": ("stallscope.scale.curves", "curve_in_pieces"),
    "events": ("stallscope.counting", "events"),
    "evictions": ("stallscope.analyses.evictions", "evictions"),
    "explore": ("stallscope.exploring", "explore"),
    "exact_curve": ("stallscope.scale.curves", "exact_curve"),
    "export": ("stallscope.exporting", "export"),
    "fleet": ("stallscope.scale.fleet", ""),  # the module: fleet.ingest, fleet.top, …
    "fleet_report": ("stallscope.scale.fleet_report", "fleet_report"),
    "functions": ("stallscope.analyses.objects", "functions"),
    "import_trace": ("stallscope.record.importing", "import_trace"),
    "info": ("stallscope.analyses.info", "info"),
    "layout": ("stallscope.actions.layout", "layout"),
    "lines": ("stallscope.analyses.objects", "lines"),
    "loads": ("stallscope.analyses.loads", "loads"),
    "loops": ("stallscope.looping", "loops"),
    "misses": ("stallscope.analyses.misses", "misses"),
    "monitor_live": ("stallscope.living", "monitor_live"),
    "monitor_run": ("stallscope.systems", "monitor_run"),
    "objects": ("stallscope.analyses.objects", "objects"),
    "offsets": ("stallscope.analyses.offsets", "offsets"),
    "open": ("stallscope.recording", "open_recording"),
    "page_allocation": ("stallscope.analyses.page_allocation", "allocate"),
    "page_epochs": ("stallscope.analyses.page_epochs", "epochs"),
    "page_overhead": ("stallscope.measuring", "page_overhead"),
    "page_prefetching": ("stallscope.analyses.page_prefetching", "prefetching"),
    "page_replacement": ("stallscope.analyses.page_replacement", "replacement"),
    "page_view": ("stallscope.viewing", "page_view"),
    "pages": ("stallscope.analyses.pages", "pages"),
    "place": ("stallscope.placing", "place"),
    "plot": ("stallscope.views.plots", "plot"),
    "prefetch_advise": ("stallscope.ahead", "advise"),
    "prefetch_predict": ("stallscope.ahead", "predict"),
    "prefetch_run": ("stallscope.actions.prefetch", "prefetch_run"),
    "record": ("stallscope.record", "record"),
    "regions": ("stallscope.analyses.regions", "regions"),
    "replay": ("stallscope.analyses.levels", "levels"),
    "report": ("stallscope.reporting", "report"),
    "replay_in_shards": ("stallscope.scale.shards", "replay_in_shards"),
    "reuse": ("stallscope.reusing", "reuse"),
    "sharing": ("stallscope.clustering", "sharing"),
    "slices": ("stallscope.ahead", "slices"),
    "stalls": ("stallscope.analyses.stalls", "stalls"),
    "sweep": ("stallscope.scale.sweep", "sweep"),
    "together": ("stallscope.together", "together"),
    "update_baseline": ("stallscope.comparing", "update_baseline"),
    "verify": ("stallscope.analyses.verify", "verify"),
    "view": ("stallscope.viewing", "view"),
    "watch": ("stallscope.watching", "watch"),
    "watch_process": ("stallscope.watch_verb", "watch_process"),
    "watch_program": ("stallscope.watch_verb", "watch_program"),
    "what_if": ("stallscope.serving", "what_if"),
}


def doctor() -> Doctor:
    """What works on this machine, why not, and what to do about it."""
    from stallscope.analyses.doctor import doctor as diagnose
    from stallscope.record.host import probe

    return diagnose(probe())


def load_ipython_extension(shell: Any) -> None:
    """For `%load_ext stallscope`: the magics %stallscope and %%stallscope."""
    from stallscope.notebook import load_ipython_extension as load

    load(shell)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stallscope' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    home = importlib.import_module(module)
    return getattr(home, attribute) if attribute else home
