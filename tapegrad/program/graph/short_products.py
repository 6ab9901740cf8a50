"""Products of matrices with short sums, as loops compute them.

Each element of `short_matmul` is a sum of a few products, which a loop reads at fixed positions
along the axis that the two operands share: `a[..., i, 0] * b[..., 0, j] + ...`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tapegrad.core.trace.expression import Expression
from tapegrad.core.trace.loop import Along
from tapegrad.program.graph.formulas import weight_of
from tapegrad.program.graph.graph import Call, Shape, Value

NAME = "short_matmul"


def is_short_product(call: Call) -> bool:
    """Whether a call is a product with short sums."""
    return call.primitive.name == NAME


def fusible_weight(call: Call) -> int | None:
    """Return the approximate cost per element of a call that loops contain, None for others."""
    return 2 * depth_of(call) - 1 if is_short_product(call) else weight_of(call)


def depth_of(call: Call) -> int:
    """Return the number of terms of the sums of a product."""
    return call.reads[0].shape[-2 if call.params["transpose_a"] else -1]


def factors_of(call: Call) -> Iterator[tuple[Value, list[Along]]]:
    """Yield the factors of the terms, and where each of them is along the axes of its array."""
    a, b = call.operands
    shape = call.results[0].shape
    for term in range(depth_of(call)):
        yield a, _along(a.shape, shape, term, -2, call.params["transpose_a"])
        yield b, _along(b.shape, shape, term, -1, not call.params["transpose_b"])


def _along(shape: Shape, whole: Shape, term: int, kept: int, kept_is_last: bool) -> list[Along]:
    """Return the positions in an operand of which the product keeps one axis, `kept`."""
    first = len(whole) - len(shape)
    lead = [Along(first + k if n != 1 else None) for k, n in enumerate(shape[:-2])]
    own = Along(len(whole) + kept if shape[-1 if kept_is_last else -2] != 1 else None)
    shared = Along(None, term)
    return [*lead, shared, own] if kept_is_last else [*lead, own, shared]


def sum_of_terms(factors: Sequence[Any]) -> Expression:
    """Return the expression of a product, given its factors in order."""
    terms = [one * other for one, other in zip(factors[::2], factors[1::2], strict=True)]
    total: Expression = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
