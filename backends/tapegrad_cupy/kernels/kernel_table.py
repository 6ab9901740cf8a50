"""The kernels of the backend by primitive name: hand-written or compiled from formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

# Registers expressions with the generic kernels.
import tapegrad.core.trace.expression_namespace  # noqa: F401
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.core.trace.c_source import statements
from tapegrad.core.trace.expression import (
    Expression,
    UntraceableError,
    array_input,
    number_input,
    traced,
)
from tapegrad_cupy.kernels.copying.copies import contiguous_copy
from tapegrad_cupy.kernels.elementwise.formula import (
    DTYPES,
    Formula,
    Formulas,
    batched_variants,
    whole_operands,
)
from tapegrad_cupy.launch import replay
from tapegrad_cupy.launch.cuda_source import Source

Function = Callable[..., Any]

_CASTS = frozenset({"cast", "cast_to_integer"})
_CUDA_FUNCTIONS = frozenset({"erf", "erfc", "erfcinv", "erfcx", "erfinv", "ndtr"})
"""Primitives with a kernel that CUDA also has as functions, for some dtypes."""


class KernelTable(Mapping[str, Function]):
    """Kernels by name. A formula is created at its first lookup."""

    def __init__(self, own: Mapping[str, Function], replayed: Mapping[str, int], xp: Any) -> None:
        """Replay the kernels in `replayed`, with copies of operands of at most that many bytes."""
        self._own = dict(own)
        for name, most in replayed.items():
            self._own[name] = replay.with_replay(own[name], contiguous_copy, most)
        self._xp = xp
        self._made: dict[str, Function] = {}

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
        elementwise = PRIMITIVES.get(name)
        if elementwise is None or not (elementwise.broadcasts or name in _CASTS):
            return self._own[name]
        own = self._own.get(name)
        if own is not None and name not in _CUDA_FUNCTIONS:
            return own
        otherwise = own or self._generic(elementwise)
        try:
            return Formula(elementwise.kernel(Expression), otherwise)
        except UntraceableError:
            return Formula(_untraceable, otherwise)

    def _generic(self, primitive: Primitive) -> Function:
        return primitive.generic_kernel(self._xp)


def _untraceable(*operands: Any, **params: Any) -> Any:
    raise UntraceableError("This function has no formula.")


def variants() -> Iterator[Source]:
    """Yield the forward kernels of all elementwise primitives."""
    formulas: dict[str, Formulas] = {dtype: [] for dtype in DTYPES}
    for dtype, found in formulas.items():
        for primitive in PRIMITIVES.values():
            if primitive.broadcasts and primitive.vjp_rules is not None:
                formula = _forward(primitive, np.dtype(dtype))
                if formula is not None:
                    found.append(formula)
    yield from batched_variants("forward", formulas)


def _forward(primitive: Primitive, dtype: Any) -> Any:
    """Return the expressions of a primitive's kernel, or None if it cannot be traced."""
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
