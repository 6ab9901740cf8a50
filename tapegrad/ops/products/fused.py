"""Matrix products fused with a bias, a residual and an activation, or with sums of an operand.

Only programs use them: the pass in program/passes/epilogues.py replaces a product and the calls
around it by these primitives, after all derivatives have been taken.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import Function, nondifferentiable
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.ops.elementwise.activations import relu
from tapegrad.ops.elementwise.sigmoids import gelu_tanh
from tapegrad.ops.products.primitives import plane_p
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p, sum_p

ACTIVATIONS: dict[str, Function] = {"relu": relu, "gelu_tanh": gelu_tanh}
"""The activations that can be fused, by the name of the primitive."""


def _forward(
    xp: Any,
    a: Any,
    b: Any,
    *addends: Any,
    bias: bool,
    residual: bool,
    activation: str | None,
    **transposes: bool,
) -> Any:
    """Return act(a b + bias + residual); all operands have the dtype of the result."""
    array_type = type(a)
    total = plane_p.kernel(array_type)(a, b, **transposes)
    for addend in addends:
        total = PRIMITIVES["add"].kernel(array_type)(total, addend)
    return total if activation is None else PRIMITIVES[activation].kernel(array_type)(total)


def _batch(
    size: int,
    batched: tuple[bool, ...],
    a: Any,
    b: Any,
    *addends: Any,
    bias: bool,
    residual: bool,
    activation: str | None,
    **transposes: bool,
) -> Any:
    """Batch the product, the additions and the activation one after the other."""
    rule = plane_p.batch_rule if any(batched[:2]) else None
    total = rule(size, batched[:2], a, b, **transposes) if rule else plane_p(a, b, **transposes)
    for position, addend in enumerate(addends):
        if bias and position == 0 and batched[2]:
            addend = reshape_p(addend, shape=(size, 1, addend.shape[-1]))
        total = total + addend
    return total if activation is None else ACTIVATIONS[activation](total)


matmul_sum_p: Primitive = nondifferentiable("matmul_sum", _forward, batch=_batch)
"""act(a b + bias + residual) of two matrices, either of them transposed.

The flags `bias` (a vector along the last axis) and `residual` (a matrix like the result) say which
addends are passed, in this order. The activation is None or a name in ACTIVATIONS.
"""


def _with_sums(xp: Any, a: Any, b: Any, *, of_first: bool, **transposes: bool) -> tuple[Any, Any]:
    array_type = type(a)
    product = plane_p.kernel(array_type)(a, b, **transposes)
    axis = summed_axis(**transposes, of_first=of_first)
    return product, sum_p.kernel(array_type)(a if of_first else b, axis=(axis,), keepdims=False)


def summed_axis(transpose_a: bool, transpose_b: bool, of_first: bool) -> int:
    """Return the axis of the first or the second matrix that the product contracts."""
    return int(not transpose_a) if of_first else int(transpose_b)


def _batch_with_sums(
    size: int, batched: tuple[bool, bool], a: Any, b: Any, *, of_first: bool, **transposes: bool
) -> tuple[Any, Any]:
    rule: Any = plane_p.batch_rule
    product = rule(size, batched, a, b, **transposes)
    axis = summed_axis(**transposes, of_first=of_first)
    if batched[0 if of_first else 1]:
        return product, sum_p(a if of_first else b, axis=(axis + 1,), keepdims=False)
    sums = sum_p(a if of_first else b, axis=(axis,), keepdims=False)
    return product, broadcast_p(sums, shape=(size, *sums.shape))


matmul_with_sums_p: Primitive = nondifferentiable(
    "matmul_with_sums", _with_sums, batch=_batch_with_sums, many=True
)
"""A product of two matrices, and the sums of one of them along the contracted axis.

For example, the weight gradient x^T t together with the sums of t, which are the bias gradient.
"""

LEAST_WITH_SUMS = 1 << 25
"""The number of multiplications above which a product also computes the sums.

Measured on an H200 with all bias gradients fused: a step with 124 million weights became 1 percent
faster; a step with three small layers became 3 percent slower, because there the sums share a loop
with the computation of their operand.
"""

_SECONDS_PER_ROW, _SUM_SECONDS, _BYTES_PER_SECOND = 0.55e-9, 3e-6, 3.5e12


def sums_are_cheap(depth: int, width: int, itemsize: int) -> bool:
    """Return whether a product computes sums over its depth faster than a separate call.

    cuBLASLt adds up a column in few threads, so that its time grows with the depth: 0.55 ms for a
    million rows of 16 numbers on an H200. A separate sum takes the time of reading the operand.
    """
    separate = _SUM_SECONDS + depth * width * itemsize / _BYTES_PER_SECOND
    return depth * _SECONDS_PER_ROW < separate
