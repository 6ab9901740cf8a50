"""Self-checks of the NumPy backend, for `tapegrad info`: which fast paths are off, and why."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.ownership import info_rows
from tapegrad.core.trace.expression import array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad_numpy.loops import compiler, direct_calls
from tapegrad_numpy.loops.compile import make_all
from tapegrad_numpy.ownership import check_views


def failed_checks() -> list[tuple[str, str]]:
    """Return the name and the state of each fast path that is off."""
    check_views()
    dtype = np.dtype(np.float64)
    given, formula = LoopInput((2,), (2,), dtype), array_input(0, dtype) * 2.0
    # Direct calls are checked when the first compiled loop is loaded.
    make_all([Loop((2,), (given,), (LoopOutput(formula, (2,)),))])
    why = direct_calls.why_not_used()
    text = f"off: compiled loops are called by ctypes, because {why}"
    return [*([("direct calls", text)] if why else []), *info_rows()]


def libraries() -> list[tuple[str, str]]:
    """Return the name and the state of what the speed on the CPU depends on."""
    found = compiler.find()
    missing = "none: functions run without fused loops. Install gcc or clang, or set CC"
    return [
        ("BLAS", _blas()),
        ("C compiler", missing if found is None else " ".join(found.command)),
        *failed_checks(),
    ]


def _blas() -> str:
    """Return the name and the version of the BLAS library that NumPy was built with."""
    settings: Any = np.show_config(mode="dicts")
    blas = settings.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()
