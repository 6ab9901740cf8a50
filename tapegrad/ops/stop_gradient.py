"""The two functions that return their argument: one cuts the tape, one does not."""

from __future__ import annotations

from typing import Any

from tapegrad.core.families import unary


def _same(xp: Any, x: Any) -> Any:
    return x


stop_gradient = unary(
    "stop_gradient",
    None,
    forward=_same,
    doc="Return the input as a constant: nothing flows back.",
    names=("input",),
)
identity = unary(
    "identity",
    lambda t: t,
    forward=_same,
    doc="Return the input as a new tensor with its own gradient.",
    names=("input",),
)
