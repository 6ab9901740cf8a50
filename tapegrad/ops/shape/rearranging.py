"""Moving and repeating entries: flip, roll, tile, repeat, meshgrid, space_to_depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice, check_count, check_wholes
from tapegrad.core.primitive.families import linear
from tapegrad.core.primitive.operand import as_operand, normalize_axes, normalize_axis
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import as_shape, constant
from tapegrad.ops.indexing.gather import place_next_to, take_p
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.shape.functions import ravel
from tapegrad.ops.shape.padding import pad, padding_pairs
from tapegrad.ops.shape.primitives import broadcast_p, permute_p, reshape_p

flip_p: Primitive = linear(
    "flip",
    lambda xp, x, *, axis: xp.flip(x, axis=axis),
    transpose=lambda t, *, axis: flip_p(t, axis=axis),
    batch=lambda size, batched, x, *, axis: flip_p(x, axis=tuple(a + 1 for a in axis)),
)

roll_p: Primitive = linear(
    "roll",
    lambda xp, x, *, shift, axis: xp.roll(x, shift, axis=axis),
    transpose=lambda t, *, shift, axis: roll_p(t, shift=tuple(-s for s in shift), axis=axis),
    batch=lambda size, batched, x, *, shift, axis: roll_p(
        x, shift=shift, axis=tuple(a + 1 for a in axis)
    ),
)


def flip(m: Any, axis: Any = None) -> Any:
    """Reverse the order of entries along the given axes, by default along all.

    >>> flip([1.0, 2.0]).tolist()
    [2.0, 1.0]
    """
    x = as_operand(m)
    return flip_p(x, axis=normalize_axes(axis, len(x.shape), "flip"))


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """Reverse the order of entries along the given axes.

    >>> reverse([[1.0, 2.0]], [1]).tolist()
    [[2.0, 1.0]]
    """
    return flip(tensor, tuple(as_shape(axis, "axis")))


def fliplr(m: Any) -> Any:
    """Reverse the second axis.

    >>> fliplr([[1.0, 2.0]]).tolist()
    [[2.0, 1.0]]
    """
    return flip(m, 1)


def flipud(m: Any) -> Any:
    """Reverse the first axis.

    >>> flipud([[1.0], [2.0]]).tolist()
    [[2.0], [1.0]]
    """
    return flip(m, 0)


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    """Rotate by `k` times 90 degrees in the plane of two axes, from the first to the second.

    >>> rot90([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[2.0, 4.0], [1.0, 3.0]]
    """
    x = as_operand(m)
    rank = len(x.shape)
    first, second = (normalize_axis(axis, rank, "rot90") for axis in axes)
    if first == second:
        raise ArgumentError(f"rot90 needs two different axes. Got {tuple(axes)}.")
    order = list(range(rank))
    order[first], order[second] = second, first
    quarters = k % 4
    if quarters == 0:
        return flip_p(x, axis=())
    if quarters == 2:
        return flip_p(x, axis=(first, second))
    if quarters == 1:
        return permute_p(flip_p(x, axis=(second,)), axes=tuple(order))
    return flip_p(permute_p(x, axes=tuple(order)), axis=(second,))


def roll(input: Any, shift: Any, axis: Any = None, name: str | None = None) -> Any:
    """Shift entries along axes; entries shifted past the end reappear at the start.

    Without an axis the flattened tensor is shifted.

    >>> roll([1.0, 2.0, 3.0], 1, 0).tolist()
    [3.0, 1.0, 2.0]
    """
    x = as_operand(input)
    if axis is None:
        flat = roll_p(ravel(x), shift=as_shape(shift, "shift"), axis=(0,))
        return reshape_p(flat, shape=tuple(x.shape))
    shifts, wanted = as_shape(shift, "shift"), as_shape(axis, "axis")
    axes = tuple(normalize_axis(a, len(x.shape), "roll") for a in wanted)
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll needs as many shifts as axes. Got {shifts} and {wanted}.")
    return roll_p(x, shift=shifts, axis=axes)


def tile(input: Any, multiples: Any, name: str | None = None) -> Any:  # TF's name
    """Repeat the whole tensor `multiples[k]` times along each axis k.

    >>> tile([1.0, 2.0], [2]).tolist()
    [1.0, 2.0, 1.0, 2.0]
    """
    x = as_operand(input)
    counts = as_shape(multiples, "multiples")
    shape = (*[1] * (len(counts) - len(x.shape)), *x.shape)
    counts = (*[1] * (len(shape) - len(counts)), *counts)
    if any(count < 0 for count in counts):
        raise ArgumentError(f"tile needs multiples of 0 or more. Got {counts}.")
    separated = tuple(n for length in shape for n in (1, length))
    spread = tuple(n for count, length in zip(counts, shape, strict=True) for n in (count, length))
    merged_shape = tuple(count * n for count, n in zip(counts, shape, strict=True))
    return reshape_p(broadcast_p(reshape_p(x, shape=separated), shape=spread), shape=merged_shape)


def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Any:
    """Repeat each entry along an axis, `repeats` times or `repeats[k]` times for entry k.

    >>> repeat([1.0, 2.0], 2).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    x = as_operand(input)
    if axis is None:
        x, axis = ravel(x), 0
    axis = normalize_axis(axis, len(x.shape), "repeat")
    counts = read_on_host(repeats, "repeat()")
    counts = counts if counts.size else counts.astype(np.intp)
    length = x.shape[axis]
    if counts.size and (counts.dtype.kind not in "iu" or counts.min() < 0):
        raise ArgumentError(f"repeat needs integer repeats of 0 or more. Got {counts.tolist()}.")
    if counts.size == 1:
        count = int(counts.reshape(()))
        shape = (*x.shape[: axis + 1], count, *x.shape[axis + 1 :])
        separated = reshape_p(x, shape=(*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
        joined = (*x.shape[:axis], length * count, *x.shape[axis + 1 :])
        return reshape_p(broadcast_p(separated, shape=shape), shape=joined)
    if counts.shape != (length,):
        raise ShapeError(f"repeat needs 1 or {length} repeats. Got shape {counts.shape}.")
    places = np.repeat(np.arange(length), counts)
    return take_p(x, place_next_to(x, places), axis=axis)


def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Any]:
    """Return the coordinate tensors of a grid, from one vector per axis.

    >>> [x.shape for x in meshgrid([1.0, 2.0, 3.0], [1.0, 2.0])]
    [(2, 3), (2, 3)]
    """
    check_choice("indexing", indexing, ("xy", "ij"))
    values = [ravel(arg) for arg in args]
    places = list(range(len(values)))
    if indexing == "xy" and len(values) > 1:
        places[:2] = [1, 0]
    shape = [1] * len(values)
    for place, value in zip(places, values, strict=True):
        shape[place] = value.shape[0]
    grids = []
    for place, value in zip(places, values, strict=True):
        own = tuple(n if k == place else 1 for k, n in enumerate(shape))
        grids.append(broadcast_p(reshape_p(value, shape=own), shape=tuple(shape)))
    return grids


# Blocks between the spatial axes and the channels or the batch


def space_to_depth(
    input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Any:
    """Move spatial blocks of images into the channels.

    >>> space_to_depth([[[[1.0], [2.0]], [[3.0], [4.0]]]], 2).shape
    (1, 1, 1, 4)
    """
    x, size = (
        _image(input, data_format, "space_to_depth"),
        check_count("block_size", block_size, least=1),
    )
    n, height, width, channels = x.shape
    if height % size or width % size:
        raise ShapeError(f"space_to_depth needs sides divisible by {size}. Got {height}, {width}.")
    parts = (n, height // size, size, width // size, size, channels)
    permuted = permute_p(reshape_p(x, shape=parts), axes=(0, 1, 3, 2, 4, 5))
    shape = (n, height // size, width // size, size * size * channels)
    return _in_format(reshape_p(permuted, shape=shape), data_format)


def depth_to_space(
    input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Any:
    """Move channels of images into spatial blocks, the inverse of `space_to_depth`.

    >>> depth_to_space([[[[1.0, 2.0, 3.0, 4.0]]]], 2).shape
    (1, 2, 2, 1)
    """
    x, size = (
        _image(input, data_format, "depth_to_space"),
        check_count("block_size", block_size, least=1),
    )
    n, height, width, channels = x.shape
    if channels % (size * size):
        raise ShapeError(
            f"depth_to_space needs channels divisible by {size * size}. Got {channels}."
        )
    kept = channels // (size * size)
    parts = reshape_p(x, shape=(n, height, width, size, size, kept))
    permuted = permute_p(parts, axes=(0, 1, 3, 2, 4, 5))
    shape = (n, height * size, width * size, kept)
    return _in_format(reshape_p(permuted, shape=shape), data_format)


def _image(value: Any, data_format: str, name: str) -> Any:
    x = as_operand(value)
    if len(x.shape) != 4:
        raise ShapeError(f"{name} needs 4 axes. Got shape {x.shape}.")
    check_choice("data_format", data_format, ("NHWC", "NCHW"))
    return x if data_format == "NHWC" else permute_p(x, axes=(0, 2, 3, 1))


def _in_format(x: Any, data_format: str) -> Any:
    return x if data_format == "NHWC" else permute_p(x, axes=(0, 3, 1, 2))


def space_to_batch(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Any:
    """Pad, then move blocks of the spatial axes into the batch axis.

    >>> space_to_batch([[[1.0], [2.0]]], [2], [[0, 0]]).shape
    (2, 1, 1)
    """
    x = as_operand(input)
    blocks = as_shape(block_shape, "block_shape")
    count = len(blocks)
    rest = [(0, 0)] * (len(x.shape) - 1 - count)
    x = pad(x, [(0, 0), *(tuple(as_shape(pair)) for pair in paddings), *rest])
    n, spatial, tail = x.shape[0], x.shape[1 : 1 + count], tuple(x.shape[1 + count :])
    if any(length % block for length, block in zip(spatial, blocks, strict=True)):
        raise ShapeError(
            f"space_to_batch needs padded sides divisible by {blocks}. Got {tuple(spatial)}."
        )
    parts = [n for pair in zip(spatial, blocks, strict=True) for n in (pair[0] // pair[1], pair[1])]
    outer, inner = range(1, 2 * count, 2), range(2, 2 * count + 1, 2)
    after = range(1 + 2 * count, 1 + 2 * count + len(tail))
    separated = reshape_p(x, shape=(n, *parts, *tail))
    permuted = permute_p(separated, axes=(*inner, 0, *outer, *after))
    return reshape_p(permuted, shape=(n * math.prod(blocks), *parts[::2], *tail))


def batch_to_space(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Any:
    """Move the batch axis into blocks of the spatial axes, then crop; undoes `space_to_batch`.

    >>> batch_to_space([[[1.0]], [[2.0]]], [2], [[0, 0]]).shape
    (1, 2, 1)
    """
    x = as_operand(input)
    blocks = as_shape(block_shape, "block_shape")
    count = len(blocks)
    spatial, tail = tuple(x.shape[1 : 1 + count]), tuple(x.shape[1 + count :])
    n, left = divmod(x.shape[0], math.prod(blocks))
    if left:
        raise ShapeError(
            f"batch_to_space needs a batch divisible by {math.prod(blocks)}. Got {x.shape[0]}."
        )
    parts = reshape_p(x, shape=(*blocks, n, *spatial, *tail))
    pairs = [axis for k in range(count) for axis in (count + 1 + k, k)]
    after = range(1 + 2 * count, 1 + 2 * count + len(tail))
    permuted = permute_p(parts, axes=(count, *pairs, *after))
    sides = [length * block for length, block in zip(spatial, blocks, strict=True)]
    whole = reshape_p(permuted, shape=(n, *sides, *tail))
    ends = [as_shape(pair) for pair in crops]
    kept = [slice(a, side - b) for (a, b), side in zip(ends, sides, strict=True)]
    return slice_p(whole, index=(slice(None), *kept, *[slice(None)] * len(tail)))


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Any, Any]:
    """Return the paddings with which `space_to_batch` gets whole blocks, and the crops to undo it.

    >>> paddings, crops = required_space_to_batch_paddings([5], [2])
    >>> paddings.tolist(), crops.tolist()
    ([[0, 1]], [[0, 1]])
    """
    title = "required_space_to_batch_paddings"
    lengths = np.array(check_wholes("input_shape", input_shape, title), np.int64)
    blocks = np.array(check_wholes("block_shape", block_shape, title), np.int64)
    if len(lengths) != len(blocks) or (blocks < 1).any():
        raise ShapeError(
            f"{title} needs one block length of at least 1 for each axis. Got {lengths.tolist()} "
            f"and {blocks.tolist()}."
        )
    pairs = [(0, 0)] * len(lengths) if base_paddings is None else base_paddings
    base = np.array(padding_pairs(pairs, len(lengths)), np.int64).reshape(-1, 2)
    extra = -(lengths + base.sum(axis=1)) % blocks
    crops = np.stack([0 * extra, extra], axis=1)
    return constant((base + crops).astype(np.int32)), constant(crops.astype(np.int32))
