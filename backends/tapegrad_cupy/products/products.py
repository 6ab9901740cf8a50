"""Matrix products: planned once per combination of layouts, then one cuBLASLt call each.

Operands are read where they lie, transposed, strided or broadcast. Small float32 matrices have a
kernel of their own (small.py). Dtypes that cuBLASLt does not multiply are left to CuPy.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import cupy

from tapegrad_cupy.products import cublaslt
from tapegrad_cupy.products.cublaslt import Product, UnsupportedError
from tapegrad_cupy.products.product_steps import (
    Gemm,
    Layout,
    Route,
    Shape,
    find_route,
    product_shape,
)
from tapegrad_cupy.products.small import SmallProduct, find_small

TF32 = os.environ.get("TAPEGRAD_TF32") == "1"
"""Whether float32 and complex64 operands are rounded to 10 bits, which is several times faster."""

REASON = cublaslt.REASON
"""Why all products are left to CuPy, or "" where they are not."""

MOST_PLANS = 8192

Plan = Callable[[Any, Any, int, int, Any], Any]
"""Takes two arrays, their addresses, and the array to add to or None; returns the product."""

_plans: dict[Any, Plan] = {}
_ndarray = cupy.ndarray
_current_device = cupy.cuda.runtime.getDevice
_current_stream = cupy.cuda.get_current_stream


# Kernels


def matmul(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool, total: Any = None) -> Any:
    """Return the product of matrices, or of stacks of them, either transposed.

    With a `total`, which has the shape and dtype of the product, add it there instead.
    """
    data_a, data_b = a.data, b.data
    device = _current_device()
    if not device == data_a.device_id == data_b.device_id:
        return _elsewhere(a, b, transpose_a, transpose_b, total)
    at_a, at_b = data_a.ptr, data_b.ptr
    key = (
        a.shape, a.strides, a.dtype.num, transpose_a,
        b.shape, b.strides, b.dtype.num, transpose_b,
        (at_a | at_b) & 255, device, TF32,
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        return _plan_and_run(key, a, b, transpose_a, transpose_b, total)
    return plan(a, b, at_a, at_b, total)


def matvec(a: Any, x: Any, *, transpose: bool) -> Any:
    """Return a matrix (or its transpose) times a vector."""
    return matmul(a, x, transpose_a=transpose, transpose_b=False)


def add_product(total: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> bool:
    """Add a product to `total` in place, if that is a contiguous array like it."""
    if not total._c_contiguous or not a.dtype == b.dtype == total.dtype:
        return False
    matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, total=total)
    return True


KERNELS = {
    "matmul": matmul,
    "matmul.into": add_product,
    "matmul_stack": matmul,
    "matvec": matvec,
}


def _elsewhere(a: Any, b: Any, transpose_a: bool, transpose_b: bool, total: Any) -> Any:
    """Multiply on the operands' own device, which is not the current one."""
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
    shape = product_shape(first, second)[: None if b.ndim > 1 else -1]
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
    small = None if TF32 else find_small(a, b, transpose_a, transpose_b, bits)
    if small is not None:
        return _one_launch(small, dtype)
    route = find_route(first, second, dtype.itemsize, alignment_of(bits))
    device = _current_device()
    try:
        products = [prepared_product(step.gemm, dtype.name, TF32, device) for step in route.steps]
    except UnsupportedError:
        return _added(functools.partial(_by_cupy, transpose_a, transpose_b))
    if len(products) == 1 and route.copies == (None, None):
        return _one_call(products[0], route.first_is_a, shape, dtype)
    return _added(_many_calls(products, route, shape, dtype))


def _added(multiply: Callable[[Any, Any], Any]) -> Plan:
    """A plan whose product is added to a total by a launch of its own."""

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
    """Return a product that is ready to be called on the device; raise UnsupportedError if none is.

    An algorithm is chosen once for each combination.
    """
    return Product(gemm, dtype, tf32, device, epilogue)


def matrix_layout(array: Any, transpose: bool) -> Layout:
    """Return the layout of an array's matrices; a vector is a matrix of one column.

    A stride that is no whole number of elements becomes -1, so that the array is copied.
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
    """A small product: a launch of our own kernel."""

    def run(a: Any, b: Any, at_a: int, at_b: int, total: Any) -> Any:
        result = cupy.ndarray(product.shape, dtype) if total is None else total
        at = result.data.ptr
        product(at_a, at_b, at, 0 if total is None else at)
        return result

    return run


def _one_call(product: Product, first_is_a: bool, shape: Shape, dtype: Any) -> Plan:
    """The usual case: nothing is copied, and one call does it."""

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
        result = cupy.ndarray(shape, dtype)
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
    return cupy.ascontiguousarray(array)


# What cuBLASLt does not do


def _promoted(dtype: Any, transpose_a: bool, transpose_b: bool, a: Any, b: Any) -> Any:
    """Bring both operands to the dtype of the result first."""
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    return matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _by_cupy(transpose_a: bool, transpose_b: bool, a: Any, b: Any) -> Any:
    """Let CuPy multiply; bfloat16 as float32, because its stacks would corrupt memory there."""
    dtype = a.dtype
    if dtype.name == "bfloat16":
        a, b = a.astype(cupy.float32), b.astype(cupy.float32)
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    return cupy.matmul(a, b).astype(dtype, copy=False)
