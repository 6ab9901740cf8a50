"""Normalisation of large arrays along axes before others, as in batch and group norms.

The array is `outer` blocks of `length` rows. A row has `groups` groups of `width` neighbouring
columns, and each block normalises each group: statistics of columns are sums of rows in compiled
loops, and those of groups are sums of a few columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.trace.expression import EXPRESSIONS, array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad_numpy.kernels.half import accumulator, is_half
from tapegrad_numpy.loops.compile import make_all

Run = Callable[..., Any]
Shape = tuple[int, ...]

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Columns(NamedTuple):
    """How an array lies along the axes of a normalisation."""

    outer: int
    length: int
    groups: int
    width: int
    rest: Shape
    """The sizes of the axes of a row."""

    def of_groups(self, columns: Any) -> Any:
        """Return means of groups from sums of columns."""
        count = self.length * self.width
        return columns.reshape(self.outer, self.groups, self.width).sum(2) / count

    def of_columns(self, groups: Any, dtype: Any) -> Any:
        """Repeat values of groups for their columns."""
        values = np.asarray(groups, dtype).reshape(self.outer, self.groups)
        return np.repeat(values, self.width, 1).reshape(self.outer, 1, -1)


def columns_of(shape: Shape, axes: Sequence[int]) -> Columns | None:
    """Return how an array of a shape is normalised; None unless rows come before other axes."""
    first = min(axes)
    middle = first
    while middle < len(shape) and middle in axes:
        middle += 1
    last = [axis for axis in axes if axis >= middle]
    end = len(shape) - len(last)
    if middle == len(shape) or any(axis < end for axis in last):
        return None
    outer, length = prod(shape[:first]), prod(shape[first:middle])
    return Columns(outer, length, prod(shape[middle:end]), prod(shape[end:]), shape[middle:])


def _per_column(array: Any, columns: Columns) -> Any:
    """Return an array with an entry for each column; None if rows or blocks differ."""
    extra = max(0, array.ndim - len(columns.rest))
    if prod(array.shape[:extra]) != 1:
        return None
    return np.broadcast_to(array.reshape(array.shape[extra:]), columns.rest).reshape(-1)


def _reduced(sums: Any, shape: Shape, columns: Columns) -> Any:
    """Sum entries of columns of blocks to an array of a shape that broadcasts to a row."""
    own = (*(1,) * (len(columns.rest) - len(shape)), *shape)[-len(columns.rest) :]
    total = sums.reshape(columns.outer, *columns.rest).sum(0)
    axes = tuple([k for k, size in enumerate(own) if size == 1])
    return total.sum(axes).reshape(shape)


class _Loops:
    """Makes loops over blocks, rows and columns, of whole arrays and arrays of columns."""

    def __init__(self, x: Any, columns: Columns) -> None:
        self.dtype, self.wide = x.dtype, accumulator(x.dtype)
        width = columns.groups * columns.width
        self._whole = (columns.outer, columns.length, width)
        self._row = (columns.outer, 1, width)

    def make(self, whole: int, formulas: Sequence[Any], *, is_sum: bool) -> Run | None:
        """Compile formulas of some whole arrays and of as many arrays of columns as they take."""
        count = formulas[0].__code__.co_argcount
        inputs = [LoopInput(self._whole, self._whole, self.dtype)] * whole
        inputs += [LoopInput(self._row, self._row, self.wide)] * (count - whole)
        values = [
            EXPRESSIONS.xp.astype(array_input(k, one.dtype), self.wide)
            for k, one in enumerate(inputs)
        ]
        made = [formula(*values) for formula in formulas]
        if is_sum:
            shape = (self._whole[0], self._whole[2])
            outputs = [LoopOutput(value, shape, "add", (1,)) for value in made]
        else:
            made = [EXPRESSIONS.xp.astype(value, self.dtype) for value in made]
            outputs = [LoopOutput(value, self._whole) for value in made]
        return make_all([Loop(self._whole, tuple(inputs), tuple(outputs))])[0]

    def of(self, array: Any) -> Any:
        """Return an array as the loops read it."""
        return array.reshape(self._whole)


def normalize_columns(operands: Sequence[Any], params: Mapping[str, Any]) -> Run | None:
    """Return the function of a normalisation, None where there is no loop for it."""
    x, gain, bias = operands
    columns = columns_of(x.shape, params["axes"])
    if columns is None or not (x.dtype in _FLOATS or is_half(x.dtype)):
        return None
    used = [a for a, is_used in ((gain, params["scaled"]), (bias, params["shifted"])) if is_used]
    if any(_per_column(array, columns) is None for array in used):
        return None
    loops = _Loops(x, columns)
    total = loops.make(1, [lambda x: x], is_sum=True)
    squares = loops.make(1, [lambda x, mean: (x - mean) * (x - mean)], is_sum=True)
    scaled = loops.make(1, [lambda x, mean, a, b: (x - mean) * a + b], is_sum=False)
    if total is None or squares is None or scaled is None:
        return None
    wide, left = loops.wide, _left(x.shape, params["axes"])

    def call(x: Any, gain: Any, bias: Any) -> Any:
        given = loops.of(x)
        mean = np.zeros((columns.outer, columns.groups), wide)
        if params["center"]:
            mean = columns.of_groups(total((given,), (None,))[0])
        middle = columns.of_columns(mean, wide)
        variance = columns.of_groups(squares((given, middle), (None,))[0])
        factor = columns.of_columns(1 / np.sqrt(variance + params["epsilon"]), wide)
        if params["scaled"]:
            factor = factor * _per_column(gain, columns).astype(wide, copy=False)
        shift = np.zeros_like(factor)
        if params["shifted"]:
            shift += _per_column(bias, columns)
        y = np.empty(x.shape, x.dtype)
        scaled((given, middle, factor, shift), (loops.of(y),))
        return y, mean.reshape(left).astype(wide), variance.reshape(left).astype(wide)

    return call


def normalize_columns_gradient(operands: Sequence[Any], params: Mapping[str, Any]) -> Run | None:
    """Return the function of the gradients, None where there are no loops for them."""
    t, x, gain, _, _ = operands
    columns = columns_of(x.shape, params["axes"])
    if columns is None or not (x.dtype in _FLOATS or is_half(x.dtype)):
        return None
    if (t.dtype, t.shape) != (x.dtype, x.shape):
        return None
    shapes = [np.empty(shape) for shape in (gain.shape, params["bias_shape"])]
    if any(_per_column(array, columns) is None for array in shapes):
        return None
    loops = _Loops(x, columns)
    sums = loops.make(2, [lambda t, x, mean: t, lambda t, x, mean: t * (x - mean)], is_sum=True)
    whole = loops.make(2, [lambda t, x, mean, p, q, r: t * p - (x - mean) * q - r], is_sum=False)
    if sums is None or whole is None:
        return None
    wide = loops.wide

    def call(t: Any, x: Any, gain: Any, mean: Any, variance: Any) -> Any:
        given = loops.of(t), loops.of(x)
        middle = columns.of_columns(mean, wide)
        scale = columns.of_columns(1 / np.sqrt(variance + params["epsilon"]), wide)
        for_bias, for_gain = sums((*given, middle), (None, None))
        for_gain = for_gain * scale[:, 0]
        factor = scale
        inner, product = for_bias, for_gain
        if params["scaled"]:
            weights = _per_column(gain, columns).astype(wide, copy=False)
            factor, inner, product = scale * weights, for_bias * weights, for_gain * weights
        slope = columns.of_columns(columns.of_groups(product), wide) * scale * scale
        constant = np.zeros_like(scale)
        if params["center"]:
            constant = columns.of_columns(columns.of_groups(inner), wide) * scale
        g = np.empty(x.shape, x.dtype)
        whole((*given, middle, factor, slope, constant), (loops.of(g),))
        own = gain.dtype if params["scaled"] else x.dtype
        return (
            g,
            _reduced(for_gain, gain.shape, columns).astype(gain.dtype, copy=False),
            _reduced(for_bias, tuple(params["bias_shape"]), columns).astype(own, copy=False),
        )

    return call


def _left(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple([n for k, n in enumerate(shape) if k not in axes])
