"""Draws of whole numbers from ranges, and of elements and orders of arrays."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from tapegrad.core.convert import read_on_host
from tapegrad.core.dtypes import numpy_dtype
from tapegrad.core.operand import normalize_axis
from tapegrad.errors import ArgumentError
from tapegrad.numpy.counts import Counts
from tapegrad.numpy.indexing import take_along_axis
from tapegrad.numpy.streams import shape_of
from tapegrad.numpy.values import as_array, deliver, floating, is_array, with_dtype
from tapegrad.ops import random_draws as draws
from tapegrad.ops.exponential import log
from tapegrad.ops.indexing import getitem, setitem
from tapegrad.ops.picking import take
from tapegrad.ops.rounding import mod
from tapegrad.ops.shape import moveaxis, reshape
from tapegrad.ops.sorting import argsort_p


class Draws(Counts):
    """All distributions, and choices among given things."""

    def _integers(self, low: Any, high: Any, size: Any, dtype: Any, endpoint: bool) -> Any:
        if high is None:
            low, high = 0, low
        kind = np.dtype(numpy_dtype(dtype))
        drawn_as = np.dtype("uint8") if kind.kind == "b" else kind
        if np.ndim(low) == np.ndim(high) == 0 and not is_array(low):
            last = int(high) + 1 if endpoint else int(high)
            drawn = draws.draw_integers(self.stream, shape_of(size, 0), int(low), last, drawn_as)
            return with_dtype(drawn, kind)
        low, high = with_dtype(as_array(low), "int64"), with_dtype(as_array(high), "int64")
        span = high - low + (1 if endpoint else 0)
        # A word of 63 bits modulo the span: no number is favoured by more than span / 2 ** 63.
        words = draws.draw_integers(
            self.stream, shape_of(size, low, high), 0, np.iinfo("int64").max, "int64"
        )
        return with_dtype(low + mod(words, span), kind)

    def bytes(self, length: int) -> bytes:
        """Draw bytes, on the host."""
        drawn = draws.draw_full_int(self.stream, (int(length),), "uint8")
        return read_on_host(drawn, "bytes()").tobytes()

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Return the numbers below `x`, or the slices of an array, in random order."""
        if _is_whole(x):
            return self._order((operator.index(x),))
        values = as_array(x)
        return take(values, self._order((values.shape[axis],)), axis)

    def _order(self, shape: tuple[int, ...], axis: int = 0) -> Any:
        """Return places along an axis in random order, each row of them by itself."""
        # Whole words: two that are equal, which would be left in their order, hardly ever come.
        keys = draws.draw_full_int(self.stream, shape, "int64")
        return argsort_p(keys, axis=axis, descending=False, stable=True)

    def permuted(self, x: Any, axis: int | None = None, out: Any = None) -> Any:
        """Return an array with the elements along an axis in random order, each row by itself."""
        values = as_array(x)
        shape = tuple(values.shape)
        if axis is None:
            flat = reshape(values, (-1,))
            return deliver(reshape(take(flat, self._order(tuple(flat.shape)), 0), shape), out)
        axis = normalize_axis(axis, len(shape), "permuted")
        return deliver(take_along_axis(values, self._order(shape, axis), axis), out)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Put the slices of an array, or the entries of a list, into random order, in place."""
        if is_array(x):
            setitem(x, ..., self.permutation(x, axis))
            return
        count = x.shape[axis] if isinstance(x, np.ndarray) else len(x)
        order = read_on_host(self._order((count,)), "shuffle()")
        if isinstance(x, np.ndarray):
            x[...] = np.take(x, order, axis)
        else:
            x[:] = [x[k] for k in order]

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0,
        shuffle: bool = True,
    ) -> Any:  # fmt: skip
        """Draw from the numbers below `a` or from the slices of an array, with chances `p`.

        Draws without replacement are in random order in any case.
        """
        values = as_array(np.arange(operator.index(a))) if _is_whole(a) else as_array(a)
        count, shape = values.shape[axis], shape_of(size, 0)
        wanted = int(np.prod(shape))
        if not replace and wanted > count:
            raise ArgumentError(f"choice cannot draw {wanted} of {count} without replacement.")
        if wanted and not count:
            raise ArgumentError("choice needs at least one thing to draw from. Got none.")
        _check_chances(p, count, wanted if not replace else 0)
        places = self._places(count, wanted, replace, p)
        moved = moveaxis(values, axis, 0)
        taken = getitem(moved, reshape(places, shape))
        return moveaxis(taken, 0, axis) if axis and len(shape) == 1 else taken

    def _places(self, count: int, wanted: int, replace: bool, p: Any) -> Any:
        if not replace and p is None:
            return self._order((count,))[:wanted]
        if not replace:
            # Keys of Gumbel's distribution: the largest are a draw with the right chances.
            keys = self.gumbel(size=(count,)) + log(floating(p))
            return argsort_p(keys, axis=0, descending=True, stable=True)[:wanted]
        if p is None:
            return draws.draw_integers(self.stream, (wanted,), 0, count, "int64")
        logits = reshape(log(floating(p)), (1, count))
        return draws.draw_categorical(self.stream, logits, wanted, None)

    def _random(self, size: Any, dtype: Any = "float64") -> Any:
        return self._uniform(() if size is None else shape_of(size), numpy_dtype(dtype))


LARGEST_INT = sys.maxsize


def _is_whole(x: Any) -> bool:
    return isinstance(x, int | np.integer)


def _check_chances(p: Any, count: int, wanted: int) -> None:
    """Refuse chances that are none, where they are not on a device yet."""
    if p is None or is_array(p):
        return
    chances = np.asarray(p, dtype=float)
    if chances.shape != (count,):
        raise ArgumentError(f"p needs a chance for each of {count} things. Got {chances.shape}.")
    if not np.all(chances >= 0) or abs(chances.sum() - 1.0) > 1e-6:
        raise ArgumentError(f"p must be chances that add up to 1. Got the sum {chances.sum():g}.")
    if np.count_nonzero(chances) < wanted:
        raise ArgumentError(f"p has fewer chances above 0 than the {wanted} draws wanted.")
