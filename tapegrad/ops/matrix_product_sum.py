"""Matrix products that do more on the way: add to the result, activate it, sum up an operand.

Programs only: passes (program/epilogues.py) make them from a product and the calls around it, when
all derivatives have been taken.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.families import Function, nondifferentiable
from tapegrad.core.primitive import PRIMITIVES, Primitive
from tapegrad.ops.activations import relu
from tapegrad.ops.basic import broadcast_p, reshape_p, sum_p
from tapegrad.ops.matrix_product import plane_p
from tapegrad.ops.sigmoids import gelu_tanh

ACTIVATIONS: dict[str, Function] = {"relu": relu, "gelu_tanh": gelu_tanh}
"""What the sum can go through, by the name of its primitive."""


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
    """Return act(a b + bias + residual), whose dtype is that of all operands."""
    kind = type(a)
    total = plane_p.kernel(kind)(a, b, **transposes)
    for addend in addends:
        total = PRIMITIVES["add"].kernel(kind)(total, addend)
    return total if activation is None else PRIMITIVES[activation].kernel(kind)(total)


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
    """Do one after the other, each as a batch of its own."""
    rule = plane_p.batch_rule if any(batched[:2]) else None
    total = rule(size, batched[:2], a, b, **transposes) if rule else plane_p(a, b, **transposes)
    for position, addend in enumerate(addends):
        if bias and position == 0 and batched[2]:
            addend = reshape_p(addend, shape=(size, 1, addend.shape[-1]))
        total = total + addend
    return total if activation is None else ACTIVATIONS[activation](total)


matmul_sum_p: Primitive = nondifferentiable("matmul_sum", _forward, batch=_batch)
"""act(a b + bias + residual) of two matrices, either of them transposed.

The addends are those that `bias` (a vector along the last axis) and `residual` (a matrix like the
result) announce, in this order. The activation is None or a name in ACTIVATIONS.
"""


def _with_sums(xp: Any, a: Any, b: Any, *, of_first: bool, **transposes: bool) -> tuple[Any, Any]:
    kind = type(a)
    product = plane_p.kernel(kind)(a, b, **transposes)
    axis = summed_axis(**transposes, of_first=of_first)
    return product, sum_p.kernel(kind)(a if of_first else b, axis=(axis,), keepdims=False)


def summed_axis(transpose_a: bool, transpose_b: bool, of_first: bool) -> int:
    """Return the axis of the first or the second matrix along which a product sums."""
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
"""A product of two matrices, and the sums of one of them along the axis that the product sums over.

With a weight's gradient x^T t come the sums of t over all examples, a bias's gradient.
"""

LEAST_WITH_SUMS = 1 << 25
"""Multiplications from which on a product sums up an operand on the way.

Measured on an H200 with all bias gradients: a step of 124 million weights gained 1 percent, one of
three small layers, whose sums share a loop with what makes their operand, lost 3 percent.
"""
