"""Continuous distributions.

Samples are differentiable in the parameters, for fixed random bits. `wald` and the `kappa` of
`vonmises` have no derivative, because they use rejection sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.call_site import warn_outside
from tapegrad.errors import ArgumentError
from tapegrad.numpy import linalg
from tapegrad.numpy.streams import Numbers, check, positive, shape_of, size_for
from tapegrad.numpy.values import deliver, floating, with_dtype
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.exponential import exp, log, log1p, logaddexp
from tapegrad.ops.elementwise.rounding import rint
from tapegrad.ops.elementwise.selection import clip, where
from tapegrad.ops.elementwise.trigonometric import acos, cos, tan
from tapegrad.ops.linalg.decompositions import cholesky
from tapegrad.ops.random import primitives as draws
from tapegrad.ops.reduction.logsumexp import logsumexp
from tapegrad.ops.shape.functions import broadcast_to

ROUNDS = 32
"""Number of rejection rounds. At least 0.6 of the candidates are accepted, so that one of 10 ** 12
samples keeps its initial value."""


def accepted(start: Any, propose: Callable[[], tuple[Any, Any]]) -> Any:
    """Return the first accepted candidate for each element, or the start value.

    >>> from tapegrad.numpy.values import as_array
    >>> float(accepted(as_array(0.0), lambda: (as_array(2.0), as_array(True))))
    2.0
    """
    found, is_found = start, None
    for _ in range(ROUNDS):
        candidate, is_taken = propose()
        is_new = is_taken if is_found is None else is_taken & ~is_found
        found = where(is_new, candidate, found)
        is_found = is_taken if is_found is None else is_found | is_taken
    return found


class Continuous(Numbers):
    """The continuous distributions."""

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Draw numbers from [low, high)."""
        low, high = floating(low), floating(high)
        return low + (high - low) * self._uniform(shape_of(size, low, high))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from normal distributions."""
        loc, scale = floating(loc), floating(check("scale", scale, 0))
        shape = shape_of(size, loc, scale)
        return loc + scale * draws.draw_normal(self.stream, shape, 0.0, 1.0, "float64")

    def standard_normal(self, size: Any = None, dtype: Any = "float64", out: Any = None) -> Any:
        """Draw from the standard normal distribution."""
        return deliver(with_dtype(self.normal(size=size_for(size, out)), dtype), out)

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Any = None) -> Any:
        """Draw from log-normal distributions."""
        return exp(self.normal(mean, check("sigma", sigma, 0), size))

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from exponential distributions."""
        scale = floating(check("scale", scale, 0))
        return -scale * log1p(-self._uniform(shape_of(size, scale)))

    def standard_exponential(
        self, size: Any = None, dtype: Any = "float64", method: str = "zig", out: Any = None
    ) -> Any:
        """Draw from the standard exponential distribution; every method uses inversion."""
        check_choice("method", method, ("zig", "inv"))
        return deliver(with_dtype(self.exponential(1.0, size_for(size, out)), dtype), out)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from Laplace distributions."""
        loc, scale = floating(loc), floating(check("scale", scale, 0))
        u = self._inside(shape_of(size, loc, scale)) - 0.5
        return loc - scale * where(u < 0, -1.0, 1.0) * log1p(-2.0 * abs(u))

    def logistic(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from logistic distributions."""
        loc, scale = floating(loc), floating(check("scale", scale, 0))
        u = self._inside(shape_of(size, loc, scale))
        return loc + scale * (log(u) - log1p(-u))

    def gumbel(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from Gumbel distributions."""
        loc, scale = floating(loc), floating(check("scale", scale, 0))
        return loc - scale * log(-log1p(-self._inside(shape_of(size, loc, scale))))

    def standard_cauchy(self, size: Any = None) -> Any:
        """Draw from the Cauchy distribution."""
        return tan(np.pi * (self._uniform(shape_of(size, 0.0)) - 0.5))

    def rayleigh(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from Rayleigh distributions."""
        scale = floating(check("scale", scale, 0))
        return scale * (-2.0 * log1p(-self._uniform(shape_of(size, scale)))) ** 0.5

    def weibull(self, a: Any, size: Any = None) -> Any:
        """Draw from Weibull distributions of scale 1."""
        a = floating(check("a", a, 0))
        return (-log1p(-self._uniform(shape_of(size, a)))) ** (1.0 / a)

    def pareto(self, a: Any, size: Any = None) -> Any:
        """Draw from Lomax distributions: Pareto distributions that begin at 0."""
        a = positive("a", a)
        return exp(-log1p(-self._uniform(shape_of(size, a))) / a) - 1.0

    def power(self, a: Any, size: Any = None) -> Any:
        """Draw from power distributions: numbers below 1 with density a x ** (a - 1)."""
        a = positive("a", a)
        return self._uniform(shape_of(size, a)) ** (1.0 / a)

    def triangular(self, left: Any, mode: Any, right: Any, size: Any = None) -> Any:
        """Draw from triangular distributions."""
        left, mode, right = floating(left), floating(mode), floating(right)
        u = self._uniform(shape_of(size, left, mode, right))
        split = (mode - left) / (right - left)
        low = left + (u * (right - left) * (mode - left)) ** 0.5
        high = right - ((1.0 - u) * (right - left) * (right - mode)) ** 0.5
        return where(u < split, low, high)

    # Gamma and related distributions

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        """Draw from gamma distributions."""
        alpha = floating(check("shape", shape, 0))
        scale = floating(check("scale", scale, 0))
        wanted = shape_of(size, alpha, scale)
        return scale * draws.draw_gamma(self.stream, wanted, alpha, None, "float64")

    def standard_gamma(
        self, shape: Any, size: Any = None, dtype: Any = "float64", out: Any = None
    ) -> Any:
        """Draw from gamma distributions of scale 1."""
        size = size if size is not None or out is None else tuple(out.shape)
        return deliver(with_dtype(self.gamma(shape, 1.0, size), dtype), out)

    def chisquare(self, df: Any, size: Any = None) -> Any:
        """Draw from chi-square distributions."""
        return self.gamma(positive("df", df) / 2.0, 2.0, size)

    def noncentral_chisquare(self, df: Any, nonc: Any, size: Any = None) -> Any:
        """Draw from noncentral chi-square distributions.

        For `df` <= 1 a sample is a step function of `nonc` and has no derivative.
        """
        df = positive("df", df)
        nonc = floating(check("nonc", nonc, 0))
        shape = shape_of(size, df, nonc)
        is_wide = df > 1.0
        square = (self.normal(size=shape) + where(nonc == 0, 0.0, nonc) ** 0.5) ** 2
        wide = self.chisquare(where(is_wide, df - 1.0, 1.0), shape) + square
        steps = draws.draw_poisson(self.stream, shape, stop_gradient(nonc / 2.0), "int64")
        return where(is_wide, wide, self.chisquare(df + 2.0 * with_dtype(steps, "float64"), shape))

    def f(self, dfnum: Any, dfden: Any, size: Any = None) -> Any:
        """Draw from F distributions."""
        over = positive("dfnum", dfnum)
        under = positive("dfden", dfden)
        shape = shape_of(size, over, under)
        return (self.chisquare(over, shape) / over) / (self.chisquare(under, shape) / under)

    def noncentral_f(self, dfnum: Any, dfden: Any, nonc: Any, size: Any = None) -> Any:
        """Draw from noncentral F distributions."""
        over = positive("dfnum", dfnum)
        under = positive("dfden", dfden)
        nonc = floating(check("nonc", nonc, 0))
        shape = shape_of(size, over, under, nonc)
        top = self.noncentral_chisquare(over, nonc, shape) / over
        return top / (self.chisquare(under, shape) / under)

    def standard_t(self, df: Any, size: Any = None) -> Any:
        """Draw from Student's t distributions."""
        df = positive("df", df)
        shape = shape_of(size, df)
        return self.normal(size=shape) / (self.chisquare(df, shape) / df) ** 0.5

    def _log_gamma(self, alpha: Any, shape: tuple[int, ...]) -> Any:
        """The logarithm of a gamma sample, which is finite even if the sample underflows to 0."""
        whole = log(self.gamma(alpha + 1.0, 1.0, shape))
        return whole + log1p(-self._uniform(shape)) / alpha

    def beta(self, a: Any, b: Any, size: Any = None) -> Any:
        """Draw from beta distributions."""
        a, b = positive("a", a), positive("b", b)
        shape = shape_of(size, a, b)
        first, second = self._log_gamma(a, shape), self._log_gamma(b, shape)
        return exp(first - logaddexp(first, second))

    def dirichlet(self, alpha: Any, size: Any = None) -> Any:
        """Draw from Dirichlet distributions: vectors that add up to 1."""
        alpha = positive("alpha", alpha)
        lead = () if size is None else shape_of(size)
        parts = self._log_gamma(alpha, (*lead, *alpha.shape))
        return exp(parts - logsumexp(parts, -1, True))

    # Rejection sampling

    def wald(self, mean: Any, scale: Any, size: Any = None) -> Any:
        """Draw from Wald (inverse Gaussian) distributions, without derivatives."""
        mean = stop_gradient(positive("mean", mean))
        scale = stop_gradient(positive("scale", scale))
        shape = shape_of(size, mean, scale)
        # The square of a normal number corresponds to two points, each with its probability. The
        # formula of the smaller one avoids a difference of large numbers.
        y = mean * self.normal(size=shape) ** 2 / (2.0 * scale)
        ratio = 1.0 / (1.0 + y + (y * (y + 2.0)) ** 0.5)
        return mean * where(self._uniform(shape) * (1.0 + ratio) <= 1.0, ratio, 1.0 / ratio)

    def vonmises(self, mu: Any, kappa: Any, size: Any = None) -> Any:
        """Draw angles from von Mises distributions; they have no derivative in `kappa`."""
        mu = floating(mu)
        shape = shape_of(size, mu, kappa)
        kappa = stop_gradient(floating(check("kappa", kappa, 0)))
        k = broadcast_to(clip(kappa, 1e-8, 1e6), shape)
        # The wrapped Cauchy distribution that is nearest to it (Best and Fisher, 1979).
        large = clip(k, 1e-5, 1e6)  # below 1e-5 the difference would cancel
        root = 1.0 + (1.0 + 4.0 * large * large) ** 0.5
        rho = (root - (2.0 * root) ** 0.5) / (2.0 * large)
        peak = where(k < 1e-5, 1.0 / k + k, (1.0 + rho * rho) / (2.0 * rho))

        def propose() -> tuple[Any, Any]:
            z = cos(np.pi * self._uniform(shape))
            w = (1.0 + peak * z) / (peak + z)
            y = k * (peak - w)
            v = self._inside(shape)
            return w, (y * (2.0 - y) > v) | (log(y / v) + 1.0 >= y)

        angle = acos(clip(accepted(0.0 * k + 1.0, propose), -1.0, 1.0))
        angle = where(self._uniform(shape) < 0.5, -angle, angle)
        angle = where(kappa < 1e-8, np.pi * (2.0 * self._uniform(shape) - 1.0), angle)
        narrow = self.normal(size=shape) / clip(kappa, 1e6, math.inf) ** 0.5
        turned = mu + where(kappa > 1e6, narrow, angle)
        return turned - 2.0 * np.pi * rint(turned / (2.0 * np.pi))

    def multivariate_normal(
        self, mean: Any, cov: Any, size: Any = None, check_valid: str = "warn", tol: float = 1e-8,
        *, method: str = "cholesky",
    ) -> Any:  # fmt: skip
        """Draw vectors from multivariate normal distributions.

        The methods 'eigh' and 'svd', which are the same here, allow singular matrices. 'cholesky'
        has derivatives wherever the matrix is invertible. The matrix is checked unless it is on a
        device.
        """
        check_choice("method", method, ("cholesky", "eigh", "svd"))
        _check_covariance(cov, check_valid, tol)
        mean, cov = floating(mean), floating(cov)
        lead = () if size is None else shape_of(size)
        z = self.normal(size=(*lead, mean.shape[-1]))
        if method == "cholesky":
            factor = cholesky(cov)
        else:
            values, vectors = linalg.eigh(cov)
            factor = vectors * clip(values, 0.0, math.inf)[..., None, :] ** 0.5
        return mean + (factor @ z[..., None])[..., 0]


def _check_covariance(cov: Any, check_valid: str, tol: float) -> None:
    check_choice("check_valid", check_valid, ("warn", "raise", "ignore"))
    if check_valid == "ignore" or not isinstance(cov, np.ndarray | list | tuple):
        return
    matrix = np.asarray(cov, dtype=float)
    values = np.linalg.eigvalsh(matrix)
    if np.allclose(matrix, matrix.T, tol, tol) and values.min() >= -tol * max(values.max(), 1.0):
        return
    words = "cov must be symmetric with nonnegative eigenvalues."
    if check_valid == "raise":
        raise ArgumentError(words)
    warn_outside(words, RuntimeWarning)
