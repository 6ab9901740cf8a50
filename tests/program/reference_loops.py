"""A loop compiler in NumPy, one operation at a time: the reference for all other compilers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.core.trace.loop import (
    INDEXED,
    PIECES,
    WRAPS,
    ZEROS,
    JoinedLoops,
    Loop,
    LoopOutput,
    Rows,
)
from tapegrad.program.graph.formulas import nodes_of
from tapegrad.program.graph.windows import WINDOWS
from tests.rules.test_expressions import NAMES

COMBINE = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def value_of(formula: Any, inputs: Sequence[Any]) -> Any:
    """Return the value of an expression; common subexpressions are computed once."""
    found: dict[int, Any] = {}
    waiting = [formula]
    while waiting:
        node = waiting[-1]
        missing = [operand for operand in node.operands if id(operand) not in found]
        if missing and id(node) not in found:
            waiting.extend(missing)
            continue
        waiting.pop()
        if id(node) not in found:
            found[id(node)] = _computed(node, [found[id(o)] for o in node.operands], inputs)
    return found[id(formula)]


def _computed(node: Any, operands: list[Any], inputs: Sequence[Any]) -> Any:
    if node.name == "input":
        return inputs[node.value]
    if node.name == "constant":
        return node.value if node.dtype is None else np.asarray(node.value, node.dtype)
    if node.name == "astype":
        return np.asarray(operands[0]).astype(node.dtype or node.weak)
    function = NAMES.get(node.name) or getattr(np, node.name, None)
    with np.errstate(all="ignore"):
        return (function or PRIMITIVES[node.name].kernel(np.ndarray))(*operands)


def inputs_of(expressions: Sequence[Any]) -> set[int]:
    """Return the positions of the inputs that expressions read."""
    return {int(node.value) for node in nodes_of(expressions) if node.name == "input"}


def results_of(loop: Loop, arrays: Sequence[Any]) -> list[Any]:
    """Return the results of a loop for arrays."""
    seen: list[Any] = [None] * len(loop.inputs)
    indices: dict[int, Any] = {}
    while any(one is None for one in seen):
        for k, (array, read) in enumerate(zip(arrays, loop.inputs, strict=True)):
            wanted = {one.index for one in read.window or () if one.mode == INDEXED}
            if seen[k] is None and wanted <= {*indices}:
                whole = _as_seen(np.asarray(array), read, loop.shape, indices)
                seen[k] = np.broadcast_to(whole, loop.shape)
        for n, index in enumerate(loop.indices):
            if n not in indices and all(seen[i] is not None for i in inputs_of([index])):
                indices[n] = np.broadcast_to(value_of(index, seen), loop.shape)
    for stage in loop.stages:
        value = np.expand_dims(_reduced(stage, seen, loop.shape), stage.axes)
        seen.append(np.broadcast_to(value.astype(stage.dtype), loop.shape))
    found = []
    for output in loop.outputs:
        if output.combine is not None:
            value = _reduced(output, seen, loop.shape)
        else:
            value = np.broadcast_to(value_of(output.expression, seen), loop.shape)
            row = tuple(0 if k in output.axes else slice(None) for k in range(value.ndim))
            value = value[row]  # one value per row if there are axes
            if output.rows is not None:
                value = _added(value, indices[output.rows.index][row], output.rows)
        found.append(np.array(value, output.dtype).reshape(output.shape))
    return found


def _added(value: Any, index: Any, rows: Rows) -> Any:
    """Return the sums of values by index along neighbouring axes."""
    first, count = rows.axes[0], len(rows.axes)
    outer, inner = value.shape[:first], value.shape[first + count :]
    positions = index[tuple(slice(None) if k in rows.axes else 0 for k in range(value.ndim))]
    total = np.zeros((rows.size, *outer, *inner), value.dtype)
    entries = np.moveaxis(value.reshape(*outer, -1, *inner), first, 0)
    for position, entry in zip(positions.reshape(-1), entries, strict=True):
        if 0 <= position < rows.size:
            total[position] += entry
    return np.moveaxis(total, 0, first)


def _reduced(output: LoopOutput, seen: Sequence[Any], shape: tuple[int, ...]) -> Any:
    assert output.combine is not None
    value = np.broadcast_to(value_of(output.expression, seen), shape)
    dtype = value.dtype
    if dtype.name in ("bfloat16", "float16"):  # compilers accumulate in single precision
        value = value.astype("float32")
    value = COMBINE[output.combine].reduce(value, axis=output.axes).astype(dtype)
    return value if output.finish is None else value_of(output.finish, [value])


def _as_seen(array: Any, read: Any, shape: tuple[int, ...], indices: dict[int, Any]) -> Any:
    """Return what a loop reads of an array, with a length of 1 along axes that do not change it."""
    if read.window is None:
        return np.reshape(array, read.seen)
    places, is_there = [], np.ones(read.seen, bool)
    for one in read.window:
        if one.mode == INDEXED:
            index = indices[one.index]
            for k, n in enumerate(read.seen):
                if n == 1:
                    index = np.take(index, [0], axis=k)
            is_there = is_there & (index >= 0) & (index < one.size)
            moved = np.clip(index, 0, one.size - 1)
            places.append(np.broadcast_to(one.offset + one.step * moved, read.seen))
            continue
        if one.axis is None:
            places.append(np.full(read.seen, one.offset))
            continue
        index = np.arange(shape[one.axis]).reshape(
            [-1 if k == one.axis else 1 for k in range(len(shape))]
        )
        moved = index + one.shift
        if one.mode == WRAPS:
            moved = moved % one.size
        elif one.mode == ZEROS:
            is_there = is_there & (moved >= 0) & (moved < one.size)
            moved = np.clip(moved, 0, one.size - 1)
        elif one.mode == PIECES:
            is_read = np.ones_like(index, bool)
            for piece in one.pieces:
                is_in = index >= piece.begin
                first = 0 if piece.first is None else piece.first
                step = 0 if piece.first is None else piece.step
                moved = np.where(is_in, first + step * (index - piece.begin), moved)
                is_read = np.where(is_in, piece.first is not None, is_read)
            is_there = is_there & is_read
        places.append(np.broadcast_to(one.offset + one.step * moved, read.seen))
    return np.where(is_there, array[tuple(places)], np.zeros((), array.dtype))


class Reference:
    """A loop compiler in NumPy with horizontal fusion, as on a GPU."""

    dtypes = None
    complex_primitives = None
    widened = frozenset[str]()
    sorts = False
    joins = True
    definitions = frozenset({
        *("euclidean_norm", "log_softmax", "log_softmax_gradient", "logsumexp", "normalize"),
        *("normalize_gradient", "one_hot", "scatter_along_axis", "sgd_rows_update", "softmax"),
        *("offset_index", "softmax_gradient", "sum_of_squares", "ties"),
        *("fourier", "inverse_real_fourier", "real_fourier", "weigh_bins"),
    })  # fmt: skip
    windows = WINDOWS

    def result_buffer(self, shape: Any, dtype: Any) -> None:
        return None

    def source(self, run: Any) -> None:
        return None

    def takes_stages(self, rows: int, length: int, stride: int = 1) -> bool:
        return stride == 1

    def recomputes(self, weight: int, nbytes: int) -> bool:
        return weight <= 2 * nbytes

    def gathers(self, nbytes: int) -> bool:
        return True

    def adds_rows(self, dtype: Any, entries: int, size: int) -> bool:
        return np.dtype(dtype).kind == "f"

    def sorts_rows(self, entries: int, row: int, size: int) -> bool:
        return self.sorts

    def compile(self, loops: Sequence[Loop | JoinedLoops]) -> list[Callable[..., Any] | None]:
        return [_Run(loop.loops if isinstance(loop, JoinedLoops) else (loop,)) for loop in loops]


class _Run:
    def __init__(self, loops: Sequence[Loop]) -> None:
        self._loops = loops

    def __call__(self, arrays: Sequence[Any], targets: Sequence[Any]) -> tuple[Any, ...]:
        left, results = list(arrays), []
        for loop in self._loops:
            count = len(loop.inputs)
            results += results_of(loop, left[:count])
            left = left[count:]
        for place, target in enumerate(targets):
            if target is not None:
                target[...] = results[place]
                results[place] = target
        return tuple(results)
