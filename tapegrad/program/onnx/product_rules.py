"""Rules of matrix products, attention, convolutions and pooling."""

from __future__ import annotations

from math import inf, prod
from typing import Any

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.graph import Call
from tapegrad.program.onnx.elementwise import emit_elementwise
from tapegrad.program.onnx.nodes import Input, Nodes, UnsupportedError, ints, number
from tapegrad.program.onnx.reduction_rules import reduced
from tapegrad.program.onnx.rules import Result, rule
from tapegrad.program.onnx.shape_rules import causal_mask


@rule("matmul", "matmul_stack")
def _matmul(e: Nodes, call: Call, a: Input, b: Input) -> Result:
    ranks = [len(value.shape) for value in call.reads]
    if call.params["transpose_a"]:
        a = e.swap_last(a, ranks[0])
    if call.params["transpose_b"]:
        b = e.swap_last(b, ranks[-1])
    return e.op("MatMul", a, b)


@rule("matvec")
def _matvec(e: Nodes, call: Call, a: Input, x: Input) -> Result:
    return e.op("MatMul", x, a) if call.params["transpose"] else e.op("MatMul", a, x)


@rule("matmul_sum")
def _matmul_sum(e: Nodes, call: Call, a: Input, b: Input, *addends: Input) -> Result:
    total = _matmul(e, call, a, b)
    for one in addends:
        total = e.op("Add", total, one)  # type: ignore[arg-type]  # a product has one result
    activation = call.params["activation"]
    if activation is None:
        return total
    result = call.results[0]
    applied = Call(PRIMITIVES[activation], (result,), {}, (result,), call.array_type)
    e.names[result.number] = total  # type: ignore[assignment]
    return emit_elementwise(e, applied)


@rule("attention")
def _attention(e: Nodes, call: Call, q: Input, k: Input, v: Input) -> Result:
    """Write the parts of attention; a row in which all keys are masked gives zeros."""
    (queries, keys, _), dtype = call.reads, call.results[0].dtype
    groups = 1
    if len(queries.shape) > 2 and keys.shape[-3]:
        groups = queries.shape[-3] // keys.shape[-3]
    scaled = e.op("Mul", q, number(call.params["scale"], dtype))
    folded = e.reshape(scaled, _folded(queries.shape, groups)) if groups > 1 else scaled
    scores = e.op("MatMul", folded, e.swap_last(k, len(keys.shape)))
    weights_shape = call.results[1].shape
    if groups > 1:
        scores = e.reshape(scores, weights_shape)
    if call.params["causal"]:
        mask = causal_mask(e, queries.shape[-2], keys.shape[-2])
        scores = e.op("Where", mask, scores, number(-inf, dtype))
    weights = _softmax_of_masked(e, scores, len(weights_shape), dtype)
    rows = e.reshape(weights, _folded(weights_shape, groups)) if groups > 1 else weights
    y = e.op("MatMul", rows, v)
    return [e.reshape(y, call.results[0].shape) if groups > 1 else y, weights]


def _folded(shape: tuple[int, ...], groups: int) -> tuple[int, ...]:
    *lead, heads, n, width = shape
    return (*lead, heads // groups, groups * n, width)


def _softmax_of_masked(e: Nodes, scores: Input, rank: int, dtype: Any) -> str:
    """Return the softmax along the last axis, and zeros for rows of -inf."""
    axes, zero = (rank - 1,), number(0, dtype)
    top = reduced(e, "ReduceMax", scores, axes, True)
    is_empty = e.op("Equal", top, number(-inf, dtype))
    powers = e.op("Exp", e.op("Sub", scores, e.op("Where", is_empty, zero, top)))
    total = reduced(e, "ReduceSum", powers, axes, True)
    none = e.op("Equal", total, zero)
    return e.op("Div", powers, e.op("Where", none, number(1, dtype), total))


# Convolutions and pooling: ONNX has the channels before the spatial axes.


def _channels_first(e: Nodes, x: Input, rank: int) -> Input:
    return e.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def _channels_last(e: Nodes, x: Input, rank: int) -> Input:
    return e.transpose(x, (0, *range(2, rank), 1))


def _pads(padding: Any) -> dict[str, list[int]]:
    return {"list": [low for low, _ in padding] + [high for _, high in padding]}


@rule("conv")
def _conv(e: Nodes, call: Call, x: Input, w: Input) -> Result:
    rank, params = len(call.reads[0].shape), call.params
    found = e.op(
        "Conv",
        _channels_first(e, x, rank),
        e.transpose(w, (rank - 1, rank - 2, *range(rank - 2))),
        strides={"list": list(params["strides"])},
        dilations={"list": list(params["dilation"])},
        pads=_pads(params["padding"]),
        group=params["groups"],
    )
    return _channels_last(e, found, rank)


@rule("conv_input_gradient")
def _transposed_conv(e: Nodes, call: Call, t: Input, w: Input) -> Result:
    """Transposed convolution: the wanted length decides how much is added at the end."""
    rank, params = len(call.reads[0].shape), call.params
    window = call.reads[1].shape[:-2]
    extra = []
    for n, m, k, stride, step, (low, high) in zip(
        call.results[0].shape[1:-1], call.reads[0].shape[1:-1], window, params["strides"],
        params["dilation"], params["padding"], strict=True,
    ):  # fmt: skip
        extra.append(n - ((m - 1) * stride + (k - 1) * step + 1 - low - high))
    if any(one < 0 or one >= stride for one, stride in zip(extra, params["strides"])):
        raise UnsupportedError("the length of its result does not follow from the windows")
    # The filter [*window, c_in / groups, c_out] becomes [c_out, c_in / groups, *window].
    filters = e.transpose(w, (rank - 1, rank - 2, *range(rank - 2)))
    found = e.op(
        "ConvTranspose",
        _channels_first(e, t, rank),
        filters,
        strides={"list": list(params["strides"])},
        dilations={"list": list(params["dilation"])},
        pads=_pads(params["padding"]),
        output_padding={"list": extra},
        group=params["groups"],
    )
    return _channels_last(e, found, rank)


def _pooled(e: Nodes, call: Call, x: Input, operator: str, **attributes: Any) -> Input:
    rank, params = len(call.reads[0].shape), call.params
    found = e.op(
        operator,
        _channels_first(e, x, rank),
        kernel_shape={"list": list(params["window"])},
        strides={"list": list(params["strides"])},
        pads=_pads(params["padding"]),
        **attributes,
    )
    return _channels_last(e, found, rank)


@rule("max_pool")
def _max_pool(e: Nodes, call: Call, x: Input) -> Result:
    """Return the maxima; their positions are only read by gradients."""
    dilations = {"list": list(call.params["dilation"])}
    return [_pooled(e, call, x, "MaxPool", dilations=dilations), None]


@rule("avg_pool")
def _avg_pool(e: Nodes, call: Call, x: Input) -> Result:
    count = int(call.params["count_padding"])
    return _pooled(e, call, x, "AveragePool", count_include_pad=count)


@rule("convolve")
def _convolve(e: Nodes, call: Call, x: Input, w: Input) -> Result:
    """Write the full convolution of two vectors as a convolution with padding."""
    n, m = (prod(value.shape) for value in (call.reads[0], call.reads[-1]))
    reverse = e.op("Slice", w, ints([-1]), ints([-(2**63) + 1]), ints([0]), ints([-1]))
    found = e.op(
        "Conv",
        e.reshape(x, (1, 1, n)),
        e.reshape(reverse, (1, 1, m)),
        pads={"list": [m - 1, m - 1]},
    )
    return e.reshape(found, (n + m - 1,))
