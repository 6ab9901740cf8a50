"""Rules of primitives that rearrange, join and create arrays."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tapegrad.program.graph.graph import Call
from tapegrad.program.onnx.nodes import Input, Nodes, ints, number
from tapegrad.program.onnx.rules import Result, rule


@rule("reshape")
def _reshape(e: Nodes, call: Call, x: Input) -> Result:
    return e.reshape(x, call.results[0].shape)


@rule("permute_dims")
def _permute(e: Nodes, call: Call, x: Input) -> Result:
    return e.transpose(x, call.params["axes"])


@rule("broadcast_to")
def _broadcast(e: Nodes, call: Call, x: Input) -> Result:
    return e.op("Expand", x, ints(call.results[0].shape))


@rule("concat")
def _concat(e: Nodes, call: Call, *arrays: Input) -> Result:
    return e.op("Concat", *arrays, axis=call.params["axis"])


@rule("stack")
def _stack(e: Nodes, call: Call, *arrays: Input) -> Result:
    axis = call.params["axis"] % len(call.results[0].shape)
    parts = [e.op("Unsqueeze", x, ints([axis])) for x in arrays]
    return e.op("Concat", *parts, axis=axis)


@rule("unstack")
def _unstack(e: Nodes, call: Call, x: Input) -> Result:
    axis, count = call.params["axis"], len(call.results)
    parts = e.ops(count, "Split", x, ints([1] * count), axis=axis)
    return [e.op("Squeeze", part, ints([axis])) for part in parts]


@rule("split")
def _split(e: Nodes, call: Call, x: Input) -> Result:
    axis = call.params["axis"]
    sizes = [value.shape[axis] for value in call.results]
    return e.ops(len(sizes), "Split", x, ints(sizes), axis=axis)


@rule("full_like")
def _full(e: Nodes, call: Call, x: Input) -> Result:
    value = call.results[0]
    return e.op("Expand", number(call.params["value"], value.dtype), ints(value.shape))


@rule("positions_like")
def _positions(e: Nodes, call: Call, x: Input) -> Result:
    value = call.results[0]
    return _count(e, value.shape[0], value.dtype)


def _count(e: Nodes, length: int, dtype: Any) -> Input:
    """Return 0, 1, ... as a vector."""
    found: Input = e.op("Range", number(0, "int64"), number(length, "int64"), number(1, "int64"))
    return found if np.dtype(dtype) == np.int64 else e.cast(found, dtype)


@rule("identity_matrix")
def _identity(e: Nodes, call: Call, x: Input) -> Result:
    value = call.results[0]
    rows = _count(e, value.shape[-2], "int64")
    same = e.op("Equal", e.op("Unsqueeze", rows, ints([1])), _count(e, value.shape[-1], "int64"))
    matrix = e.cast(same, value.dtype)
    return matrix if len(value.shape) == 2 else e.op("Expand", matrix, ints(value.shape))


@rule("causal_mask")
def _causal(e: Nodes, call: Call, x: Input) -> Result:
    return causal_mask(e, *call.reads[0].shape[-2:])


def causal_mask(e: Nodes, queries: int, keys: int) -> Input:
    """Return which of the keys are not later than each query; the last query sees all."""
    first = number(keys - queries, "int64")
    rows = e.op("Add", _count(e, queries, "int64"), first)
    return e.op("GreaterOrEqual", e.op("Unsqueeze", rows, ints([1])), _count(e, keys, "int64"))


@rule("band_part")
def _band(e: Nodes, call: Call, x: Input) -> Result:
    low, high = call.params["low"], call.params["high"]
    if low is not None:
        x = e.op("Trilu", x, number(low, "int64"), upper=1)
    return x if high is None else e.op("Trilu", x, number(high, "int64"), upper=0)


@rule("flip")
def _flip(e: Nodes, call: Call, x: Input) -> Result:
    return flipped(e, x, call.params["axis"])


def flipped(e: Nodes, x: Input, axes: Any) -> Input:
    """Return `x` with some axes in reverse order."""
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    if not axes:
        return x
    count = len(axes)
    ends = ints([-1] * count), ints([_BEFORE_ALL] * count)
    return e.op("Slice", x, *ends, ints(axes), ints([-1] * count))


@rule("roll")
def _roll(e: Nodes, call: Call, x: Input) -> Result:
    shifts, axes = call.params["shift"], call.params["axis"]
    for shift, axis in zip(shifts, axes, strict=True):
        size = call.reads[0].shape[axis]
        if size and shift % size:
            parts = e.ops(2, "Split", x, ints([size - shift % size, shift % size]), axis=axis)
            x = e.op("Concat", parts[1], parts[0], axis=axis)
    return x


@rule("to_device", "stop_gradient", "identity", "positive")
def _same(e: Nodes, call: Call, x: Input) -> Result:
    return x


# Slices

_BEFORE_ALL = -(2**63) + 1
_AFTER_ALL = 2**63 - 1


@rule("slice")
def _slice(e: Nodes, call: Call, x: Input) -> Result:
    return sliced(e, x, call.reads[0].shape, call.params["index"])


def sliced(e: Nodes, x: Input, shape: tuple[int, ...], index: tuple[Any, ...]) -> Input:
    """Return x[index] for slices, whole numbers, None and an ellipsis."""
    axes, starts, ends, steps, gone, new = [], [], [], [], [], []
    axis = place = 0
    for part in _without_ellipsis(index, len(shape)):
        if part is None:
            new.append(place)
            place += 1
            continue
        size = shape[axis]
        if isinstance(part, slice):
            start, end, step = part.indices(size)
            place += 1
        else:
            start, end, step = int(part) % size, int(part) % size + 1, 1
            gone.append(axis)
        if (start, end, step) != (0, size, 1):
            axes.append(axis)
            starts.append(start if start >= 0 else _BEFORE_ALL)  # only of empty slices
            ends.append(end if end >= 0 else _BEFORE_ALL)
            steps.append(step)
        axis += 1
    if axes:
        x = e.op("Slice", x, ints(starts), ints(ends), ints(axes), ints(steps))
    x = e.op("Squeeze", x, ints(gone)) if gone else x
    return e.op("Unsqueeze", x, ints(new)) if new else x


def _without_ellipsis(index: tuple[Any, ...], rank: int) -> list[Any]:
    """Return an index with a part for every axis."""
    given = sum(part is not None and part is not ... for part in index)
    whole = [slice(None)] * (rank - given)
    found: list[Any] = []
    has_ellipsis = any(part is ... for part in index)
    for part in index:
        found += whole if part is ... else [part]
    return found if has_ellipsis else found + whole


@rule("unslice")
def _unslice(e: Nodes, call: Call, x: Input) -> Result:
    """Place `x` among zeros: insert zeros between its entries, then around them."""
    shape, value = call.params["shape"], call.results[0]
    parts = _without_ellipsis(call.params["index"], len(shape))
    if any(part is None for part in parts):
        x = e.reshape(x, _shape_of_parts(shape, [p for p in parts if p is not None], True))
        parts = [part for part in parts if part is not None]
    gone = [axis for axis, part in enumerate(parts) if not isinstance(part, slice)]
    x = e.op("Unsqueeze", x, ints(gone)) if gone else x
    zero, before, after = number(0, value.dtype), [], []
    sizes = list(_shape_of_parts(shape, parts, False))
    for axis, part in enumerate(parts):
        at = part if isinstance(part, slice) else slice(int(part) % shape[axis], None)
        start, _, step = at.indices(shape[axis])
        count = sizes[axis]
        if step < 0:
            x = flipped(e, x, axis)
            start, step = start + (count - 1) * step, -step
        if step > 1 and count > 1:
            x = _spread(e, x, sizes, axis, step, zero)
            sizes[axis] = count = (count - 1) * step + 1
        before.append(start if count else 0)
        after.append(shape[axis] - before[-1] - count)
    if not any((*before, *after)):
        return x
    return e.op("Pad", x, ints([*before, *after]), zero)


def _shape_of_parts(
    shape: tuple[int, ...], parts: list[Any], without_numbers: bool
) -> tuple[int, ...]:
    sizes = []
    for size, part in zip(shape, parts, strict=True):
        if isinstance(part, slice):
            sizes.append(len(range(*part.indices(size))))
        elif not without_numbers:
            sizes.append(1)
    return tuple(sizes)


def _spread(e: Nodes, x: Input, sizes: list[int], axis: int, step: int, zero: Input) -> Input:
    """Insert step - 1 zeros between the entries along an axis."""
    count, rank = sizes[axis], len(sizes)
    wide = e.op("Unsqueeze", x, ints([axis + 1]))
    ends = [0] * (rank + 1)
    ends[axis + 1] = step - 1
    wide = e.op("Pad", wide, ints([0] * (rank + 1) + ends), zero)
    flat = e.reshape(wide, (*sizes[:axis], count * step, *sizes[axis + 1 :]))
    return e.op("Slice", flat, ints([0]), ints([(count - 1) * step + 1]), ints([axis]))


@rule("slice_set")
def _slice_set(e: Nodes, call: Call, x: Input, v: Input) -> Result:
    """Write into the flattened array, at positions that are known now."""
    shape, index = call.results[0].shape, call.params["index"]
    if not shape:
        return v
    places = np.arange(prod(shape)).reshape(shape)[index]
    if call.reads[-1].shape != places.shape:
        v = e.op("Expand", v, ints(places.shape))
    flat = e.reshape(v, (places.size,))
    positions = e.constant(places.reshape(-1).astype(np.int64))
    written = e.op("ScatterElements", e.reshape(x, (prod(shape),)), positions, flat, axis=0)
    return e.reshape(written, shape)


@rule("frames")
def _frames(e: Nodes, call: Call, x: Input) -> Result:
    *lead, count, length = call.results[0].shape
    step = call.params["step"]
    starts = np.arange(count, dtype=np.int64)[:, None] * step
    places = e.constant(starts + np.arange(length, dtype=np.int64))
    return e.op("Gather", x, places, axis=len(lead))


@rule("take_runs")
def _take_runs(e: Nodes, call: Call, x: Input) -> Result:
    places = [first + step * k for first, step, count in call.params["runs"] for k in range(count)]
    return e.op("Gather", x, ints(places), axis=call.params["axis"])
