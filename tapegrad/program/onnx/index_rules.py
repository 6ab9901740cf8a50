"""Rules of gathers, scatters and one_hot."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.program.graph.graph import Call
from tapegrad.program.onnx.nodes import Input, Nodes, ints, number
from tapegrad.program.onnx.rules import Result, rule


@rule("take")
def _take(e: Nodes, call: Call, x: Input, indices: Input) -> Result:
    return e.op("Gather", x, _index(e, call, indices), axis=call.params["axis"])


@rule("gather_rows")
def _gather_rows(e: Nodes, call: Call, x: Input, indices: Input) -> Result:
    return e.op("Gather", x, _index(e, call, indices), axis=0)


def _index(e: Nodes, call: Call, indices: Input) -> Input:
    """Return indices in a dtype that gathers take."""
    return indices if call.reads[-1].dtype.name == "int64" else e.cast(indices, "int64")


@rule("take_along_axis")
def _take_along_axis(e: Nodes, call: Call, x: Input, indices: Input) -> Result:
    """Broadcast both operands except along the axis, as GatherElements has equal shapes."""
    shape, axis = call.results[0].shape, call.params["axis"]
    wanted = [*shape]
    wanted[axis] = call.reads[0].shape[axis]
    if tuple(wanted) != call.reads[0].shape:
        x = e.op("Expand", x, ints(wanted))
    places = _index(e, call, indices)
    if call.reads[-1].shape != shape:
        places = e.op("Expand", places, ints(shape))
    return e.op("GatherElements", x, places, axis=axis)


@rule("take_add")
def _take_add(e: Nodes, call: Call, t: Input, indices: Input) -> Result:
    """Add up entries at their positions along one axis."""
    shape, axis = call.results[0].shape, call.params["axis"]
    rank = len(call.reads[-1].shape)
    outer, inner = shape[:axis], shape[axis + 1 :]
    count = prod(call.reads[-1].shape)
    rows = e.reshape(t, (*outer, count, *inner))
    places = e.reshape(_index(e, call, indices), (count, *[1] * len(inner)))
    if rank != 1 or outer or inner:
        places = e.op("Expand", places, ints((*outer, count, *inner)))
    zeros = e.op("Expand", number(0, call.results[0].dtype), ints(shape))
    return e.op("ScatterElements", zeros, places, rows, axis=axis, reduction={"text": "add"})


@rule("take_set")
def _take_set(e: Nodes, call: Call, x: Input, v: Input, indices: Input) -> Result:
    """Write rows at positions along one axis; the values broadcast to the written part."""
    shape, axis, places_shape = call.results[0].shape, call.params["axis"], call.reads[-1].shape
    outer, inner, count = shape[:axis], shape[axis + 1 :], prod(places_shape)
    v = e.op("Expand", v, ints((*outer, *places_shape, *inner)))
    v = e.reshape(v, (*outer, count, *inner))
    places = e.reshape(_index(e, call, indices), (count, *[1] * len(inner)))
    places = e.op("Expand", places, ints((*outer, count, *inner)))
    return e.op("ScatterElements", x, places, v, axis=axis)


@rule("scatter_along_axis")
def _scatter_along_axis(e: Nodes, call: Call, t: Input, indices: Input) -> Result:
    shape, axis = call.results[0].shape, call.params["axis"]
    zeros = e.op("Expand", number(0, call.results[0].dtype), ints(shape))
    places = _index(e, call, indices)
    whole = [*shape]
    whole[axis] = call.reads[-1].shape[axis]
    if tuple(whole) != call.reads[-1].shape:
        places = e.op("Expand", places, ints(whole))
    if tuple(whole) != call.reads[0].shape:
        t = e.op("Expand", t, ints(whole))
    return e.op("ScatterElements", zeros, places, t, axis=axis, reduction={"text": "add"})


@rule("segment_sum")
def _segment_sum(e: Nodes, call: Call, x: Input, ids: Input) -> Result:
    """Add up rows by number; rows with a number out of range are left out."""
    shape = call.results[0].shape
    rows, (count, *inner) = call.params["num"], call.reads[0].shape
    places = _index(e, call, ids)
    is_low = e.op("Less", places, number(0, "int64"))
    is_high = e.op("GreaterOrEqual", places, number(rows, "int64"))
    places = e.op("Where", e.op("Or", is_low, is_high), number(rows, "int64"), places)
    places = e.reshape(places, (count, *[1] * len(inner)))
    places = e.op("Expand", places, ints((count, *inner)))
    zeros = e.op("Expand", number(0, call.results[0].dtype), ints((rows + 1, *shape[1:])))
    total = e.op("ScatterElements", zeros, places, x, axis=0, reduction={"text": "add"})
    return e.op("Slice", total, ints([0]), ints([rows]), ints([0]))


@rule("one_hot")
def _one_hot(e: Nodes, call: Call, indices: Input) -> Result:
    """Compare with all positions: unlike OneHot, negative indices give no entry."""
    params, value = call.params, call.results[0]
    axis, rank = params["axis"] % len(value.shape), len(value.shape)
    depth = [1] * rank
    depth[axis] = params["depth"]
    count = e.op("Range", *(number(n, "int64") for n in (0, params["depth"], 1)))
    wide = e.op("Unsqueeze", _index(e, call, indices), ints([axis]))
    hits = e.op("Equal", wide, e.reshape(count, depth))
    on, off = (number(params[name], value.dtype) for name in ("on", "off"))
    return e.op("Where", hits, on, off)


@rule("linear_index")
def _linear_index(e: Nodes, call: Call, *indices: Input) -> Result:
    """Join the indices of several axes to one; negative indices count from the end."""
    total: Any = None
    for index, length in zip(indices, call.params["lengths"], strict=True):
        size = number(length, "int64")
        whole = e.cast(index, "int64")
        is_negative = e.op("Less", whole, number(0, "int64"))
        whole = e.op("Where", is_negative, e.op("Add", whole, size), whole)
        total = whole if total is None else e.op("Add", e.op("Mul", total, size), whole)
    return total  # type: ignore[no-any-return]


@rule("offset_index")
def _offset_index(e: Nodes, call: Call, indices: Input) -> Result:
    """Add the start of its row to each index."""
    (value,), axis, dtype = call.reads, call.params["axis"], call.results[0].dtype
    count = value.shape[axis]
    rows = e.op("Range", *(number(n, "int64") for n in (0, count, 1)))
    starts = e.op("Mul", rows, number(call.params["length"], "int64"))
    starts = e.reshape(starts, (count, *[1] * (len(value.shape) - axis - 1)))
    return e.op("Add", indices, starts if dtype.name == "int64" else e.cast(starts, dtype))
