"""Random integers, permutations and choices."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.errors import ArgumentError
from tapegrad.numpy.counts import Counts
from tapegrad.numpy.indexing import take_along_axis
from tapegrad.numpy.streams import shape_of
from tapegrad.numpy.values import as_array, deliver, floating, is_array, with_dtype
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.rounding import mod
from tapegrad.ops.indexing.functions import getitem, setitem
from tapegrad.ops.indexing.slices_and_masks import take
from tapegrad.ops.indexing.sorting import argsort_p
from tapegrad.ops.random import primitives as draws
from tapegrad.ops.shape.functions import moveaxis, reshape


class Draws(Counts):
    """All distributions, and random choices from given values."""

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
        # 63 random bits modulo the span: the bias is at most span / 2 ** 63.
        words = draws.draw_integers(
            self.stream, shape_of(size, low, high), 0, np.iinfo("int64").max, "int64"
        )
        return with_dtype(low + mod(words, span), kind)

    def bytes(self, length: int) -> bytes:
        """Draw random bytes, on the host."""
        drawn = draws.draw_full_int(self.stream, (int(length),), "uint8")
        return read_on_host(drawn, "bytes()").tobytes()

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """Return the integers below `x`, or the slices of an array, in random order."""
        if _is_whole(x):
            return self._order((operator.index(x),))
        values = as_array(x)
        return take(values, self._order((values.shape[axis],)), axis)

    def _order(self, shape: tuple[int, ...], axis: int = 0) -> Any:
        """Return the indices along an axis in random order, independently for each row."""
        # 64-bit keys: equal keys, which would keep their order, are very unlikely.
        keys = draws.draw_full_int(self.stream, shape, "int64")
        return argsort_p(keys, axis=axis, descending=False, stable=True)

    def permuted(self, x: Any, axis: int | None = None, out: Any = None) -> Any:
        """Permute the elements along an axis at random, independently for each row."""
        values = as_array(x)
        shape = tuple(values.shape)
        if axis is None:
            flat = reshape(values, (-1,))
            return deliver(reshape(take(flat, self._order(tuple(flat.shape)), 0), shape), out)
        axis = normalize_axis(axis, len(shape), "permuted")
        return deliver(take_along_axis(values, self._order(shape, axis), axis), out)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """Shuffle the slices of an array, or the entries of a list, in place."""
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
        """Draw from the integers below `a` or from the slices of an array, with probabilities `p`.

        Without replacement, the result is in random order.
        """
        is_count = _is_whole(a) or np.shape(a) == ()
        values = as_array(np.arange(operator.index(a))) if is_count else as_array(a)
        count, shape = values.shape[axis], shape_of(size, 0)
        wanted = int(np.prod(shape))
        if not replace and wanted > count:
            raise ArgumentError(f"choice cannot draw {wanted} of {count} without replacement.")
        if wanted and not count:
            raise ArgumentError("choice needs at least one item to draw from. Got none.")
        _check_chances(p, count, wanted if not replace else 0)
        places = self._places(count, wanted, replace, p)
        moved = moveaxis(values, axis, 0)
        taken = getitem(moved, reshape(places, shape))
        return moveaxis(taken, 0, axis) if axis and len(shape) == 1 else taken

    def _places(self, count: int, wanted: int, replace: bool, p: Any) -> Any:
        if not replace and p is None:
            return self._order((count,))[:wanted]
        if not replace:
            # Gumbel keys: the items with the largest keys have the right probabilities.
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
    """Raise for invalid probabilities, unless they are on a device."""
    if p is None or is_array(p):
        return
    chances = np.asarray(p, dtype=float)
    if chances.shape != (count,):
        raise ArgumentError(f"p needs one probability per item, {count}. Got {chances.shape}.")
    if not np.all(chances >= 0) or abs(chances.sum() - 1.0) > 1e-6:
        raise ArgumentError(f"The probabilities p must add up to 1. Got the sum {chances.sum():g}.")
    if np.count_nonzero(chances) < wanted:
        raise ArgumentError(f"p has fewer nonzero probabilities than the {wanted} draws.")
