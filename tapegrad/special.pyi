# Made by ci/stubs.py, never by hand.
import builtins
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tapegrad.core.values.tensor import Tensor

def bessel_i0(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the modified Bessel function I₀.
    """
def bessel_i0e(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return exp(-|x|) I₀(x).
    """
def bessel_i1(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the modified Bessel function I₁.
    """
def bessel_i1e(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return exp(-|x|) I₁(x).
    """
def bessel_j0(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the Bessel function J₀.
    """
def bessel_j1(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the Bessel function J₁.
    """
def bessel_k0(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the modified Bessel function K₀.
    """
def bessel_k0e(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return exp(x) K₀(x).
    """
def bessel_k1(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the modified Bessel function K₁.
    """
def bessel_k1e(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return exp(x) K₁(x).
    """
def bessel_y0(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the Bessel function Y₀.
    """
def bessel_y1(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the Bessel function Y₁.
    """
def betainc(a: Any, b: Any, x: Any, name: builtins.str | None = ...) -> Tensor: ...
def dawsn(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return Dawson's integral.
    """
def digamma(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the derivative of lgamma.
    """
def entr(x: Any, name: builtins.str | None = ...) -> Tensor: ...
def erf(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the error function.
    """
def erfc(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return 1 - erf(x), accurate for large x.
    """
def erfcinv(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse of erfc.
    """
def erfcx(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return exp(x²) erfc(x).
    """
def erfinv(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse of erf.
    """
def expint(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the exponential integral Ei(x).
    """
def fresnel_cos(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the Fresnel integral of cos(πt²/2) from 0 to x.
    """
def fresnel_sin(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the Fresnel integral of sin(πt²/2) from 0 to x.
    """
def igamma(a: Any, x: Any, name: builtins.str | None = ...) -> Tensor: ...
def igammac(a: Any, x: Any, name: builtins.str | None = ...) -> Tensor: ...
def lbeta(x: Any, name: builtins.str | None = ...) -> Tensor: ...
def lgamma(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return log |Γ(x)|.
    """
def log_ndtr(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return log(ndtr(x)) without underflow.
    """
def logit(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return log(x / (1 - x)), the inverse of the sigmoid.
    """
def ndtr(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the distribution function of the standard normal.
    """
def ndtri(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse of ndtr.
    """
def polygamma(a: Any, x: Any, name: builtins.str | None = ...) -> Tensor: ...
def spence(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return Spence's function, the dilogarithm of 1 - x.
    """
def zeta(x: Any, q: Any, name: builtins.str | None = ...) -> Tensor: ...
