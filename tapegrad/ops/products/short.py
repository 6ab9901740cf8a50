"""A matrix product that loops compute element by element, because its sums are short.

Only programs use it: the pass in program/passes/short_products.py puts it in the place of other
products, after all derivatives have been taken.
"""

from __future__ import annotations

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.products.primitives import stack_p

short_p: Primitive = nondifferentiable("short_matmul", stack_p.forward, batch=stack_p.batch_rule)
"""The product of two stacks of matrices, either of them transposed."""
