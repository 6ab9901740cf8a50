"""Attention in tiles, which never forms the matrix of weights, and its gradient.

cuDNN is used if it is installed and has a plan, otherwise the kernels of this package, up to 256
features. The axis of heads may be anywhere, as after splitting a projection: nothing is copied if
features are contiguous. Results have the memory order of their queries, keys or values, so joining
heads afterwards copies nothing either. cuDNN and the kernels save the log-sum-exp of each query's
scores. The generic kernel saves the weights, from which the gradient recognises it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad_cupy.kernels.attention import attention_tiles as tiles, cudnn_attention
from tapegrad_cupy.kernels.attention.cudnn_attention import Call, Operand
from tapegrad_cupy.kernels.copying.copies import contiguous_copy
from tapegrad_cupy.kernels.products import products
from tapegrad_cupy.launch.cuda_prelude import FLOATS
from tapegrad_cupy.launch.cuda_source import MOST_BLOCKS, wide_dtype
from tapegrad_cupy.runtime.namespace import CupyNamespace

Array = Any
Plan = Callable[..., Any]

CUDNN = True
"""Whether cuDNN is tried first."""

MOST_PLANS = 8192

_plans: dict[Any, Plan] = {}
_ndarray = cupy.ndarray
_alloc = cupy.cuda.alloc
_current_device = cupy.cuda.runtime.getDevice


# Kernels


def attention(q: Array, k: Array, v: Array, *, scale: float, causal: bool) -> tuple[Array, Array]:
    """Return softmax(q k' * scale) v, and the values that the backward pass needs."""
    key = (
        q.shape, q.strides, k.shape, k.strides, v.shape, v.strides, q.dtype.num,
        (q.data.ptr | k.data.ptr | v.data.ptr) & 15, scale, causal, CUDNN, _current_device(),
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        plan = _keep(key, _forward_plan(q, k, v, scale, causal))
    result: tuple[Array, Array] = plan(q, k, v)
    return result


def attention_gradient(
    t: Array, q: Array, k: Array, v: Array, y: Array, kept: Array, *, scale: float, causal: bool
) -> tuple[Array, Array, Array]:
    """Return the cotangents of queries, keys and values from the cotangent `t` of the result."""
    if kept.ndim == q.ndim:
        return _generic_gradient(t, q, k, v, y, kept, scale=scale, causal=causal)
    if t.dtype != q.dtype:
        t = t.astype(q.dtype)
    places = t.data.ptr | q.data.ptr | k.data.ptr | v.data.ptr | y.data.ptr
    key = (
        t.strides, q.shape, q.strides, k.shape, k.strides, v.shape, v.strides, y.strides,
        kept.strides, q.dtype.num, places & 15, scale, causal, CUDNN, _current_device(),
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        plan = _keep(key, _backward_plan(t, q, k, v, y, kept, scale, causal))
    result: tuple[Array, Array, Array] = plan(t, q, k, v, y, kept)
    return result


KERNELS = by_name(attention, attention_gradient)


def _keep(key: Any, plan: Plan) -> Plan:
    if len(_plans) >= MOST_PLANS:
        _plans.clear()
    _plans[key] = plan
    return plan


# Supported operands


class _Namespace(CupyNamespace):
    """The CuPy namespace with the matrix products of this backend, which can be captured."""

    def matmul(self, a: Array, b: Array) -> Array:
        return products.matmul(a, b, transpose_a=False, transpose_b=False)


_xp = _Namespace()


def _generic_gradient(*arrays: Array, **params: Any) -> tuple[Array, Array, Array]:
    backward: Any = PRIMITIVES["attention_gradient"].forward
    result: tuple[Array, Array, Array] = backward(_xp, *arrays, **params)
    return result


def is_supported(q: Array, k: Array, v: Array, scale: float) -> bool:
    """Return whether the kernels take these operands in any layout.

    The scale must be positive, so that the largest product of a query has the largest score.
    """
    depth, width, dtype = q.shape[-1], v.shape[-1], q.dtype.name
    if dtype not in FLOATS or not 0 < scale < math.inf:
        return False
    if not 0 < min(depth, width) <= max(depth, width) <= tiles.MOST_DEPTH:
        return False
    if max(q.shape[-2], k.shape[-2]) >= 2**30 or math.prod(q.shape[:-1]) > MOST_BLOCKS:
        return False
    device = _current_device()
    if q.itemsize == 2 and int(cupy.cuda.Device(device).compute_capability) < 80:
        return False  # the products of halves on tensor cores need instructions of Ampere
    return tiles.most_shared(dtype, max(depth, width)) <= _most_shared(device)


def _most_shared(device: int) -> int:
    attributes = cupy.cuda.Device(device).attributes
    return int(attributes["MaxSharedMemoryPerBlockOptin"])


def operand(x: Array) -> Operand | None:
    """Return the layout of x as [examples, heads, rows, features], or None if x must be copied."""
    size = x.itemsize
    *lead, n, width = x.shape
    *steps, step, last = (stride // size for stride in x.strides)
    if last != 1 and width != 1:
        return None
    heads, head = (lead.pop(), steps.pop()) if lead else (1, n * step)
    examples, example = 1, heads * head
    for length, stride in zip(reversed(lead), reversed(steps)):
        if length == 1:
            continue
        if examples == 1:
            example = stride
        elif stride != examples * example:
            return None
        examples *= length
    return Operand((examples, heads, n, width), (example, head, step))


def _operands(*arrays: Array) -> tuple[Operand, ...] | None:
    found = [operand(x) for x in arrays]
    described = tuple(layout for layout in found if layout is not None)
    return described if len(described) == len(found) else None


class _Allocator:
    """Allocates arrays like x with another number of features, in the memory order of x."""

    __slots__ = ("_array_type", "_bytes", "layout")

    layout: Operand

    def __init__(self, x: Array, width: int) -> None:
        last = x.ndim - 1
        # The sort is stable, so axes of equal strides (length 1 or broadcast) keep their order.
        by_stride = (*sorted(range(last), key=lambda axis: -abs(x.strides[axis])), last)
        shape = (*x.shape[:-1], width)
        for order in (by_stride, tuple(range(last + 1))):
            back = tuple(order.index(axis) for axis in range(last + 1))
            example = cupy.ndarray([shape[axis] for axis in order], x.dtype).transpose(back)
            self._array_type = (shape, x.dtype, example.strides)
            self._bytes = example.nbytes
            layout = operand(example)
            if layout is not None:
                self.layout = layout
                break

    def __call__(self) -> Array:
        shape, dtype, strides = self._array_type
        return _ndarray(shape, dtype, _alloc(self._bytes), strides)


# Plans


def _forward_plan(q: Array, k: Array, v: Array, scale: float, causal: bool) -> Plan:
    shape, lines = (*q.shape[:-1], v.shape[-1]), q.shape[:-1]
    dtype, wide = q.dtype, wide_dtype(q.dtype)
    if not is_supported(q, k, v, scale):
        forward: Any = PRIMITIVES["attention"].forward
        return lambda q, k, v: forward(_xp, q, k, v, scale=scale, causal=causal)
    if 0 in shape or not k.shape[-2]:
        return lambda q, k, v: (cupy.zeros(shape, dtype), cupy.zeros(lines, wide))
    operands = _operands(q, k, v)
    if operands is None:
        return _copying(attention, scale, causal)
    make = _Allocator(q, v.shape[-1])
    call = Call(dtype.name, (*operands, make.layout), scale, causal)
    aligned = _is_aligned(q, k, v)
    if CUDNN and aligned and cudnn_attention.is_offered(call):
        plan = cudnn_attention.forward_plan(call)
        if plan is not None:
            return _forward_by_cudnn(plan, make, lines)
    return _forward_by_kernel(call, make, lines, wide, aligned)


def _copying(kernel: Plan, scale: float, causal: bool) -> Plan:
    """Return a plan that first copies operands whose features are not contiguous."""

    def run(*arrays: Array) -> Any:
        arrays = tuple(x if operand(x) else contiguous_copy(x) for x in arrays)
        return kernel(*arrays, scale=scale, causal=causal)

    return run


def _forward_by_cudnn(plan: cudnn_attention.Plan, make: _Allocator, lines: tuple[int, ...]) -> Plan:
    def run(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
        y, log_total = make(), _ndarray(lines, np.float32)
        plan(q.data.ptr, k.data.ptr, v.data.ptr, y.data.ptr, log_total.data.ptr)
        return y, log_total

    return run


def _forward_by_kernel(
    call: Call, make: _Allocator, lines: tuple[int, ...], wide: Any, aligned: bool
) -> Plan:
    depth = max(call.operands[0].shape[3], call.operands[2].shape[3])
    block = tiles.choose_tiles(call.dtype, depth, tiles.FORWARD)
    vector = aligned and _in_vectors(call)
    launch = tiles.kernel(call.dtype, depth, tiles.FORWARD, call.causal, vector).launch
    blocks, rest = _blocks(call, block.rows, 0), (*_steps(call), *_sizes(call))

    def run(q: Array, k: Array, v: Array) -> tuple[Array, Array]:
        y, log_total = make(), cupy.ndarray(lines, wide)
        places = (q.data.ptr, k.data.ptr, v.data.ptr, y.data.ptr, log_total.data.ptr)
        launch(blocks, 1, block.threads, block.shared, (*places, *rest))
        return y, log_total

    return run


def _backward_plan(
    t: Array, q: Array, k: Array, v: Array, y: Array, kept: Array, scale: float, causal: bool
) -> Plan:
    if 0 in q.shape or 0 in k.shape:
        return lambda t, q, k, v, y, kept: (
            cupy.zeros(q.shape, q.dtype), cupy.zeros(k.shape, k.dtype), cupy.zeros(v.shape, v.dtype)
        )  # fmt: skip
    operands = _operands(q, k, v, y, t)
    if operands is None or not kept.flags.c_contiguous:
        return _copying_back(scale, causal)
    makers = [_Allocator(x, x.shape[-1]) for x in (q, k, v)]
    layouts = [make.layout for make in makers]
    call = Call(q.dtype.name, (*operands, *layouts), scale, causal)
    aligned = _is_aligned(t, q, k, v, y)
    if CUDNN and aligned and cudnn_attention.is_offered(call):
        plan = cudnn_attention.backward_plan(call)
        if plan is not None:
            return _backward_by_cudnn(plan, makers)
    return _backward_by_kernels(call, makers, wide_dtype(q.dtype), aligned)


def _copying_back(scale: float, causal: bool) -> Plan:
    forward = _copying(attention_gradient, scale, causal)

    def run(t: Array, q: Array, k: Array, v: Array, y: Array, kept: Array) -> Any:
        return forward(t, q, k, v, y, contiguous_copy(kept))

    return run


def _backward_by_cudnn(plan: cudnn_attention.Plan, makers: list[_Allocator]) -> Plan:
    for_q, for_k, for_v = makers

    def run(
        t: Array, q: Array, k: Array, v: Array, y: Array, kept: Array
    ) -> tuple[Array, Array, Array]:
        results = for_q(), for_k(), for_v()
        plan(*[x.data.ptr for x in (q, k, v, y, kept, t, *results)])
        return results

    return run


def _backward_by_kernels(call: Call, makers: list[_Allocator], wide: Any, aligned: bool) -> Plan:
    q, _, v, y, t, *_ = call.operands
    lines, rows = q.shape[:3], math.prod(q.shape[:3])
    multiply, threads = tiles.product_kernel(call.dtype), 32 * tiles.PRODUCT_ROWS
    product_blocks = -(-rows // tiles.PRODUCT_ROWS)
    product_rest = (*t.steps, *y.steps, rows, q.shape[1], q.shape[2], v.shape[3])
    launches = _gradient_launches(call, aligned and _in_vectors(call))
    make_q, make_k, make_v = makers

    def run(
        t: Array, q: Array, k: Array, v: Array, y: Array, kept: Array
    ) -> tuple[Array, Array, Array]:
        product = cupy.ndarray(lines, wide)
        at_t, at = t.data.ptr, product.data.ptr
        multiply(product_blocks, threads, at_t, y.data.ptr, at, *product_rest)
        for_q, for_k, for_v = make_q(), make_k(), make_v()
        places = (q.data.ptr, k.data.ptr, v.data.ptr, at_t, kept.data.ptr, at)
        for launch, of_queries, blocks, block, rest in launches:
            first = for_q if of_queries else for_k
            arguments = (*places, first.data.ptr, for_v.data.ptr, *rest)
            launch(blocks, 1, block.threads, block.shared, arguments)
        return for_q, for_k, for_v

    return run


def _gradient_launches(call: Call, vector: bool) -> list[Any]:
    """Return per kernel its launch, whether it is for queries, its blocks, tiles and arguments."""
    q, k, v, _, t, like_q, like_k, like_v = call.operands
    depth = max(q.shape[3], v.shape[3])
    steps, launches = (*q.steps, *k.steps, *v.steps, *t.steps), []
    for role in tiles.gradient_roles(call.dtype, depth):
        block = tiles.choose_tiles(call.dtype, depth, role)
        launch = tiles.kernel(call.dtype, depth, role, call.causal, vector).launch
        of_queries = role == tiles.QUERIES
        blocks = _blocks(call, block.rows, 0 if of_queries else 1)
        first = like_q if of_queries else like_k
        rest = (*steps, *first.steps, *like_v.steps, *_sizes(call))
        launches.append((launch, of_queries, blocks, block, rest))
    return launches


# Arguments of launches


def _is_aligned(*arrays: Array) -> bool:
    return not any([x.data.ptr & 15 for x in arrays])


def _in_vectors(call: Call) -> bool:
    """Return whether all rows start at 16 bytes and have a multiple of 16 bytes."""
    wide = 16 // FLOATS[call.dtype]
    numbers = [number for x in call.operands for number in (*x.steps, x.shape[3])]
    return not any([number % wide for number in numbers])


def _blocks(call: Call, rows: int, which: int) -> int:
    examples, heads, n, _ = call.operands[which].shape
    return examples * heads * -(-n // rows)


def _steps(call: Call) -> tuple[int, ...]:
    return tuple(step for x in call.operands for step in x.steps)


def _sizes(call: Call) -> tuple[Any, ...]:
    """Return the heads, the heads per key head, both lengths and widths, and the scale."""
    q, k, v, *_ = call.operands
    heads = q.shape[1]
    return (
        heads, heads // k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3], call.scale
    )  # fmt: skip
