"""Integer functions and functions of the bits of floats: bitwise operations, gcd, ldexp, frexp."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import Function, binary, nondifferentiable, unary
from tapegrad.core.primitive.operand import as_operand

# For booleans, the bitwise operations are the logical ones.
bitwise_and: Function = binary(
    "bitwise_and", None, None, doc="Return the bits set in both x and y."
)
bitwise_or: Function = binary("bitwise_or", None, None, doc="Return the bits set in x or y.")
bitwise_xor: Function = binary(
    "bitwise_xor", None, None, doc="Return the bits set in either x or y, not both."
)
bitwise_invert: Function = unary("bitwise_invert", None, doc="Return x with every bit flipped.")
bitwise_left_shift: Function = binary("bitwise_left_shift", None, None, doc="Return x << y.")
bitwise_right_shift: Function = binary("bitwise_right_shift", None, None, doc="Return x >> y.")

gcd: Function = binary("gcd", None, None, doc="Return the greatest common divisor of integers.")
lcm: Function = binary("lcm", None, None, doc="Return the least common multiple of integers.")

nextafter: Function = binary(
    "nextafter",
    lambda t: t,
    None,
    doc="Return the next float after x1 towards x2.",
    names=("x1", "x2"),
)


def _spacing(xp: Any, x: Any) -> Any:
    if hasattr(xp, "spacing"):  # exact for subnormal numbers, which CUDA flushes to 0
        return xp.spacing(x)
    return xp.nextafter(x, xp.where(x < 0, xp.full_like(x, -xp.inf), xp.full_like(x, xp.inf))) - x


spacing: Function = unary(
    "spacing",
    None,
    forward=_spacing,
    doc="Return the distance from x to the next float away from 0.",
)


def _ldexp(xp: Any, x: Any, n: Any) -> Any:
    if hasattr(xp, "ldexp"):
        return xp.ldexp(x, n)
    # In two steps, because 2**n may overflow or underflow although the product does not.
    two, half = xp.asarray(2, dtype=x.dtype, device=x.device), n // 2
    return x * xp.pow(two, xp.astype(half, x.dtype)) * xp.pow(two, xp.astype(n - half, x.dtype))


ldexp: Function = binary(
    "ldexp",
    lambda t, x2: ldexp(t, x2),
    None,
    forward=_ldexp,
    doc="Return x * 2**y for integer y.",
)


def _exponent(xp: Any, x: Any) -> Any:
    if hasattr(xp, "float_exponent"):
        return xp.float_exponent(x)
    special = (x == 0) | ~xp.isfinite(x)
    size = xp.abs(xp.where(special, xp.ones_like(x), x))
    exponent = xp.floor(xp.log2(size)) + 1
    # log2 rounds, so the exponent can be off by one: bring the mantissa back into [0.5, 1).
    mantissa = _ldexp(xp, size, -exponent)
    exponent = exponent + xp.astype(mantissa >= 1, x.dtype) - xp.astype(mantissa < 0.5, x.dtype)
    return xp.astype(xp.where(special, xp.zeros_like(exponent), exponent), xp.int32)


exponent_p = nondifferentiable("float_exponent", _exponent, broadcasts=True)


def frexp(x: Any, name: str | None = None) -> tuple[Any, Any]:
    """Return mantissas in [0.5, 1) and integer exponents with x = mantissa * 2**exponent.

    >>> [part.item() for part in frexp(6.0)]
    [0.75, 3]
    """
    x = as_operand(x)
    exponent = exponent_p(x)
    return ldexp(x, -exponent), exponent
