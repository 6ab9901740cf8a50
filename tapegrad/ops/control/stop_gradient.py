"""stop_gradient and identity, which return their argument without and with a gradient."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import unary


def _same(xp: Any, x: Any) -> Any:
    return x


stop_gradient = unary(
    "stop_gradient",
    None,
    forward=_same,
    doc="Return the input as a constant, which has no gradient.",
    names=("input",),
)
identity = unary(
    "identity",
    lambda t: t,
    forward=_same,
    doc="Return the input as a new tensor with a separate gradient.",
    names=("input",),
)
