"""Rules of reductions, running sums, sorting, softmax and norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.program.graph.graph import Call
from tapegrad.program.onnx.nodes import Input, Nodes, ints, number
from tapegrad.program.onnx.rules import Result, rule

_REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin",
    "prod": "ReduceProd", "sum_of_squares": "ReduceSumSquare", "euclidean_norm": "ReduceL2",
    "logsumexp": "ReduceLogSumExp",
}  # fmt: skip


def reduced(e: Nodes, kind: str, x: Input, axes: Any, keepdims: bool) -> Input:
    """Return a reduction along axes; none of them leaves the array as it is."""
    wanted = ints(axes)
    return e.op(kind, x, wanted, keepdims=int(keepdims), noop_with_empty_axes=1)


def _axes(call: Call) -> tuple[int, ...]:
    axes, rank = call.params["axis"], len(call.reads[0].shape)
    if axes is None:
        return tuple(range(rank))
    return (axes,) if isinstance(axes, int) else tuple(axes)


@rule(*_REDUCTIONS)
def _reduce(e: Nodes, call: Call, x: Input) -> Result:
    name, keepdims = call.primitive.name, bool(call.params.get("keepdims"))
    axes, result = _axes(call), call.results[0].dtype
    if name == "sum_of_squares":  # the operator squares even with no axes; the primitive, too
        return reduced(e, "ReduceSum", e.op("Mul", x, x), axes, keepdims)
    if call.reads[0].dtype != result:
        x = e.cast(x, result)
    return reduced(e, _REDUCTIONS[name], x, axes, keepdims)


@rule("all", "any")
def _truth(e: Nodes, call: Call, x: Input) -> Result:
    kind = "ReduceMin" if call.primitive.name == "all" else "ReduceMax"
    whole = e.cast(_nonzero(e, call, x), "int32")
    keepdims = bool(call.params.get("keepdims"))
    return e.cast(reduced(e, kind, whole, _axes(call), keepdims), "bool")


@rule("count_nonzero")
def _count_nonzero(e: Nodes, call: Call, x: Input) -> Result:
    whole = e.cast(_nonzero(e, call, x), "int64")
    found = reduced(e, "ReduceSum", whole, _axes(call), bool(call.params.get("keepdims")))
    return e.cast(found, call.results[0].dtype)


def _nonzero(e: Nodes, call: Call, x: Input) -> Input:
    dtype = call.reads[0].dtype
    if dtype.kind == "b":
        return x
    return e.op("Not", e.op("Equal", x, number(0, dtype)))


@rule("argmax", "argmin")
def _extreme_place(e: Nodes, call: Call, x: Input) -> Result:
    kind = "ArgMax" if call.primitive.name == "argmax" else "ArgMin"
    axis = call.params["axis"]
    if axis is None:
        x, axis = e.op("Flatten", x, axis=0), 1
        return e.op("Squeeze", e.op(kind, x, axis=axis, keepdims=0), ints([0]))
    return e.op(kind, x, axis=axis, keepdims=int(bool(call.params.get("keepdims"))))


@rule("cumulative_sum")
def _cumulative_sum(e: Nodes, call: Call, x: Input) -> Result:
    params, dtype = call.params, call.results[0].dtype
    if call.reads[0].dtype != dtype:
        x = e.cast(x, dtype)
    axis = number(params["axis"], "int64")
    return e.op(
        "CumSum",
        x,
        axis,
        exclusive=int(params.get("exclusive", False)),
        reverse=int(params.get("reverse", False)),
    )


@rule("softmax")
def _softmax(e: Nodes, call: Call, x: Input) -> Result:
    """Return the softmax, and zeros where all entries are -inf, for which the operator has NaN."""
    axis, dtype = call.params["axis"], call.results[0].dtype
    top = reduced(e, "ReduceMax", x, (axis,), True)
    is_empty = e.op("Equal", top, number(-np.inf, dtype))
    return e.op("Where", is_empty, number(0, dtype), e.op("Softmax", x, axis=axis))


@rule("log_softmax")
def _log_softmax(e: Nodes, call: Call, x: Input) -> Result:
    return e.op("LogSoftmax", x, axis=call.params["axis"])


@rule("add_n")
def _add_n(e: Nodes, call: Call, *arrays: Input) -> Result:
    total = arrays[0]
    for one in arrays[1:]:
        total = e.op("Add", total, one)
    return total


@rule("ties")
def _ties(e: Nodes, call: Call, x: Input, extreme: Input) -> Result:
    """Return the share of each entry in the extreme of its row; equal ones have equal shares."""
    shape, axes = call.reads[0].shape, _axes(call)
    kept = [1 if axis in axes else n for axis, n in enumerate(shape)]
    hits = e.cast(e.op("Equal", x, e.reshape(extreme, kept)), call.results[0].dtype)
    return e.op("Div", hits, reduced(e, "ReduceSum", hits, axes, True))


@rule("normalize", "normalize_relu")
def _normalize(e: Nodes, call: Call, x: Input, gain: Input, bias: Input) -> Result:
    params, dtype = call.params, call.results[0].dtype
    axes = params["axes"]
    rest, mean = x, None
    if params.get("center", True):
        mean = reduced(e, "ReduceMean", x, axes, True)
        rest = e.op("Sub", x, mean)
    variance = reduced(e, "ReduceMean", e.op("Mul", rest, rest), axes, True)
    scale = e.op("Sqrt", e.op("Add", variance, number(params["epsilon"], dtype)))
    y = e.op("Div", rest, scale)
    y = e.op("Mul", y, gain) if params.get("scaled", True) else y
    y = e.op("Add", y, bias) if params.get("shifted", True) else y
    y = e.op("Relu", y) if call.primitive.name == "normalize_relu" else y
    shape = call.results[1].shape
    if mean is None:
        mean = e.op("Mul", variance, number(0, dtype))
    return [y, e.reshape(mean, shape), e.reshape(variance, shape)]


@rule("standardize")
def _standardize(e: Nodes, call: Call, x: Input) -> Result:
    params, dtype = call.params, call.results[0].dtype
    rest = x
    if params["center"]:
        rest = e.op("Sub", x, reduced(e, "ReduceMean", x, params["axes"], True))
    variance = reduced(e, "ReduceMean", e.op("Mul", rest, rest), params["axes"], True)
    root = e.op("Sqrt", e.op("Add", variance, number(params["epsilon"], dtype)))
    scale = e.op("Reciprocal", root)
    return [e.op("Mul", rest, scale), scale]


# Sorting


@rule("top_k")
def _top_k(e: Nodes, call: Call, x: Input) -> Result:
    return e.ops(2, "TopK", x, ints([call.params["k"]]), axis=-1, largest=1, sorted=1)


@rule("sort", "argsort")
def _sort(e: Nodes, call: Call, x: Input) -> Result:
    """Take all elements as the largest or smallest ones; equal ones keep their order."""
    axis, value = call.params["axis"], call.reads[0]
    if value.dtype.kind == "b":
        x = e.cast(x, "int32")
    largest = int(bool(call.params["descending"]))
    found = e.ops(2, "TopK", x, ints([value.shape[axis]]), axis=axis, largest=largest, sorted=1)
    chosen = found[call.primitive.name == "argsort"]
    return chosen if value.dtype.kind != "b" else e.cast(chosen, call.results[0].dtype)


@rule("searchsorted")
def _searchsorted(e: Nodes, call: Call, points: Input, x: Input) -> Result:
    """Count the points before each value."""
    dtype = np.result_type(*(value.dtype for value in call.reads))
    points, x = e.cast(points, dtype), e.cast(x, dtype)
    if dtype.kind == "f":  # comparisons with NaN would count differently
        x = e.op("Where", e.op("IsNaN", x), number(np.inf, dtype), x)
    rank = len(call.reads[-1].shape)
    wide = e.op("Unsqueeze", x, ints([rank]))
    own = call.reads[0].shape
    row = e.reshape(points, (*own[:-1], *[1] * (rank - len(own) + 1), own[-1]))
    kind = "LessOrEqual" if call.params["right"] else "Less"
    hits = e.cast(e.op(kind, row, wide), "int64")
    return e.cast(reduced(e, "ReduceSum", hits, (rank,), False), call.results[0].dtype)
