"""C kernels of fixed shapes: products, indexed rows, depthwise convolutions, Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad_numpy.loops.binding import caller
from tapegrad_numpy.loops.compile import addresses_of
from tapegrad_numpy.loops.compiled_parts import attach_parts
from tapegrad_numpy.loops.depthwise import NAMES as CONVOLUTIONS, bind_depthwise, write_depthwise
from tapegrad_numpy.loops.fourier import NAMES as TRANSFORMS, bind_fourier, write_fourier
from tapegrad_numpy.loops.indexed_rows import NAMES as ROWS, bind_rows, write_rows
from tapegrad_numpy.loops.matrix_products import write_matrix_product
from tapegrad_numpy.loops.pool import team
from tapegrad_numpy.loops.source import Kernel
from tapegrad_numpy.loops.vector_products import Described, write_vector_products

Request = tuple[str, Sequence[Described], Mapping[str, Any]]
"""A primitive, the shapes and dtypes of its operands, and its params."""

_DTYPES = ("float32", "float64")


def make_fixed(
    requests: Sequence[Request], plain: Mapping[str, Callable[..., Any]]
) -> list[Callable[..., Any] | None]:
    """Return kernels for operands of these shapes, None to use the general kernel.

    The kernels in `plain` are used for arrays that are not contiguous.
    """
    kernels = [_written(*request) for request in requests]
    made: list[Callable[..., Any] | None] = []
    for request, kernel, address in zip(requests, kernels, addresses_of(kernels)):
        known = kernel is not None and address is not None
        made.append(_bound(request, kernel, address, plain[request[0]]) if known else None)
    return made


def _written(name: str, operands: Sequence[Described], params: Mapping[str, Any]) -> Kernel | None:
    if name in ROWS:
        return write_rows(name, operands, params)
    if name in CONVOLUTIONS:
        return write_depthwise(name, operands, params)
    if name in TRANSFORMS:
        return write_fourier(name, operands, params)
    dtype = operands[0][1]
    if dtype.name not in _DTYPES or any(own != dtype for _, own in operands):
        return None
    write: Any = write_matrix_product if name == "matmul" else write_vector_products
    kernel: Kernel | None = write(operands, **params)
    return kernel


def _bound(
    request: Request, kernel: Any, address: Any, plain: Callable[..., Any]
) -> Callable[..., Any]:
    """Return the function of arrays, which allocates the results."""
    name, operands, params = request
    if name in ROWS:
        return bind_rows(name, operands, params, kernel, address, plain)
    if name in CONVOLUTIONS:
        return bind_depthwise(name, operands, params, kernel, address, plain)
    if name in TRANSFORMS:
        return bind_fourier(name, operands, params, kernel, address, plain)
    dtype = operands[0][1]
    shape = _result_shape(name, operands[0][0], operands[1][0], params)
    results = len(operands) - 1 if name == "matvecs" else 1
    arrays = [own for own, _ in operands] + [shape] * results
    function = caller([(dtype, own) for own in arrays], len(operands), kernel, address)
    empty = np.empty

    def multiply(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
        c = empty(shape, dtype)
        if function(a, b, c):
            return plain(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        return c

    def run_one(a: Any, x: Any, *, transpose: bool) -> Any:
        y = empty(shape, dtype)
        return plain(a, x, transpose=transpose) if function(a, x, y) else y

    def run_two(a: Any, x1: Any, x2: Any, *, transpose: bool) -> Any:
        y1, y2 = empty(shape, dtype), empty(shape, dtype)
        if function(a, x1, x2, y1, y2):
            return plain(a, x1, x2, transpose=transpose)
        return y1, y2

    def run_any(a: Any, *xs: Any, transpose: bool) -> Any:
        ys = [empty(shape, dtype) for _ in xs]
        return plain(a, *xs, transpose=transpose) if function(a, *xs, *ys) else ys

    if name == "matmul":
        chosen: Callable[..., Any] = multiply
    elif results == 1:
        chosen = run_one
    else:
        chosen = run_two if results == 2 else run_any
    attach_parts(chosen, kernel, address, len(arrays), team())
    return chosen


def _result_shape(
    name: str, first: tuple[int, ...], second: tuple[int, ...], params: Mapping[str, Any]
) -> tuple[int, ...]:
    if name == "matmul":
        return (first[int(params["transpose_a"])], second[int(not params["transpose_b"])])
    return (first[int(params["transpose"])],)
