"""Steps of programs as instructions of a sequence; runtime.py says what their integers mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.backend.capabilities import Layout, NativeStep
from tapegrad_numpy.loops.compiled_parts import CompiledParts
from tapegrad_numpy.sequences.blas import Blas, blas
from tapegrad_numpy.sequences.runtime import COPY, FILL, LOOP, PRODUCT, ROWS
from tapegrad_numpy.sequences.views import views_of

_MOST_AXES = 16
_MOST_STACK_AXES = 8
_OPERATIONS_PER_ELEMENT = 16
"""Multiplications of a matrix product that take about as long as an element of a loop."""

Made = list[NativeStep] | None
Writer = Callable[[Sequence[Layout], Sequence[Layout], Mapping[str, Any]], Made]


def step_of_parts(parts: CompiledParts, operands: Sequence[Layout]) -> Made:
    """Return the instruction of a compiled function, which reads contiguous arrays."""
    if not all(layout.is_contiguous for layout in operands):
        return None
    arrays = tuple((k, 0) for k in range(parts.arrays))
    head = (parts.numbers.ctypes.data, parts.threads, parts.slots, parts.work, parts.close)
    kind = ROWS if parts.reports else LOOP
    return [NativeStep(kind, arrays, head, (parts,), parts.elements)]


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


# Products


def _matrix_product(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    library, (a, b), (c,) = blas(), operands, results
    flags = (params["transpose_a"], params["transpose_b"])
    if library is None or min(len(a.shape), len(b.shape)) < 2 or not (a.size and b.size):
        return None
    if not a.dtype == b.dtype == c.dtype or a.dtype.name not in ("float32", "float64"):
        return None
    stack = _stack_axes(a, b, c)
    forms = [_matrix_form(one, flag) for one, flag in zip((a, b), flags)]
    if stack is None or forms[0] is None or forms[1] is None:
        return None
    return _product(library, forms[0], forms[1], stack, c)


def _matrix_vector(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    library, (a, x), (y,) = blas(), operands, results
    if library is None or len(a.shape) != 2 or not (a.size and x.size):
        return None
    if not a.dtype == x.dtype == y.dtype or a.dtype.name not in ("float32", "float64"):
        return None
    form = _matrix_form(a, params["transpose"])
    if form is None or not x.is_contiguous:
        return None
    return _vector_product(library, form, 1, [], (0, 1, 2), a.dtype.itemsize)


Form = tuple[bool, int, int, int]
"""A matrix as BLAS takes it: whether it is transposed, its size after that, its leading size."""


def _matrix_form(layout: Layout, transposed: bool) -> Form | None:
    rows, columns = layout.shape[-2:]
    itemsize = layout.dtype.itemsize
    down, along = layout.strides[-2:]
    down = columns * itemsize if rows == 1 else down
    along = itemsize if columns == 1 else along
    if along == itemsize and down >= columns * itemsize and not down % itemsize:
        size, leading, is_turned = (rows, columns), down // itemsize, transposed
    else:
        down = itemsize if rows == 1 else layout.strides[-2]
        along = rows * itemsize if columns == 1 else layout.strides[-1]
        if down != itemsize or along < rows * itemsize or along % itemsize:
            return None
        size, leading, is_turned = (rows, columns), along // itemsize, not transposed
    rows, columns = size[::-1] if transposed else size
    return is_turned, rows, columns, leading


def _stack_axes(a: Layout, b: Layout, c: Layout) -> list[tuple[int, int, int, int]] | None:
    """The sizes of the axes before the matrices, and the strides of the three arrays there."""
    sizes = c.shape[:-2]
    if len(sizes) > _MOST_STACK_AXES or 0 in c.shape:
        return None
    found: list[tuple[int, ...]] = [sizes]
    for layout in (a, b, c):
        own, strides = layout.shape[:-2], layout.strides[:-2]
        steps = [0 if size == 1 else step for size, step in zip(own, strides)]
        found.append((*[0] * (len(sizes) - len(own)), *steps))
    axes: list[tuple[int, int, int, int]] = []
    for size, *steps in zip(*found, strict=True):
        if size == 1:
            continue
        if axes and all(last == step * size for last, step in zip(axes[-1][1:], steps)):
            axes[-1] = (axes[-1][0] * size, *steps)
        else:
            axes.append((size, *steps))
    return axes


def _product(
    library: Blas, a: Form, b: Form, stack: list[tuple[int, int, int, int]], c: Layout
) -> Made:
    (is_a, rows, deep, la), (is_b, _, columns, lb) = a, b
    itemsize = c.dtype.itemsize
    if columns == 1:
        step = 1 if is_b else lb
        return _vector_product(library, a, step, stack, (0, 1, 2), itemsize)
    if rows == 1:
        # x B is the transpose of B times x.
        turned = (not is_b, columns, deep, lb)
        step = la if is_a else 1
        swapped = [(size, two, one, three) for size, one, two, three in stack]
        return _vector_product(library, turned, step, swapped, (1, 0, 2), itemsize)
    if len(stack) == 1 and not is_a and stack[0][2] == 0 and stack[0][1] == la * rows * itemsize:
        # One matrix for all: the rows of the stack are the rows of one product.
        rows, stack = rows * stack[0][0], []
    head = (
        library.gemm[itemsize], library.integer, itemsize, int(is_a), int(is_b),
        rows, columns, deep, la, lb, columns,
        len(stack), *[number for axis in stack for number in axis],
    )  # fmt: skip
    work = prod(axis[0] for axis in stack) * rows * columns * deep // _OPERATIONS_PER_ELEMENT
    return [NativeStep(PRODUCT, ((0, 0), (1, 0), (2, 0)), head, (), work)]


def _vector_product(
    library: Blas,
    matrix: Form,
    step: int,
    stack: list[tuple[int, int, int, int]],
    order: tuple[int, int, int],
    itemsize: int,
) -> Made:
    is_turned, rows, columns, leading = matrix
    stored = (columns, rows) if is_turned else (rows, columns)
    head = (
        library.gemv[itemsize], library.integer, itemsize, int(is_turned), 2,
        *stored, 0, leading, step, 1,
        len(stack), *[number for axis in stack for number in axis],
    )  # fmt: skip
    work = prod(axis[0] for axis in stack) * rows * columns // _OPERATIONS_PER_ELEMENT
    return [NativeStep(PRODUCT, tuple((k, 0) for k in order), head, (), work)]


# Copies


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
    "full_like": _filled,
    "matmul": _matrix_product,
    "matmul_stack": _matrix_product,
    "matvec": _matrix_vector,
    "permute_dims": _copied(lambda x, *, axes: x.transpose(axes)),
    "reshape": _copied(lambda x, *, shape: x.reshape(shape)),
    "roll": _roll,
    "slice": _copied(_slice),
    "stack": _stack,
    "unslice": _unslice,
}
"""Primitives that are instructions without a compiled function of their own."""
