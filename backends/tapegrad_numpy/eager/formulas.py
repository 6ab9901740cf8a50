"""Elementwise kernels that compute large arrays by compiled loops, small ones by NumPy.

A loop needs one pass where NumPy needs one per operation, and uses several threads. It is compiled
when a formula first meets a large array of some dtype, and kept on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

# Registers expressions with the generic kernels.
import tapegrad.core.trace.expression_namespace  # noqa: F401
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.core.trace.expression import Expression, UntraceableError, array_input, traced
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad.errors import ShapeError
from tapegrad_numpy.eager.sizes import LARGE, LARGE_FOR_MANY, MANY_PASSES
from tapegrad_numpy.kernels.half import is_half
from tapegrad_numpy.loops.compile import make_all

Kernel = Callable[..., Any]

MOST_PLANS, _MOST_CONSTANTS = 512, 16
"""The shapes, and the values of params, for which a formula keeps loops."""

_ndarray = np.ndarray
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class _Plan(NamedTuple):
    """A compiled loop for operands of some shapes."""

    run: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]
    dtype: np.dtype[Any]
    """Of Python's numbers among the operands."""
    shape: tuple[int, ...]
    results: tuple[np.dtype[Any], ...]
    is_tuple: bool


class Formula:
    """A formula of elements: the kernel of a primitive, compiled per layout of its operands."""

    def __init__(self, name: str, plain: Kernel) -> None:
        self.name = name
        self.plain = plain
        self._plans: dict[Any, _Plan | None] = {}
        self._constants: set[Any] = set()

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """Compute operands of which one is large."""
        key: list[Any] = []
        given, operands = operands, _without_repeats(operands)
        for operand in operands:
            if type(operand) is _ndarray:
                if not operand.flags.c_contiguous:
                    return self.plain(*given, **params)
                key.append(operand.dtype)
                key.append(operand.shape)
            else:
                key.append(type(operand))
        constants = tuple(params.items())
        try:
            plan = self._plans.get((constants, *key), self)
        except TypeError:  # a param without a hash
            return self.plain(*operands, **params)
        if plan is self:
            plan = self._new_plan((constants, *key), operands, params)
        if plan is None:
            return self.plain(*operands, **params)
        try:
            return self._run(plan, operands)
        except ShapeError:  # an array that is not aligned, or whose dtype is another object
            return self.plain(*operands, **params)

    def _run(self, plan: Any, operands: Sequence[Any]) -> Any:
        arrays = [
            operand if hasattr(operand, "dtype") else np.asarray(operand, plan.dtype)
            for operand in operands
        ]
        targets = [np.empty(plan.shape, dtype) for dtype in plan.results]
        results = plan.run(arrays, targets)
        return results if plan.is_tuple else results[0]

    def _new_plan(self, key: Any, operands: Sequence[Any], params: dict[str, Any]) -> _Plan | None:
        constants = key[0]
        if constants not in self._constants:
            if len(self._constants) >= _MOST_CONSTANTS:
                return None  # each value would be compiled
            self._constants.add(constants)
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        try:
            plan = self._plan(operands, params)
        except UntraceableError:
            plan = None
        self._plans[key] = plan
        return plan

    def _plan(self, operands: Sequence[Any], params: dict[str, Any]) -> _Plan | None:
        least = min(LARGE, LARGE_FOR_MANY) if self.name in MANY_PASSES else LARGE
        dtype = _number_dtype(operands, least)
        if dtype is None:
            return None
        dtypes = [operand.dtype if hasattr(operand, "dtype") else dtype for operand in operands]
        inputs = [array_input(i, own) for i, own in enumerate(dtypes)]
        kernel = PRIMITIVES[self.name].kernel(Expression)
        expressions = traced(kernel, *inputs, **params)
        shapes = [np.shape(operand) for operand in operands]
        shape = np.broadcast_shapes(*shapes)
        space, seen = _flattened(shape, shapes)
        loop = Loop(
            space,
            tuple([LoopInput(one, one, own) for one, own in zip(seen, dtypes)]),
            tuple([LoopOutput(expression, space) for expression in expressions]),
        )
        (run,) = make_all([loop])
        if run is None:
            return None
        results = tuple([output.dtype for output in loop.outputs])
        return _Plan(run, dtype, shape, results, PRIMITIVES[self.name].many)


def _without_repeats(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one number for an array that repeats it, such as the gradient of a sum.

    Another operand has the whole shape.
    """
    arrays = [operand for operand in operands if type(operand) is _ndarray]
    if all([array.flags.c_contiguous for array in arrays]):
        return operands
    whole = [array.shape for array in arrays if array.flags.c_contiguous]
    return tuple([
        operand[(0,) * operand.ndim]
        if type(operand) is _ndarray and operand.shape in whole and not any(operand.strides)
        else operand
        for operand in operands
    ])  # fmt: skip


def _number_dtype(operands: Sequence[Any], least: int) -> np.dtype[Any] | None:
    """The dtype of Python's numbers among the operands; None if loops do not take the operands."""
    arrays = [operand for operand in operands if hasattr(operand, "dtype")]
    dtypes = [array.dtype for array in arrays]
    if any(dtype.kind not in "fbiuV" for dtype in dtypes):
        return None
    if any(isinstance(operand, complex) for operand in operands):
        return None
    floats = {
        array.dtype
        for array in arrays
        if array.size >= least and (array.dtype in _FLOATS or is_half(array.dtype))
    }
    has_numbers = len(dtypes) < len(operands)
    if not floats or (has_numbers and len({*dtypes}) > 1):
        return None
    dtype: np.dtype[Any] = floats.pop()
    return dtype


def _flattened(
    shape: tuple[int, ...], shapes: Sequence[tuple[int, ...]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The space of a loop: of one axis if all operands have its shape or one element."""
    size = math.prod(shape)
    if all(own == shape or math.prod(own) == 1 for own in shapes):
        return (size,), [(size,) if own == shape else () for own in shapes]
    return shape, list(shapes)
