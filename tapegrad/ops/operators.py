"""Python's operators on tensors and variables: one table, no maths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.tensor import Tensor
from tapegrad.core.variable import Variable
from tapegrad.ops import arithmetic


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def call(self: Any, other: Any) -> Any:
        return function(other, self)

    return call


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
    "truediv": arithmetic.divide,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": arithmetic.negative,
    "pos": arithmetic.positive,
}


def bind_operators(kind: type) -> None:
    """Give a class of values all operators."""
    for name, function in BINARY.items():
        setattr(kind, f"__{name}__", function)
        setattr(kind, f"__r{name}__", _swapped(function))
    for name, unary in UNARY.items():
        setattr(kind, f"__{name}__", unary)


bind_operators(Tensor)
bind_operators(Variable)
bind_operators(IndexedSlices)
