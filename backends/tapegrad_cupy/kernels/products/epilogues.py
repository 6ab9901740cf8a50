"""Matrix products with epilogues: bias, residual, activation, or sums of an operand.

cuBLASLt and the kernel for small float32 matrices (small.py) apply an epilogue in registers, in the
precision of the accumulation, so the result is rounded and written once. Other cases take separate
kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import cupy

from tapegrad.core.backend.registry import by_name
from tapegrad.core.precision import TF32
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad_cupy.kernels.copying.copies import contiguous_copy
from tapegrad_cupy.kernels.products import products
from tapegrad_cupy.kernels.products.narrow import NarrowProduct, find_narrow
from tapegrad_cupy.kernels.products.products import (
    alignment_of,
    find_padding,
    matrix_layout,
    padded_operands,
    prepared_product,
)
from tapegrad_cupy.kernels.products.small import ACTIVATIONS, SmallProduct, find_small
from tapegrad_cupy.library_calls import cublaslt
from tapegrad_cupy.library_calls.cublaslt import Product, UnsupportedError
from tapegrad_cupy.library_calls.product_padding import Padding
from tapegrad_cupy.library_calls.product_steps import Shape, find_route, product_shape

Array = Any

Plan = Callable[[Array, Array, Array, Array], Array]
"""Takes two matrices, a bias or None, and a residual or None; returns the result."""

SumsPlan = Callable[[Array, Array], tuple[Array, Array]]
"""Takes two matrices; returns their product and the sums of one of them."""

_EPILOGUES = {"relu": cublaslt.RELU, "gelu_tanh": cublaslt.GELU}
_HALVES = ("float16", "bfloat16")
# The tanh in cuBLASLt's GELU may be less precise than float32.
_ACTIVATIONS = {"relu": (*_HALVES, "float32", "float64"), "gelu_tanh": _HALVES}

_plans: dict[Any, Plan] = {}
_sums_plans: dict[Any, SumsPlan] = {}
_current_device = cupy.cuda.runtime.getDevice
_current_stream = cupy.cuda.get_current_stream


# Kernels


def matmul_sum(
    a: Array,
    b: Array,
    *addends: Array,
    transpose_a: bool,
    transpose_b: bool,
    bias: bool,
    residual: bool,
    activation: str | None,
) -> Array:
    """Return act(a b + bias + residual).

    The addends are the bias and the residual, each only if its flag is set.
    """
    device = _current_device()
    for array in (a, b, *addends):
        if array.data.device_id != device:
            return _elsewhere(
                matmul_sum, (a, b, *addends), transpose_a=transpose_a, transpose_b=transpose_b,
                bias=bias, residual=residual, activation=activation,
            )  # fmt: skip
    vector: Array = _packed(addends[0], cublaslt.VECTOR_ALIGNMENT) if bias else None
    matrix: Array = _with_rows(addends[-1]) if residual else None
    bits = a.data.ptr | b.data.ptr | (matrix.data.ptr if residual else 0)
    key = (
        a.shape, a.strides, a.dtype.num, transpose_a,
        b.shape, b.strides, b.dtype.num, transpose_b,
        (vector.shape, vector.dtype.num) if bias else None,
        (matrix.shape, matrix.strides, matrix.dtype.num) if residual else None,
        activation, bits & 255, device, TF32["on"],
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        call = _Call(a, b, vector, matrix, transpose_a, transpose_b, activation)
        return _plan_and_run(key, call)
    return plan(a, b, vector, matrix)


def matmul_with_sums(
    a: Array, b: Array, *, transpose_a: bool, transpose_b: bool, of_first: bool
) -> tuple[Array, Array]:
    """Return a product of matrices, and the sums of one matrix over the depth of the product.

    Row-major D = L R is column-major D' = R' L', so A is the second matrix. The sums of A over the
    depth, one per row of D', are those along the first axis of R. The sums of B are one per row of
    L.
    """
    device = _current_device()
    if not device == a.data.device_id == b.data.device_id:
        moved: tuple[Array, Array] = _elsewhere(
            matmul_with_sums, (a, b), transpose_a=transpose_a, transpose_b=transpose_b,
            of_first=of_first,
        )  # fmt: skip
        return moved
    key = (
        a.shape, a.strides, a.dtype.num, transpose_a,
        b.shape, b.strides, b.dtype.num, transpose_b,
        of_first, (a.data.ptr | b.data.ptr) & 255, device, TF32["on"],
    )  # fmt: skip
    plan = _sums_plans.get(key)
    if plan is None:
        return _plan_and_sum(key, a, b, transpose_a, transpose_b, of_first)
    return plan(a, b)


KERNELS = by_name(matmul_sum, matmul_with_sums)


def _packed(array: Array, alignment: int) -> Array:
    """Return a contiguous array with this alignment, copied if necessary."""
    if array._c_contiguous and array.data.ptr % alignment == 0:
        return array
    return contiguous_copy(array)


def _with_rows(matrix: Array) -> Array:
    """Return a matrix whose rows are contiguous and may have gaps between them."""
    if matrix._c_contiguous:
        return matrix
    size = matrix.dtype.itemsize
    has_rows = matrix.ndim == 2 and matrix.strides[1] == size and matrix.shape[0] > 1
    rest = matrix.strides[0] - matrix.shape[-1] * size
    return matrix if has_rows and rest > 0 and rest % size == 0 else contiguous_copy(matrix)


def _on_packed(plan: Plan) -> Plan:
    """Return a plan that packs the matrix that is added."""

    def run(a: Array, b: Array, vector: Array, matrix: Array) -> Array:
        return plan(a, b, vector, contiguous_copy(matrix))

    return run


def _elsewhere(kernel: Callable[..., Any], arrays: tuple[Array, ...], **params: Any) -> Any:
    """Run a kernel on the device of the operands, which is not the current one."""
    devices = {array.data.device_id for array in arrays}
    if len(devices) > 1:
        raise ValueError("the operands lie on different devices")
    with cupy.cuda.Device(devices.pop()):
        return kernel(*arrays, **params)


# Plans for epilogues of the result


class _Call(NamedTuple):
    """The arguments of a call that has no plan yet."""

    a: Array
    b: Array
    vector: Array
    matrix: Array
    transpose_a: bool
    transpose_b: bool
    activation: str | None


def _plan_and_run(key: Any, call: _Call) -> Array:
    """Make a plan, run it, and keep it. The library may reject a product only when it is called."""
    separate = _separate_kernels(call.transpose_a, call.transpose_b, call.activation)
    try:
        plan = _make_plan(call) or separate
        result = plan(*call[:4])
    except UnsupportedError:
        plan = separate
        result = plan(*call[:4])
    if len(_plans) >= products.MOST_PLANS:
        _plans.clear()
    _plans[key] = plan
    return result


def _make_plan(call: _Call) -> Plan | None:
    """Return the plan of a single product with an epilogue, or None if there is none."""
    a, b, vector, matrix = call[:4]
    dtype = a.dtype
    if not _is_supported([array for array in call[:4] if array is not None], vector is not None):
        return None
    first, second = matrix_layout(a, call.transpose_a), matrix_layout(b, call.transpose_b)
    shape = product_shape(first, second)
    if vector is not None and vector.shape != shape[1:]:
        return None
    if matrix is not None and matrix.shape != shape:
        return None
    has_gaps = matrix is not None and not matrix._c_contiguous
    padding = find_padding(a, b, first, second)
    plan = _plan_of_packed(call, shape, padding)
    if plan is not None:
        return _on_packed(plan) if has_gaps else plan
    if padding is not None:
        return None
    bits = a.data.ptr | b.data.ptr | (0 if matrix is None else matrix.data.ptr)
    route = find_route(first, second, dtype.itemsize, alignment_of(bits))
    if route.copies != (None, None) or (route.first_is_a and (vector is not None or has_gaps)):
        return None  # the result has one column, so all rows of D would need one bias
    epilogue, activation = 0 if vector is None else cublaslt.BIAS, call.activation
    if activation is not None and dtype.name in _ACTIVATIONS[activation]:
        epilogue, activation = epilogue | _EPILOGUES[activation], None
    gemm = route.steps[0].gemm
    if has_gaps:
        gemm = gemm._replace(ldc=matrix.strides[0] // dtype.itemsize)
    product = prepared_product(
        gemm, dtype.name, TF32["on"], _current_device(),
        epilogue or cublaslt.PLAIN,
    )  # fmt: skip
    return _one_call(product, route.first_is_a, shape, dtype, activation)


def _plan_of_packed(call: _Call, shape: Shape, padding: Padding | None) -> Plan | None:
    """Return the plan of a small, narrow or padded product; what it adds must be contiguous."""
    a, b, _, matrix = call[:4]
    dtype = a.dtype
    bits = a.data.ptr | b.data.ptr | (0 if matrix is None else matrix.data.ptr)
    if not TF32["on"]:
        small = find_small(a, b, call.transpose_a, call.transpose_b, bits)
        if small is not None:
            return _one_launch(small, dtype, call.activation)
    narrow = find_narrow(a, b, call.transpose_a, call.transpose_b) if matrix is None else None
    if narrow is not None:
        return _one_narrow(narrow, dtype, call.activation)
    if padding is not None and padding.columns == shape[1]:
        return _of_padded(padding, call)
    return None


def _is_supported(arrays: list[Array], has_bias: bool) -> bool:
    """Return whether the operands are two matrices (and addends) in one dtype of the library."""
    dtype = arrays[0].dtype
    return (
        not products.REASON
        and dtype.name in cublaslt.NUMBERS
        and not (has_bias and dtype.kind == "c")
        and arrays[0].ndim == arrays[1].ndim == 2
        and all(array.dtype == dtype and array.size > 0 for array in arrays)
    )


def _one_launch(product: SmallProduct, dtype: Any, activation: str | None) -> Plan:
    """Return the plan of a small product: one launch of the kernel in small.py."""
    number = ACTIVATIONS[activation]

    def run(a: Array, b: Array, vector: Array, matrix: Array) -> Array:
        result = cupy.ndarray(product.shape, dtype)
        added = 0 if matrix is None else matrix.data.ptr
        bias = 0 if vector is None else vector.data.ptr
        product(a.data.ptr, b.data.ptr, result.data.ptr, added, bias, number)
        return result

    return run


def _one_narrow(product: NarrowProduct, dtype: Any, activation: str | None) -> Plan:
    """Return the plan of a product with few columns and a bias, followed by the activation."""
    finish = None if activation is None else PRIMITIVES[activation].kernel(cupy.ndarray)

    def run(a: Array, b: Array, vector: Array, matrix: Array) -> Array:
        result = cupy.ndarray(product.shape, dtype)
        bias = 0 if vector is None else vector.data.ptr
        product(a.data.ptr, b.data.ptr, result.data.ptr, bias)
        return result if finish is None else finish(result)

    return run


def _one_call(
    product: Product, first_is_a: bool, shape: Shape, dtype: Any, activation: str | None
) -> Plan:
    """Return the plan of one product, followed by `activation` if the epilogue lacks it."""
    finish = None if activation is None else PRIMITIVES[activation].kernel(cupy.ndarray)

    def run(a: Array, b: Array, vector: Array, matrix: Array) -> Array:
        result = cupy.ndarray(shape, dtype)
        one, other = (a, b) if first_is_a else (b, a)
        at_a, at_b, at, stream = one.data.ptr, other.data.ptr, result.data.ptr, _current_stream()
        added = 0 if matrix is None else matrix.data.ptr
        at_vector = 0 if vector is None else vector.data.ptr
        product(at_a, at_b, at, stream.ptr, added, at_vector)
        return result if finish is None else finish(result)

    return run


def _of_padded(padding: Padding, call: _Call) -> Plan:
    """Return the plan of a product of aligned copies, in which only the depth is larger."""
    flags = (call.transpose_a, call.transpose_b)

    def run(a: Array, b: Array, vector: Array, matrix: Array) -> Array:
        a, b = padded_operands(padding, a, b, *flags)
        addends = [array for array in (vector, matrix) if array is not None]
        return matmul_sum(
            a, b, *addends, transpose_a=flags[0], transpose_b=flags[1],
            bias=vector is not None, residual=matrix is not None, activation=call.activation,
        )  # fmt: skip

    return run


def _separate_kernels(transpose_a: bool, transpose_b: bool, activation: str | None) -> Plan:
    """Return the plan of a product followed by one kernel for each operation."""
    forward: Any = PRIMITIVES["matmul_sum"].forward

    def run(a: Array, b: Array, vector: Array, matrix: Array) -> Array:
        addends = [array for array in (vector, matrix) if array is not None]
        return forward(
            cupy, a, b, *addends, transpose_a=transpose_a, transpose_b=transpose_b,
            bias=vector is not None, residual=matrix is not None, activation=activation,
        )  # fmt: skip

    return run


# Plans for sums of operands


def _plan_and_sum(
    key: Any, a: Array, b: Array, transpose_a: bool, transpose_b: bool, of_first: bool
) -> tuple[Array, Array]:
    """Make a plan, run it, and keep it."""
    forward: Any = PRIMITIVES["matmul_with_sums"].forward
    separate: SumsPlan = partial(
        forward, cupy, transpose_a=transpose_a, transpose_b=transpose_b, of_first=of_first
    )
    try:
        plan = _make_sums_plan(a, b, transpose_a, transpose_b, of_first) or separate
        result = plan(a, b)
    except UnsupportedError:
        plan = separate
        result = plan(a, b)
    if len(_sums_plans) >= products.MOST_PLANS:
        _sums_plans.clear()
    _sums_plans[key] = plan
    return result


def _make_sums_plan(
    a: Array, b: Array, transpose_a: bool, transpose_b: bool, of_first: bool
) -> SumsPlan | None:
    """Return the plan of a single product with sums, or None if there is none."""
    dtype = a.dtype
    if not _is_supported([a, b], True):
        return None
    first, second = matrix_layout(a, transpose_a), matrix_layout(b, transpose_b)
    shape = product_shape(first, second)
    if find_padding(a, b, first, second) is not None:
        return None
    route = find_route(first, second, dtype.itemsize, alignment_of(a.data.ptr | b.data.ptr))
    if route.copies != (None, None):
        return None
    epilogue = cublaslt.SUMS_OF_A if of_first == route.first_is_a else cublaslt.SUMS_OF_B
    product = prepared_product(
        route.steps[0].gemm, dtype.name, TF32["on"], _current_device(), epilogue
    )

    def run(a: Array, b: Array) -> tuple[Array, Array]:
        result, sums = cupy.ndarray(shape, dtype), cupy.ndarray((shape[not of_first],), dtype)
        one, other = (a, b) if route.first_is_a else (b, a)
        stream = _current_stream().ptr
        product(one.data.ptr, other.data.ptr, result.data.ptr, stream, 0, sums.data.ptr)
        return result, sums

    return run
