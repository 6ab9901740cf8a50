"""The backend's kernels by name: those written by hand, and those compiled from formulas.

Beside the names of primitives it answers to `NAME.vjp`, all rules of a primitive together, for an
elementwise one in one launch, and to `add.into`, a sum in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

# Makes expressions known to the generic kernels.
import tapegrad.core.expression_namespace  # noqa: F401
from tapegrad.core.c_source import statements
from tapegrad.core.expression import Expression, UntraceableError, array_input, number_input, traced
from tapegrad.core.primitive import PRIMITIVES, Primitive
from tapegrad_cupy import replay
from tapegrad_cupy.compiled import Source
from tapegrad_cupy.copies import contiguous_copy
from tapegrad_cupy.elementwise.accumulate import add_into
from tapegrad_cupy.elementwise.formula import (
    DTYPES,
    Formula,
    Formulas,
    joined_variants,
    whole_operands,
)
from tapegrad_cupy.elementwise.vjp import Vjp

Function = Callable[..., Any]

_CASTS = frozenset({"cast", "cast_to_integer"})
_IN_C = frozenset({"erf", "erfc", "erfcinv", "erfcx", "erfinv", "ndtr"})
"""Primitives with a kernel that are also functions of CUDA, for the dtypes that it has."""


class KernelTable(Mapping[str, Function]):
    """Kernels by name; formulas are made when they are first asked for."""

    def __init__(self, own: Mapping[str, Function], planned: Mapping[str, int], xp: Any) -> None:
        """Replay the `planned` ones, with copies of operands of up to so many bytes."""
        self._own = dict(own)
        for name, most in planned.items():
            self._own[name] = replay.planned(own[name], contiguous_copy, most)
        self._xp = xp
        self._made: dict[str, Function] = {"add.into": add_into}

    def __getitem__(self, name: str) -> Function:
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._make(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def _make(self, name: str) -> Function:
        if name.endswith(".vjp") and name not in self._own:
            primitive = PRIMITIVES[name.removesuffix(".vjp")]
            if not primitive.broadcasts or primitive.vjp_rules is None:
                raise KeyError(name)
            return Vjp(primitive)
        elementwise = PRIMITIVES.get(name)
        if elementwise is None or not (elementwise.broadcasts or name in _CASTS):
            return self._own[name]
        own = self._own.get(name)
        if own is not None and name not in _IN_C:
            return own
        otherwise = own or self._generic(elementwise)
        try:
            return Formula(elementwise.kernel(Expression), otherwise)
        except UntraceableError:
            return Formula(_untraceable, otherwise)

    def _generic(self, primitive: Primitive) -> Function:
        if primitive.forward is not None:
            return partial(primitive.forward, self._xp)
        return getattr(self._xp, primitive.name)  # type: ignore[no-any-return]


def _untraceable(*operands: Any, **params: Any) -> Any:
    raise UntraceableError("There is no formula for this function.")


def variants() -> Iterator[Source]:
    """Yield the forward kernels of all elementwise primitives."""
    formulas: dict[str, Formulas] = {dtype: [] for dtype in DTYPES}
    for dtype, found in formulas.items():
        for primitive in PRIMITIVES.values():
            if primitive.broadcasts and primitive.vjp_rules is not None:
                formula = _forward(primitive, np.dtype(dtype))
                if formula is not None:
                    found.append(formula)
    yield from joined_variants("forward", formulas)


def _forward(primitive: Primitive, dtype: Any) -> Any:
    """What the kernel of a primitive computes; None if it cannot be traced."""
    inputs = [array_input(i, dtype) for i in range(len(primitive.vjp_rules or ()))]
    names = _params(primitive.forward)
    numbers = {name: number_input(len(inputs) + k, float) for k, name in enumerate(names)}
    try:
        outputs = traced(primitive.kernel(Expression), *inputs, **numbers)
        statements(outputs, [f"a{i}" for i in range(len(inputs) + len(names))])
    except UntraceableError:
        return None
    if outputs[0].name == "input":
        return None
    return outputs, whole_operands([*inputs, *numbers.values()])


def _params(forward: Any) -> tuple[str, ...]:
    code = getattr(forward, "__code__", None)
    if code is None:
        return ()
    first = code.co_argcount
    return tuple(code.co_varnames[first : first + code.co_kwonlyargcount])
