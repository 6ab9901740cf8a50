"""Basic arithmetic: add, subtract, multiply, divide, negative, positive, conj.

The engine and the derivative rules of other primitives are built on these functions.
"""

from __future__ import annotations

from tapegrad.core.primitive.families import Function, binary, unary

add = binary("add", lambda t: t, lambda t: t, doc="Return x + y.")
subtract = binary("subtract", lambda t: t, lambda t: -t, doc="Return x - y.")
multiply = binary("multiply", lambda t, x2: t * x2, lambda t, x1: t * x1, doc="Return x * y.")
divide = binary("divide", lambda t, x2: t / x2, lambda t, y, x2: -t * y / x2, doc="Return x / y.")
negative = unary("negative", lambda t: -t, doc="Return -x.")
positive = unary("positive", lambda t: t, doc="Return +x, a new tensor.")

# conj is linear over the reals only and its own transpose, so the VJP must not conjugate again.
conj: Function = unary(
    "conj", lambda t: conj(t), conjugates=False, doc="Return the complex conjugate."
)
