"""Special functions: the error function, gamma, beta and integral families.

The derivative rules are here; the backends provide the kernels. Bessel functions are in bessel.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad.core.primitive import families
from tapegrad.core.primitive.families import Function
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.primitive.real_operands import require_real
from tapegrad.core.values.convert import NUMBERS
from tapegrad.errors import MissingRuleError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise.arithmetic import add, subtract
from tapegrad.ops.elementwise.exponential import exp, log, xlog1py, xlogy
from tapegrad.ops.elementwise.no_nan import multiply_no_nan, xdivy
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.trigonometric import cos, sin
from tapegrad.ops.kinds import kind_of
from tapegrad.ops.reduction.primitives import sum as sum_over

# The kernels are those of real functions, of which many have poles.
unary = partial(families.unary, real_only=True, poles=True)
binary = partial(families.binary, real_only=True, poles=True)
elementwise = partial(families.elementwise, real_only=True, poles=True)

_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_SQRT_TWO_PI = math.sqrt(2 * math.pi)


def _no_closed_form(name: str, argument: str) -> Callable[..., Any]:
    """Return a rule that raises an error: this derivative has no closed form."""

    def rule(t: Any) -> Any:
        raise MissingRuleError(
            f"The derivative of {name} with respect to {argument} is not implemented. "
            f"Apply stop_gradient to {argument}, or define custom_gradient for the call."
        )

    return rule


def _to_common_float(name: str, *args: Any) -> list[Any]:
    """Cast all operands to the widest floating dtype among them; numbers and integers adapt."""
    operands = [as_operand(arg) for arg in args]
    require_real(name, *operands)
    strong = [
        numpy_dtype_of(operand)
        for operand, arg in zip(operands, args, strict=True)
        if type(arg) not in NUMBERS and kind_of(operand) == "f"
    ]
    dtype = np.result_type(*strong) if strong else np.dtype(np.float32)
    return [x if numpy_dtype_of(x) == dtype else cast(x, dtype) for x in operands]


# The normal distribution and the error function

erf: Function = unary(
    "erf", lambda t, x: t * _TWO_OVER_SQRT_PI * exp(-x * x), doc="Return the error function."
)
erfc: Function = unary(
    "erfc",
    lambda t, x: t * -_TWO_OVER_SQRT_PI * exp(-x * x),
    doc="Return 1 - erf(x), accurate for large x.",
)
erfcx: Function = unary(
    "erfcx", lambda t, x, y: t * (2 * x * y - _TWO_OVER_SQRT_PI), doc="Return exp(x²) erfc(x)."
)
erfinv: Function = unary(
    "erfinv", lambda t, y: t / _TWO_OVER_SQRT_PI * exp(y * y), doc="Return the inverse of erf."
)
erfcinv: Function = unary(
    "erfcinv", lambda t, y: -t / _TWO_OVER_SQRT_PI * exp(y * y), doc="Return the inverse of erfc."
)
ndtr: Function = unary(
    "ndtr",
    lambda t, x: t / _SQRT_TWO_PI * exp(-0.5 * x * x),
    doc="Return the distribution function of the standard normal.",
)
ndtri: Function = unary(
    "ndtri", lambda t, y: t * _SQRT_TWO_PI * exp(0.5 * y * y), doc="Return the inverse of ndtr."
)


def _log_ndtr_slope(t: Any, x: Any) -> Any:
    """Return t times density / ndtr. Each formula is accurate, with finite slopes, on its side."""
    below, above = where(x < 0, x, 0.0), where(x < 0, 0.0, x)
    in_tail = xdivy(t * math.sqrt(2 / math.pi), erfcx(below * -math.sqrt(0.5)))
    return where(x < 0, in_tail, t * exp(-0.5 * above * above) / (_SQRT_TWO_PI * ndtr(above)))


log_ndtr: Function = unary(
    "log_ndtr", _log_ndtr_slope, doc="Return log(ndtr(x)) without underflow."
)

# The gamma function

lgamma: Function = unary("lgamma", lambda t, x: t * digamma(x), doc="Return log |Γ(x)|.")
digamma: Function = unary(
    "digamma", lambda t, x: t * _polygamma(1, x), doc="Return the derivative of lgamma."
)
_polygamma: Function = binary(
    "polygamma",
    _no_closed_form("polygamma", "its order"),
    lambda t, x1, x2: t * _polygamma(x1 + 1, x2),
)
_zeta: Function = binary(
    "zeta", _no_closed_form("zeta", "its exponent"), lambda t, x1, x2: t * -x1 * _zeta(x1 + 1, x2)
)


def _gamma_density(a: Any, x: Any) -> Any:
    """Return the density of the gamma distribution, dP(a, x) / dx."""
    return exp(xlogy(a - 1, x) - x - lgamma(a))


_igamma: Function = binary(
    "igamma",
    lambda t, x1, x2: t * _igamma_grad_a(x1, x2),
    lambda t, x1, x2: multiply_no_nan(_gamma_density(x1, x2), t),
)
_igammac: Function = binary(
    "igammac",
    lambda t, x1, x2: -t * _igamma_grad_a(x1, x2),
    lambda t, x1, x2: -multiply_no_nan(_gamma_density(x1, x2), t),
)
_igamma_grad_a: Function = binary(
    "igamma_grad_a",
    _no_closed_form("igamma_grad_a", "a (a second derivative of igamma)"),
    lambda t, x1, x2: multiply_no_nan(log(x2) - digamma(x1), t * _gamma_density(x1, x2)),
)
_random_gamma_grad: Function = binary(
    "random_gamma_grad",
    _no_closed_form("random_gamma_grad", "alpha"),
    _no_closed_form("random_gamma_grad", "the sample"),
)


def polygamma(a: Any, x: Any, name: str | None = None) -> Any:
    """Return the a-th derivative of digamma at x; only `x` has a derivative.

    >>> f"{float(polygamma(1, 1.0)):.4f}"
    '1.6449'
    """
    return _polygamma(*_to_common_float("polygamma", a, x))


def zeta(x: Any, q: Any, name: str | None = None) -> Any:
    """Return the Hurwitz zeta function, the sum of (k + q) ** -x over k = 0, 1, ...

    Only `q` has a derivative.

    >>> f"{float(zeta(2.0, 1.0)):.4f}"
    '1.6449'
    """
    return _zeta(*_to_common_float("zeta", x, q))


def igamma(a: Any, x: Any, name: str | None = None) -> Any:
    """Return the regularized lower incomplete gamma function P(a, x).

    >>> f"{float(igamma(1.0, 1.0)):.4f}"
    '0.6321'
    """
    return _igamma(*_to_common_float("igamma", a, x))


def igammac(a: Any, x: Any, name: str | None = None) -> Any:
    """Return the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    >>> f"{float(igammac(1.0, 1.0)):.4f}"
    '0.3679'
    """
    return _igammac(*_to_common_float("igammac", a, x))


def igamma_grad_a(a: Any, x: Any, name: str | None = None) -> Any:
    """Return the derivative of `igamma` with respect to `a`.

    >>> f"{float(igamma_grad_a(1.0, 1.0)):.4f}"
    '-0.4317'
    """
    return _igamma_grad_a(*_to_common_float("igamma_grad_a", a, x))


def random_gamma_grad(alpha: Any, sample: Any, name: str | None = None) -> Any:
    """Return the derivative of gamma samples with respect to `alpha`.

    >>> f"{float(random_gamma_grad(1.0, 1.0)):.4f}"
    '1.1736'
    """
    return _random_gamma_grad(*_to_common_float("random_gamma_grad", alpha, sample))


# The beta function

_betaln: Function = binary(
    "lbeta",
    lambda t, x1, x2: t * (digamma(x1) - digamma(add(x1, x2))),
    lambda t, x1, x2: t * (digamma(x2) - digamma(add(x1, x2))),
)


def betaln(a: Any, b: Any, name: str | None = None) -> Any:
    """Return log |B(a, b)|.

    >>> f"{float(betaln(2.0, 1.0)):.4f}"
    '-0.6931'
    """
    return _betaln(*_to_common_float("betaln", a, b))


def lbeta(x: Any, name: str | None = None) -> Any:
    """Return log |B(x)|, the multivariate beta function of the vectors along the last axis.

    >>> float(lbeta([1.0, 1.0]))
    0.0
    """
    x = as_operand(x)
    if not x.shape:
        raise ShapeError("lbeta needs at least one axis. Got a 0-d tensor; see betaln.")
    return subtract(sum_over(lgamma(x), -1), lgamma(sum_over(x, -1)))


betainc_p: Primitive = elementwise(
    "betainc",
    _no_closed_form("betainc", "a"),
    _no_closed_form("betainc", "b"),
    lambda t, x1, x2, x3: multiply_no_nan(_beta_density(x1, x2, x3), t),
)


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    return exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - _betaln(a, b))


def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Any:
    """Return the regularized incomplete beta function; only `x` has a derivative.

    >>> float(betainc(1.0, 1.0, 0.25))
    0.25
    """
    return betainc_p(*_to_common_float("betainc", a, b, x))


# Integrals

dawsn: Function = unary(
    "dawsn", lambda t, x, y: t * (1 - 2 * x * y), doc="Return Dawson's integral."
)
expint: Function = unary(
    "expint", lambda t, x: xdivy(t * exp(x), x), doc="Return the exponential integral Ei(x)."
)


def _spence_rule(t: Any, x: Any) -> Any:
    at_one = x == 1
    safe = where(at_one, 2.0, x)
    # At 1, use the first two terms of the series log(x) / (1 - x) = -1 + (x - 1) / 2 - ...
    slope = where(at_one, 0.5 * x - 1.5, log(safe) / (1 - safe))
    return multiply_no_nan(slope, t)


spence: Function = unary(
    "spence", _spence_rule, doc="Return Spence's function, the dilogarithm of 1 - x."
)
fresnel_sin: Function = unary(
    "fresnel_sin",
    lambda t, x: t * sin(0.5 * math.pi * x * x),
    doc="Return the Fresnel integral of sin(πt²/2) from 0 to x.",
)
fresnel_cos: Function = unary(
    "fresnel_cos",
    lambda t, x: t * cos(0.5 * math.pi * x * x),
    doc="Return the Fresnel integral of cos(πt²/2) from 0 to x.",
)


def entr(x: Any, name: str | None = None) -> Any:
    """Return -x log(x), which is 0 at 0.

    >>> f"{float(entr(0.5)):.4f}"
    '0.3466'
    """
    x = as_operand(x)
    return -xlogy(x, x)
