"""Let passes and loops begin at the smallest sizes, so that small random programs reach them.

A pass that pays off only for large arrays has a constant for the least size. Random programs are
small, because many of them have to run. Without this module most passes would never see one.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator

SMALLEST = {
    "tapegrad.program.passes.planes": {"LEAST": 1},
    "tapegrad.program.passes.components": {"LEAST": 1},
    "tapegrad.program.passes.broadcasts": {"LEAST": 1, "SMALLER": 2},
    "tapegrad.program.passes.nested_sums": {"LEAST": 1},
    "tapegrad.program.passes.thin_products": {"FEWEST": 1},
    "tapegrad.program.passes.products": {"FEWEST": 2},
    "tapegrad.program.passes.runs": {"SHORTEST": 1},
    "tapegrad.program.loops.counted": {"LEAST_CALLS": 0},
    "tapegrad.program.loops.recorded": {"LEAST_ROUNDS": 1},
    "tapegrad.program.loops.segments": {"LEAST_ROUNDS": 2},
    "tapegrad.program.fusion.repeated_parts": {"LEAST_CALLS": 10},
}
"""Modules, their constants and the smallest value of each."""


@contextlib.contextmanager
def lowered(names: frozenset[str] = frozenset(SMALLEST)) -> Iterator[None]:
    """Set the constants of these modules to their smallest values within a block."""
    before = []
    for name in names:
        module = importlib.import_module(name)
        for constant, least in SMALLEST[name].items():
            before.append((module, constant, getattr(module, constant)))
            setattr(module, constant, least)
    try:
        yield
    finally:
        for module, constant, value in before:
            setattr(module, constant, value)
