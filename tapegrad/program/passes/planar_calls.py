"""Calls that work on the planes of an array one by one, and the call for one plane."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.graph import Call, Value

_CONVOLUTIONS = ("conv", "conv_input_gradient")


def is_planar(call: Call, axis: int) -> bool:
    """Whether a call that is not elementwise makes each plane along an axis of one plane."""
    name, params = call.primitive.name, call.params
    if name in ("take_runs", "take_runs_add"):
        return bool(params["axis"] != axis)
    if name in ("flip", "roll"):
        return axis not in params["axis"]
    if name in ("slice", "unslice"):
        return _is_whole_along(call, axis)
    if name in _CONVOLUTIONS:
        channels = call.results[0].shape[-1]
        filters = call.reads[1].shape
        is_last = axis == len(call.results[0].shape) - 1
        return is_last and params["groups"] == channels == filters[-1] and filters[-2] == 1
    return False


def _is_whole_along(call: Call, axis: int) -> bool:
    """Whether a slice or a padding has all axes, and all of one axis."""
    index = call.params["index"]
    if len(index) > len(call.reads[0].shape) or not all(isinstance(p, slice) for p in index):
        return False
    size = call.results[0].shape[axis]
    return axis >= len(index) or index[axis].indices(size) == (0, size, 1)


def picked_plane(call: Call, axis: int) -> int | None:
    """Return the number of the plane that a slice shows, None if it shows anything else."""
    if call.primitive.name != "slice":
        return None
    index, shape = call.params["index"], call.reads[0].shape
    if len(index) != len(shape) or type(index[axis]) is not int:
        return None
    others = [(p, n) for k, (p, n) in enumerate(zip(index, shape)) if k != axis]
    if not all(isinstance(p, slice) and p.indices(n) == (0, n, 1) for p, n in others):
        return None
    return int(index[axis]) % shape[axis]


def on_plane(
    call: Call,
    operands: Sequence[Any],
    results: Sequence[Value],
    axis: int,
    numbers: Iterator[int],
) -> list[Call]:
    """Return the calls that make one plane of a call's results, given planes of its operands."""
    if call.primitive.name in _CONVOLUTIONS:
        return _convolution(call, operands, results[0], numbers)
    adapt = _PARAMS.get(call.primitive.name)
    params = call.params if adapt is None else adapt(call.params, axis)
    if adapt is None and "shape" in params:  # a filled array
        params = {**params, "shape": results[0].shape}
    return [replace(call, operands=tuple(operands), params=params, results=tuple(results))]


def _convolution(
    call: Call, operands: Sequence[Any], result: Value, numbers: Iterator[int]
) -> list[Call]:
    """Return a convolution of one channel, between reshapes that add and remove its axis."""
    params = {**call.params, "groups": 1}
    if "input_shape" in params:
        params["input_shape"] = (*params["input_shape"][:-1], 1)
    shaped = [replace(x, number=next(numbers), shape=(*x.shape, 1)) for x in operands]
    made = replace(result, number=next(numbers), shape=(*result.shape, 1))
    calls = [_reshape(call, x, new) for x, new in zip(operands, shaped)]
    calls.append(replace(call, operands=tuple(shaped), params=params, results=(made,)))
    return [*calls, _reshape(call, made, result)]


def _reshape(call: Call, value: Value, made: Value) -> Call:
    return replace(
        call,
        primitive=PRIMITIVES["reshape"],
        operands=(value,),
        params={"shape": made.shape},
        results=(made,),
        aliases=True,
    )


def _one_axis(params: dict[str, Any], axis: int) -> dict[str, Any]:
    return {**params, "axis": params["axis"] - (params["axis"] > axis)}


def _some_axes(params: dict[str, Any], axis: int) -> dict[str, Any]:
    return {**params, "axis": tuple(one - (one > axis) for one in params["axis"])}


def _indexed(params: dict[str, Any], axis: int) -> dict[str, Any]:
    index = params["index"]
    found = {**params, "index": (*index[:axis], *index[axis + 1 :])}
    if "shape" in params:
        found["shape"] = (*params["shape"][:axis], *params["shape"][axis + 1 :])
    return found


_PARAMS: dict[str, Callable[[dict[str, Any], int], dict[str, Any]]] = {
    "flip": _some_axes,
    "roll": _some_axes,
    "slice": _indexed,
    "take_runs": _one_axis,
    "take_runs_add": _one_axis,
    "unslice": _indexed,
}
