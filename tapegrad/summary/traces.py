"""TensorFlow's functions for graphs and profiles in event files: accepted, with a warning."""

from __future__ import annotations

from typing import Any

from tapegrad.core.call_site import warn_outside


def trace_on(graph: bool = True, profiler: bool = False, profiler_outdir: Any = None) -> None:
    """Accept TensorFlow's request to write a graph, and warn that none is written.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     trace_on()
    >>> print(caught[0].message)
    Graphs are not written to event files. explain() of a tapegrad.function shows its programs.
    """
    warn_outside(
        "Graphs are not written to event files. explain() of a tapegrad.function shows its "
        "programs.",
    )


def trace_off() -> None:
    """Accept the end of a trace; there is nothing to do.

    >>> trace_off()
    """


def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """Accept the export of a trace; `trace_on` has warned that there is none.

    >>> trace_export("graph")
    """
