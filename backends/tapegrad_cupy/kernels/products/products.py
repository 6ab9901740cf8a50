"""Matrix products: planned once per combination of layouts, then one cuBLASLt call each.

Transposed, strided and broadcast operands are read without a copy. Small float32 matrices are
multiplied by a special kernel (small.py), and dtypes that cuBLASLt does not support by CuPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import cupy

from tapegrad.core.argument_checks import check_elements
from tapegrad.core.precision import TF32
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad_cupy.kernels.copying.copies import contiguous_copy
from tapegrad_cupy.kernels.copying.corners import in_corner, out_of_corner
from tapegrad_cupy.kernels.products.narrow import NarrowProduct, find_narrow
from tapegrad_cupy.kernels.products.small import SmallProduct, find_small
from tapegrad_cupy.kernels.products.stack_vectors import StackedVectors, find_form
from tapegrad_cupy.kernels.rows.row_launch import processors
from tapegrad_cupy.launch.cuda_prelude import FLOATS
from tapegrad_cupy.library_calls import cublaslt
from tapegrad_cupy.library_calls.cublaslt import Product, UnsupportedError
from tapegrad_cupy.library_calls.product_padding import Padding, choose_padding
from tapegrad_cupy.library_calls.product_splits import Split, find_split
from tapegrad_cupy.library_calls.product_steps import (
    Gemm,
    Layout,
    Route,
    Shape,
    find_route,
    product_shape,
)

REASON = cublaslt.REASON
"""Why CuPy computes all products, or "" if cuBLASLt is available."""

MOST_PLANS = 8192

_SPLIT = ("float32", "float64")
"""Dtypes of parts of products; parts in half precision would be rounded before they are added."""

Plan = Callable[[Any, Any, int, int, Any], Any]
"""Takes two arrays, their addresses, and an array to add to (or None); returns the product."""

_plans: dict[Any, Plan] = {}
_ndarray = cupy.ndarray
_current_device = cupy.cuda.runtime.getDevice
_current_stream = cupy.cuda.get_current_stream


# Kernels


def matmul(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool, total: Any = None) -> Any:
    """Return the product of matrices or stacks of matrices; either may be transposed first.

    If a `total` of the product's shape and dtype is given, add the product to it in place.
    """
    data_a, data_b = a.data, b.data
    device = _current_device()
    if not device == data_a.device_id == data_b.device_id:
        return _elsewhere(a, b, transpose_a, transpose_b, total)
    at_a, at_b = data_a.ptr, data_b.ptr
    key = (
        a.shape, a.strides, a.dtype.num, transpose_a,
        b.shape, b.strides, b.dtype.num, transpose_b,
        (at_a | at_b) & 255, device, TF32["on"],
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        return _plan_and_run(key, a, b, transpose_a, transpose_b, total)
    return plan(a, b, at_a, at_b, total)


def matvec(a: Any, x: Any, *, transpose: bool) -> Any:
    """Return a matrix (or its transpose) times a vector."""
    return matmul(a, x, transpose_a=transpose, transpose_b=False)


def add_product(total: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> bool:
    """Add a product to `total` in place; return False if `total` is unsuitable."""
    if not total._c_contiguous or not a.dtype == b.dtype == total.dtype:
        return False
    matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, total=total)
    return True


KERNELS = {
    "matmul": matmul,
    "matmul_stack": matmul,
    "matvec": matvec,
}


def _elsewhere(a: Any, b: Any, transpose_a: bool, transpose_b: bool, total: Any) -> Any:
    """Multiply on the device of the operands, which is not the current one."""
    device = a.data.device_id
    if device != b.data.device_id:
        raise ValueError("the operands lie on different devices")
    with cupy.cuda.Device(device):
        return matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, total=total)


# Plans


def _plan_and_run(
    key: Any, a: Any, b: Any, transpose_a: bool, transpose_b: bool, total: Any
) -> Any:
    """Make a plan, run it, and keep it if it worked."""
    plan = _make_plan(a, b, transpose_a, transpose_b)
    try:
        result = plan(a, b, a.data.ptr, b.data.ptr, total)
    except UnsupportedError:
        plan = _added(functools.partial(_by_cupy, transpose_a, transpose_b))
        result = plan(a, b, 0, 0, total)
    if len(_plans) >= MOST_PLANS:
        _plans.clear()
    _plans[key] = plan
    return result


def _make_plan(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Plan:
    first, second = matrix_layout(a, transpose_a), matrix_layout(b, transpose_b)
    shape = product_shape(first, second, b.ndim == 1)[: None if b.ndim > 1 else -1]
    check_elements("matmul", shape)
    dtype = cupy.result_type(a.dtype, b.dtype)
    if a.dtype != dtype or b.dtype != dtype:
        return _added(functools.partial(_promoted, dtype, transpose_a, transpose_b))
    if 0 in shape:
        return _added(lambda a, b: cupy.ndarray(shape, dtype))
    if 0 in a.shape:
        return _added(lambda a, b: cupy.zeros(shape, dtype))
    if REASON or dtype.name not in cublaslt.NUMBERS:
        return _added(functools.partial(_by_cupy, transpose_a, transpose_b))
    bits = a.data.ptr | b.data.ptr
    small = None if TF32["on"] else find_small(a, b, transpose_a, transpose_b, bits)
    if small is not None:
        return _one_launch(small, dtype)
    narrow = find_narrow(a, b, transpose_a, transpose_b)
    if narrow is not None:
        return _added(_one_narrow(narrow, dtype))
    stacked = find_form(first, second) if dtype.name in FLOATS else None
    if stacked is not None:
        product = StackedVectors(stacked[0], dtype.name, bits)
        return _added(_one_stack(product, stacked[1], shape, dtype))
    if dtype.name in _SPLIT and min(a.ndim, b.ndim) > 1:
        # Kernels without tensor cores take twice the time of parts.
        single = dtype == cupy.float32 and not TF32["on"]
        split = find_split(first, second, processors(), single)
        if split is not None:
            return _added(_by_parts(split, transpose_a, transpose_b))
    padding = find_padding(a, b, first, second)
    if padding is not None:
        return _added(_of_padded(padding, transpose_a, transpose_b))
    try:
        return _library_plan(a, b, first, second, shape, dtype)
    except UnsupportedError:
        return _added(functools.partial(_by_cupy, transpose_a, transpose_b))


def _library_plan(a: Any, b: Any, first: Layout, second: Layout, shape: Shape, dtype: Any) -> Plan:
    """Return the plan of calls of the library; raise UnsupportedError if it lacks an algorithm."""
    device = _current_device()
    route = find_route(first, second, dtype.itemsize, alignment_of(a.data.ptr | b.data.ptr))
    products = [prepared_product(step.gemm, dtype.name, TF32["on"], device) for step in route.steps]
    if len(products) == 1 and route.copies == (None, None):
        return _one_call(products[0], route.first_is_a, shape, dtype)
    return _added(_many_calls(products, route, shape, dtype))


def _added(multiply: Callable[[Any, Any], Any]) -> Plan:
    """Return a plan that adds its product to a total by a separate launch."""

    def run(a: Any, b: Any, at_a: int, at_b: int, total: Any) -> Any:
        product = multiply(a, b)
        if total is None:
            return product
        total += product
        return total

    return run


@functools.lru_cache(maxsize=MOST_PLANS)
def prepared_product(
    gemm: Gemm, dtype: str, tf32: bool, device: int, epilogue: int = cublaslt.PLAIN
) -> Product:
    """Return a prepared product for the device; raise UnsupportedError if there is no algorithm."""
    return Product(gemm, dtype, tf32, device, epilogue)


def matrix_layout(array: Any, transpose: bool) -> Layout:
    """Return the layout of an array's matrices; a vector is a matrix of one column.

    A stride that is not a multiple of the item size becomes -1, so that the array is copied.
    """
    itemsize = array.dtype.itemsize
    strides = tuple(-1 if step % itemsize else step // itemsize for step in array.strides)
    if array.ndim == 1:
        return Layout((*array.shape, 1), (*strides, 1), transpose)
    return Layout(array.shape, strides, transpose)


def alignment_of(address: int) -> int:
    """Return the largest power of two up to 256 that divides an address."""
    return (address | 256) & -(address | 256)


def _one_launch(product: SmallProduct, dtype: Any) -> Plan:
    """Return the plan of a small product: one launch of the kernel in small.py."""

    def run(a: Any, b: Any, at_a: int, at_b: int, total: Any) -> Any:
        result = cupy.ndarray(product.shape, dtype) if total is None else total
        at = result.data.ptr
        product(at_a, at_b, at, 0 if total is None else at)
        return result

    return run


def _one_call(product: Product, first_is_a: bool, shape: Shape, dtype: Any) -> Plan:
    """Return the plan of the usual case: one call and no copies."""

    def run(a: Any, b: Any, at_a: int, at_b: int, total: Any) -> Any:
        result = _ndarray(shape, dtype) if total is None else total
        at = result.data.ptr
        added = 0 if total is None else at
        if first_is_a:
            product(at_a, at_b, at, _current_stream().ptr, added)
        else:
            product(at_b, at_a, at, _current_stream().ptr, added)
        return result

    return run


def _one_narrow(product: NarrowProduct, dtype: Any) -> Callable[[Any, Any], Any]:
    """Return the function of a product with few columns: one launch of the kernel in narrow.py."""

    def multiply(a: Any, b: Any) -> Any:
        result = _ndarray(product.shape, dtype)
        product(a.data.ptr, b.data.ptr, result.data.ptr)
        return result

    return multiply


def _one_stack(
    product: StackedVectors, first_is_matrices: bool, shape: Shape, dtype: Any
) -> Callable[[Any, Any], Any]:
    """Return the function of a stack of matrices times vectors: one launch."""

    def multiply(a: Any, b: Any) -> Any:
        result = _ndarray(shape, dtype)
        matrices, vectors = (a, b) if first_is_matrices else (b, a)
        product(matrices.data.ptr, vectors.data.ptr, result.data.ptr)
        return result

    return multiply


def _by_parts(split: Split, transpose_a: bool, transpose_b: bool) -> Callable[[Any, Any], Any]:
    """Return a function that multiplies parts of the depth at the same time and adds them up."""
    add_up = PRIMITIVES["sum"].kernel(_ndarray)

    def multiply(a: Any, b: Any) -> Any:
        flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        itemsize = a.dtype.itemsize
        whole = [
            _ndarray(x.shape, array.dtype, array.data, [itemsize * step for step in x.strides])
            for x, array in zip(split.layouts, (a, b))
        ]
        parts = matmul(*whole, **flags)
        total = add_up(parts, axis=(parts.ndim - 3,), keepdims=False)
        if split.done < split.depth:
            rest = slice(split.done, None)
            a = a[..., rest, :] if transpose_a else a[..., rest]
            b = b[..., rest] if transpose_b else b[..., rest, :]
            matmul(a, b, **flags, total=total)
        return total

    return multiply


def find_padding(a: Any, b: Any, first: Layout, second: Layout) -> Padding | None:
    """Return how to enlarge matrices before a product, None to leave them; see product_padding."""
    if a.dtype.itemsize != 2:
        return None  # kernels for other dtypes, TensorFloat-32 included, gain less than copies cost
    alignments = (alignment_of(a.data.ptr), alignment_of(b.data.ptr))
    return choose_padding(first, second, a.dtype.itemsize, alignments)


def padded_operands(
    padding: Padding, a: Any, b: Any, transpose_a: bool, transpose_b: bool
) -> tuple[Any, Any]:
    """Return the operands of a product, those that are to be enlarged as aligned copies."""
    if padding.first:
        sides = (a.shape[-1 if transpose_a else -2], padding.depth)
        a = in_corner(a, *sides[:: -1 if transpose_a else 1])
    if padding.second:
        sides = (padding.depth, padding.columns)
        b = in_corner(b, *sides[:: -1 if transpose_b else 1])
    return a, b


def _of_padded(padding: Padding, transpose_a: bool, transpose_b: bool) -> Callable[[Any, Any], Any]:
    """Return a function that multiplies aligned copies."""

    def multiply(a: Any, b: Any) -> Any:
        columns = b.shape[-2 if transpose_b else -1]
        a, b = padded_operands(padding, a, b, transpose_a, transpose_b)
        result = matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
        return result if columns == padding.columns else out_of_corner(result, columns)

    return multiply


def _many_calls(
    products: list[Product], route: Route, shape: Shape, dtype: Any
) -> Callable[[Any, Any], Any]:
    calls = [
        (product, step.first, step.second, step.result)
        for product, step in zip(products, route.steps)
    ]
    copy_a, copy_b = route.copies

    def multiply(a: Any, b: Any) -> Any:
        if copy_a is not None:
            a = _copied(a, copy_a)
        if copy_b is not None:
            b = _copied(b, copy_b)
        result = _ndarray(shape, dtype)
        at_a, at_b, at, stream = a.data.ptr, b.data.ptr, result.data.ptr, _current_stream().ptr
        for product, first, second, place in calls:
            one, other = at_a + first, at_b + second
            if not route.first_is_a:
                one, other = other, one
            product(one, other, at + place, stream)
        return result

    return multiply


def _copied(array: Any, lead: Shape) -> Any:
    if lead:
        array = cupy.broadcast_to(array, (*lead, *array.shape[-2:]))
    return contiguous_copy(array)


# Products without cuBLASLt


def _promoted(dtype: Any, transpose_a: bool, transpose_b: bool, a: Any, b: Any) -> Any:
    """Cast both operands to the dtype of the result, then multiply."""
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    return matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _by_cupy(transpose_a: bool, transpose_b: bool, a: Any, b: Any) -> Any:
    """Multiply by CuPy; bfloat16 as float32, because CuPy's stacks in bfloat16 corrupt memory."""
    dtype = a.dtype
    if dtype.name == "bfloat16":
        a, b = a.astype(cupy.float32), b.astype(cupy.float32)
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    return cupy.matmul(a, b).astype(dtype, copy=False)
