"""Padding with a constant, or with values of the tensor itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_elements, check_whole
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.strings import is_text
from tapegrad.errors import ArgumentError, ArgumentKindError, ShapeError
from tapegrad.ops.creation import full_like, full_like_p, numpy_dtype_of
from tapegrad.ops.elementwise import arithmetic
from tapegrad.ops.indexing.gather import place_next_to, take_p
from tapegrad.ops.indexing.primitives import slice_set_p, unslice_p
from tapegrad.ops.indexing.runs import runs_of, take_runs_p

_MODES = {"REFLECT": "reflect", "SYMMETRIC": "symmetric", "EDGE": "edge", "WRAP": "wrap"}
_NUMBERS = (int, float, complex, np.number)


def pad(
    tensor: Any,
    paddings: Any,
    mode: str = "CONSTANT",
    constant_values: Any = 0,
    name: str | None = None,
) -> Any:
    """Return a tensor with `paddings[k] = (before, after)` entries added along each axis k.

    `mode` is CONSTANT, REFLECT, SYMMETRIC, EDGE or WRAP, as in NumPy.

    >>> pad([1.0, 2.0], [(1, 2)]).tolist()
    [0.0, 1.0, 2.0, 0.0, 0.0]
    """
    x = as_operand(tensor)
    pairs = padding_pairs(paddings, len(x.shape))
    check_elements("pad", [n + sum(pair) for n, pair in zip(x.shape, pairs, strict=True)])
    if str(mode).upper() not in ("CONSTANT", *_MODES):
        raise ArgumentError(f"mode must be one of CONSTANT, {', '.join(_MODES)}. Got {mode!r}.")
    if mode.upper() == "CONSTANT":
        return _pad_constant(x, pairs, constant_values)
    for axis, pair in enumerate(pairs):
        if any(pair):
            x = _pad_axis(x, axis, pair, _MODES[mode.upper()])
    return x


def padding_pairs(paddings: Any, rank: int) -> tuple[tuple[int, int], ...]:
    """Return one (before, after) pair per axis; a number or one pair applies to all axes."""
    array = np.asarray(paddings)
    if array.size and array.dtype.kind not in "iu":
        raise ArgumentKindError(f"pad needs integer paddings. Got {array.dtype}.")
    try:
        wanted = np.broadcast_to(array, (rank, 2)) if array.size else np.zeros((rank, 2), int)
    except ValueError as error:
        raise ShapeError(
            f"pad needs paddings of shape ({rank}, 2), one pair per axis. Got {array.shape}."
        ) from error
    if (wanted < 0).any():
        raise ShapeError(f"pad needs paddings of 0 or more. Got {paddings}.")
    return tuple(
        (check_whole("paddings", before), check_whole("paddings", after))
        for before, after in wanted
    )


def _pad_constant(x: Any, pairs: tuple[tuple[int, int], ...], value: Any) -> Any:
    index = tuple(slice(before, before + n) for (before, _), n in zip(pairs, x.shape, strict=True))
    shape = tuple(n + sum(pair) for n, pair in zip(x.shape, pairs, strict=True))
    if is_text(x) or isinstance(value, _NUMBERS):
        if not is_text(x) and value == 0:
            return unslice_p(x, index=index, shape=shape)
        filled = full_like_p(x, shape=shape, value=value, dtype=numpy_dtype_of(x))
        return slice_set_p(filled, x, index=index)
    # A tensor as fill value gets a gradient: the sum over the padding.
    inside = unslice_p(full_like(x, 1), index=index, shape=shape)
    outside = arithmetic.subtract(1, inside)
    padded = unslice_p(x, index=index, shape=shape)
    return arithmetic.add(padded, arithmetic.multiply(outside, value))


def _pad_axis(x: Any, axis: int, pair: tuple[int, int], mode: str) -> Any:
    length = x.shape[axis]
    if length == 0:
        raise ShapeError(
            f"pad with mode {mode.upper()} cannot extend axis {axis}, which has length 0."
        )
    positions = np.pad(np.arange(length), pair, mode=mode)  # type: ignore[call-overload]
    runs = runs_of(positions)
    if runs is not None:
        return take_runs_p(x, axis=axis, runs=runs)
    return take_p(x, place_next_to(x, positions), axis=axis)
