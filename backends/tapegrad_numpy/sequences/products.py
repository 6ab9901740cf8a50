"""Matrix products of BLAS as instructions of a sequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tapegrad.core.backend.native_sequences import Layout, NativeStep
from tapegrad_numpy.loops.pool import team
from tapegrad_numpy.sequences.blas import Blas, blas
from tapegrad_numpy.sequences.complex_products import complex_product
from tapegrad_numpy.sequences.functions import Made, Writer, either
from tapegrad_numpy.sequences.runtime import OPERATIONS_PER_ELEMENT, PRODUCT
from tapegrad_numpy.sequences.stacks import Axes, Form, matrices, matrix_form, stack_axes


def _matrix_product(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    library, (a, b), (c,) = blas(), operands, results
    flags = (params["transpose_a"], params["transpose_b"])
    if library is None or min(len(a.shape), len(b.shape)) < 2 or not (a.size and b.size):
        return None
    if not a.dtype == b.dtype == c.dtype or a.dtype.name not in ("float32", "float64"):
        return None
    stack = (
        None if 0 in c.shape else stack_axes(c.shape[:-2], [matrices(a), matrices(b), matrices(c)])
    )
    forms = [matrix_form(one, flag) for one, flag in zip((a, b), flags)]
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
    form = matrix_form(a, params["transpose"])
    if form is None or not x.is_contiguous:
        return None
    return _vector_product(library, form, 1, [], (0, 1, 2), a.dtype.itemsize)


def _product(library: Blas, a: Form, b: Form, stack: Axes, c: Layout) -> Made:
    (is_a, rows, deep, la), (is_b, _, columns, lb) = a, b
    itemsize = c.dtype.itemsize
    if rows == 1 and is_a and la == 1:  # one row lies in memory like its transpose
        is_a, la = False, deep
    while stack and not is_a and stack[-1][2] == 0 and stack[-1][1] == la * rows * itemsize:
        # One matrix for all: the rows of the stack are the rows of one product.
        rows, stack = rows * stack[-1][0], stack[:-1]
    if columns == 1:
        step = 1 if is_b else lb
        matrix = (is_a, rows, deep, la)
        return _vector_product(library, matrix, step, stack, (0, 1, 2), itemsize)
    if rows == 1:
        # x B is the transpose of B times x.
        turned = (not is_b, columns, deep, lb)
        step = la if is_a else 1
        swapped: Axes = [(size, two, one, three) for size, one, two, three in stack]
        return _vector_product(library, turned, step, swapped, (1, 0, 2), itemsize)
    head = (
        library.gemm[itemsize], library.integer, itemsize, int(is_a), int(is_b),
        rows, columns, deep, la, lb, columns,
        len(stack), *[number for axis in stack for number in axis], *_divided(library),
    )  # fmt: skip
    work = prod(axis[0] for axis in stack) * rows * columns * deep // OPERATIONS_PER_ELEMENT
    return [NativeStep(PRODUCT, ((0, 0), (1, 0), (2, 0)), head, (), work)]


def _vector_product(
    library: Blas,
    matrix: Form,
    step: int,
    stack: Axes,
    order: tuple[int, int, int],
    itemsize: int,
) -> Made:
    is_turned, rows, columns, leading = matrix
    stored = (columns, rows) if is_turned else (rows, columns)
    head = (
        library.gemv[itemsize], library.integer, itemsize, int(is_turned), 2,
        *stored, 0, leading, step, 1,
        len(stack), *[number for axis in stack for number in axis], *_divided(library),
    )  # fmt: skip
    work = prod(axis[0] for axis in stack) * rows * columns // OPERATIONS_PER_ELEMENT
    return [NativeStep(PRODUCT, tuple((k, 0) for k in order), head, (), work)]


def _divided(library: Blas) -> tuple[int, ...]:
    """What products of a stack need to be divided among threads."""
    return (0, 0, 0) if library.threads is None else (team(), *library.threads)


WRITERS: dict[str, Writer] = {
    "matmul": either(_matrix_product, complex_product),
    "matmul_stack": either(_matrix_product, complex_product),
    "matvec": _matrix_vector,
}
