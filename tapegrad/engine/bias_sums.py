"""Sums for the gradients of biases that come with a matrix product.

In `x @ w + b` the gradient of `b` is the column sums of the cotangent `t`, and that of `w` is the
product of `x` and `t`. A backend may compute the sums while it multiplies, so the sweep defers
them from the node of the addition to that of the product.
"""

from __future__ import annotations

from typing import Any

from tapegrad.autodiff.pullback import is_complex
from tapegrad.core.recorder import Node
from tapegrad.ops.products import fused
from tapegrad.ops.products.primitives import plane_p

Deferred = tuple[Node, tuple[Any, Any], Any]
"""The node of a bias, the shape and dtype of its gradient, and the cotangent to sum."""


def product_of_bias(node: Node, i: int, t: Any) -> Node | None:
    """Return the product to which input `i` of an addition was added as a bias, if it is large."""
    shape, dtype = node.specs[i]
    if node.primitive.name != "add" or dtype is not None or t.shape[1:] != shape:
        return None
    product, bias = node.inputs[1 - i], node.inputs[i]
    if product is None or bias is None or product.primitive is not plane_p:
        return None
    if is_complex(t) or product.specs is not None or product.saved[1] is None:
        return None
    # The sweep would visit a node between the two before the sums are there.
    is_plain = bias.primitive is None and bias.specs is None
    if not is_plain and bias.order > product.order:
        return None
    multiplications = product.saved[1][0].size * shape[0]
    return product if multiplications >= fused.LEAST_WITH_SUMS else None
