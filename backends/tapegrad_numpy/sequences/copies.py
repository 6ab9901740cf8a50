"""Copies as instructions of a sequence: views that are stored, joined arrays, filled arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tapegrad.core.backend.native_sequences import Layout, NativeStep, contiguous
from tapegrad_numpy.sequences.functions import Made, Writer
from tapegrad_numpy.sequences.runtime import COPY, FILL
from tapegrad_numpy.sequences.views import views_of

_MOST_AXES = 16


def copies(
    source: Layout,
    result: Layout,
    places: tuple[int, int],
    offset: int = 0,
    source_offset: int = 0,
) -> Made:
    """Return the copy of an array to one of the same shape; both may begin at offsets."""
    if not source.size:
        return []
    axes = _merged(source, result)
    if len(axes) > _MOST_AXES:
        return None
    head = (source.dtype.itemsize, len(axes), *[number for axis in axes for number in axis])
    arrays = ((places[0], source_offset), (places[1], offset))
    return [NativeStep(COPY, arrays, head, (), source.size)]


def _merged(source: Layout, result: Layout) -> list[tuple[int, int, int]]:
    """The sizes and strides of both arrays; axes that follow each other in both are one."""
    axes: list[tuple[int, int, int]] = []
    for size, step, down in zip(source.shape, source.strides, result.strides, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1] == step * size and axes[-1][2] == down * size:
            axes[-1] = (axes[-1][0] * size, step, down)
        else:
            axes.append((size, step, down))
    itemsize = source.dtype.itemsize
    return axes or [(1, itemsize, itemsize)]


def _concat(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (result,), axis, found, offset = results, params["axis"], [], 0
    for k, part in enumerate(operands):
        place = Layout(part.shape, result.strides, result.dtype)
        made = copies(part, place, (k, len(operands)), offset)
        if made is None or part.dtype != result.dtype:
            return None
        found += made
        offset += part.shape[axis] * result.strides[axis]
    return found


def _stack(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (result,), axis, found = results, params["axis"], []
    strides = result.strides[:axis] + result.strides[axis + 1 :]
    for k, part in enumerate(operands):
        place = Layout(part.shape, strides, result.dtype)
        made = copies(part, place, (k, len(operands)), k * result.strides[axis])
        if made is None or part.dtype != result.dtype:
            return None
        found += made
    return found


def _copied(make: Callable[..., Any]) -> Writer:
    """Return the writer of a primitive whose results are copies of views of its operand."""

    def write(
        operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
    ) -> Made:
        if len(operands) != 1:
            return None
        views = views_of(make, operands[0], params)
        if views is None or [view.shape for _, view in views] != [r.shape for r in results]:
            return None
        found: list[NativeStep] = []
        for k, ((offset, view), result) in enumerate(zip(views, results)):
            made = copies(view, result, (0, 1 + k), source_offset=offset)
            if made is None:
                return None
            found += made
        return found

    return write


def _reshape(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    """Return the copy to the order of indices, in which all shapes are alike."""
    (source,) = operands
    return copies(source, contiguous(source.shape, source.dtype), (0, 1))


def _frames(x: Any, *, length: int, step: int) -> Any:
    is_short = x.shape[-1] < length
    return x if is_short else sliding_window_view(x, length, axis=-1)[..., ::step, :]


def _slice(x: Any, *, index: tuple[Any, ...]) -> Any:
    return x[index if Ellipsis in index else (*index, ...)]  # a number is an array as well


def _unslice(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (source,), (result,) = operands, results
    views = views_of(_slice, result, {"index": params["index"]})
    if views is None or views[0][1].shape != source.shape:
        return None
    ((offset, view),) = views
    made = copies(source, view, (0, 1), offset)
    return None if made is None else [_filling(result, 0, 1), *made]


def _slice_set(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (x, v), (result,) = operands, results
    views = views_of(_slice, result, {"index": params["index"]})
    if views is None or views[0][1].shape != v.shape or v.dtype != x.dtype:
        return None
    ((offset, view),) = views
    kept, written = copies(x, result, (0, 2)), copies(v, view, (1, 2), offset)
    return None if kept is None or written is None else [*kept, *written]


def _roll(operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]) -> Made:
    """Return the copies of both parts of an array that is rolled along one axis."""
    (source,), (result,) = operands, results
    moved = [(by, axis) for by, axis in zip(params["shift"], params["axis"]) if source.shape[axis]]
    if len(moved) != 1:
        return None
    ((by, axis),) = moved
    length = source.shape[axis]
    by %= length
    found: list[NativeStep] = []
    for count, start, target in ((length - by, 0, by), (by, length - by, 0)):
        shape = (*source.shape[:axis], count, *source.shape[axis + 1 :])
        part = Layout(shape, source.strides, source.dtype)
        place = Layout(shape, result.strides, result.dtype)
        offsets = (target * result.strides[axis], start * source.strides[axis])
        made = copies(part, place, (0, 1), *offsets)
        if made is None:
            return None
        found += made
    return found


def _filled(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    (result,) = results
    return [_filling(result, params["value"], len(operands))] if result.size else []


def _filling(result: Layout, value: Any, place: int) -> NativeStep:
    element = np.array(value).astype(result.dtype).tobytes()
    words = np.frombuffer(element.ljust(-(-len(element) // 8) * 8, b"\0"), np.int64)
    head = (len(element), result.size, *map(int, words))
    return NativeStep(FILL, ((place, 0),), head, (), result.size)


WRITERS: dict[str, Writer] = {
    "broadcast_to": _copied(lambda x, *, shape: np.broadcast_to(x, shape)),
    "concat": _concat,
    "flip": _copied(lambda x, *, axis: np.flip(x, axis)),
    "frames": _copied(_frames),
    "full_like": _filled,
    "permute_dims": _copied(lambda x, *, axes: x.transpose(axes)),
    "reshape": _reshape,
    "roll": _roll,
    "slice": _copied(_slice),
    "slice_set": _slice_set,
    "stack": _stack,
    "unslice": _unslice,
}
