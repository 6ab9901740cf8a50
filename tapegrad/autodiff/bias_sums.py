"""Gradients of biases, which come with the products that give gradients of weights.

Of `x @ w + b` the bias gets the sums of the cotangent, and the weight the product of `x` and that
cotangent. A backend may find the sums while it multiplies; so they wait from the one node to the
other.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.recorder import Node
from tapegrad.ops import matrix_product_sum
from tapegrad.ops.matrix_product import plane_p

Waiting = tuple[Node, tuple[Any, Any], Any]
"""The node of a bias, what it has to be brought to, and the cotangent that is summed up."""


def product_beside(node: Node, i: int, t: Any) -> Node | None:
    """Return the product to which input `i` of an addition was added as a bias, if it is large."""
    shape, dtype = node.fit[i]
    if node.primitive.name != "add" or dtype is not None or t.shape[1:] != shape:
        return None
    product, bias = node.inputs[1 - i], node.inputs[i]
    if product is None or bias is None or product.primitive is not plane_p:
        return None
    if t.dtype.kind == "c" or product.fit is not None or product.saved[1] is None:
        return None
    # A node between the two would be looked at before the sums are there.
    is_plain = bias.primitive is None and bias.fit is None
    if not is_plain and bias.order > product.order:
        return None
    multiplications = product.saved[1][0].size * shape[0]
    return product if multiplications >= matrix_product_sum.LEAST_WITH_SUMS else None
