"""The Dirichlet and multinomial distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.special_functions import lbeta
from tapegrad.ops.random.primitives import as_shape
from tapegrad.scipy.stats import draws
from tapegrad.scipy.stats.counts import draw_binomial
from tapegrad.scipy.stats.frozen_joint import FrozenCounts, FrozenDensity
from tapegrad.scipy.stats.logarithms import times_log
from tapegrad.scipy.vocabulary import (
    cast,
    concat,
    digamma,
    eps_of,
    every,
    exp,
    expand_dims,
    floor,
    lgamma,
    matrix_diag,
    maximum,
    minimum,
    moveaxis,
    numpy_dtype_of,
    operand,
    operands,
    stack,
    sum_over,
    where,
)


class Dirichlet:
    """The Dirichlet distribution; SciPy's `dirichlet`.

    As in SciPy the components are along the first axis of x, and the last one may be omitted.

    >>> dirichlet = Dirichlet()
    >>> round(float(dirichlet.pdf([0.2, 0.3, 0.5], [1.0, 1.0, 1.0])), 4)
    2.0
    """

    def __call__(self, alpha: Any, seed: Any = None) -> FrozenDirichlet:
        """Return the frozen distribution with these parameters."""
        return FrozenDirichlet(self, alpha, seed)

    def logpdf(self, x: Any, alpha: Any) -> Any:
        """Return the logarithm of the density at x, which is -inf outside of the simplex."""
        x, alpha = operands(x, alpha)
        count = _length(alpha, "dirichlet", "alpha")
        if not x.shape or x.shape[0] not in (count, count - 1):
            raise ShapeError(
                f"dirichlet with {count} alphas needs x with {count} components, or all but the "
                f"last, along its first axis. Got shape {x.shape}."
            )
        if x.shape[0] == count - 1:
            x = concat([x, 1 - sum_over(x, 0, keepdims=True)], 0)
        x = moveaxis(x, 0, -1)
        tolerance = max(1e-6, math.sqrt(eps_of(x)))
        is_one = abs(sum_over(x, -1) - 1) < tolerance
        is_inside = every((x >= 0) & (x <= 1), -1) & is_one
        fractions = where(expand_dims(is_inside, -1), x, 1 / count)
        is_valid = every(alpha > 0, -1)
        alpha = where(is_valid, alpha, 1.0)
        y = sum_over(times_log(alpha - 1, fractions), -1) - lbeta(alpha)
        return where(is_valid, where(is_inside, y, -math.inf), math.nan)

    def pdf(self, x: Any, alpha: Any) -> Any:
        """Return the density at x."""
        return exp(self.logpdf(x, alpha))

    def mean(self, alpha: Any) -> Any:
        """Return the mean of each component."""
        alpha = operand(alpha)
        return alpha / sum_over(alpha, -1, keepdims=True)

    def var(self, alpha: Any) -> Any:
        """Return the variance of each component."""
        alpha = operand(alpha)
        fraction = self.mean(alpha)
        return fraction * (1 - fraction) / (sum_over(alpha, -1, keepdims=True) + 1)

    def cov(self, alpha: Any) -> Any:
        """Return the covariance matrix."""
        alpha = operand(alpha)
        fraction = self.mean(alpha)
        products = expand_dims(fraction, -1) * expand_dims(fraction, -2)
        return (matrix_diag(fraction) - products) / (sum_over(alpha, -1) + 1)

    def entropy(self, alpha: Any) -> Any:
        """Return the differential entropy."""
        alpha = operand(alpha)
        total = sum_over(alpha, -1)
        count = _length(alpha, "dirichlet", "alpha")
        spread = sum_over((alpha - 1) * digamma(alpha), -1)
        return lbeta(alpha) + (total - count) * digamma(total) - spread

    def rvs(self, alpha: Any, size: Any = 1, random_state: Any = None) -> Any:
        """Draw `[*size, components]` points of the simplex, differentiable in alpha."""
        alpha = operand(alpha)
        shape = (*(() if size is None else as_shape(size, "size")), *alpha.shape)
        source = draws.source_of(random_state)
        parts = draws.gamma(source, shape, numpy_dtype_of(alpha), alpha)
        return parts / sum_over(parts, -1, keepdims=True)


def _length(values: Any, name: str, parameter: str) -> int:
    if values.ndim != 1:
        raise ShapeError(f"{name} needs a vector {parameter}. Got shape {values.shape}.")
    return int(values.shape[0])


@dataclass(eq=False, repr=False)
class FrozenDirichlet(FrozenDensity):
    """A Dirichlet distribution with fixed parameters.

    >>> FrozenDirichlet(Dirichlet(), [1.0, 3.0]).mean().tolist()
    [0.25, 0.75]
    """

    dist: Dirichlet
    alpha: Any
    seed: Any = None

    def mean(self) -> Any:
        """Return the mean of each component."""
        return self.dist.mean(self.alpha)

    def var(self) -> Any:
        """Return the variance of each component."""
        return self.dist.var(self.alpha)

    def cov(self) -> Any:
        """Return the covariance matrix."""
        return self.dist.cov(self.alpha)


class Multinomial:
    """The multinomial distribution of the counts of outcomes in n trials; SciPy's `multinomial`.

    The outcomes are along the last axis. The probabilities are used as given, while SciPy replaces
    the last one by 1 minus the sum of the others.

    >>> multinomial = Multinomial()
    >>> round(float(multinomial.pmf([1, 1], 2, [0.5, 0.5])), 4)
    0.5
    """

    def __call__(self, n: Any, p: Any, seed: Any = None) -> FrozenMultinomial:
        """Return the frozen distribution with these parameters."""
        return FrozenMultinomial(self, n, p, seed)

    def logpmf(self, x: Any, n: Any, p: Any) -> Any:
        """Return the logarithm of the probability of x, which is -inf unless x sums to n."""
        x, n, p = operands(x, n, p)
        is_count = every((x >= 0) & (floor(x) == x), -1) & (sum_over(x, -1) == n)
        counts = where(expand_dims(is_count, -1), x, 0.0)
        is_probability = every((p >= 0) & (p <= 1), -1)
        is_valid = is_probability & (n >= 0) & (floor(n) == n)
        fraction = where(expand_dims(is_probability, -1), p, 0.5)
        ways = lgamma(where(is_valid, n, 0.0) + 1) - sum_over(lgamma(counts + 1), -1)
        y = ways + sum_over(times_log(counts, fraction), -1)
        return where(is_valid, where(is_count, y, -math.inf), math.nan)

    def pmf(self, x: Any, n: Any, p: Any) -> Any:
        """Return the probability of x."""
        return exp(self.logpmf(x, n, p))

    def mean(self, n: Any, p: Any) -> Any:
        """Return the mean count of each outcome."""
        n, p = operands(n, p)
        return expand_dims(n, -1) * p

    def cov(self, n: Any, p: Any) -> Any:
        """Return the covariance matrix."""
        n, p = operands(n, p)
        products = expand_dims(p, -1) * expand_dims(p, -2)
        return expand_dims(expand_dims(n, -1), -1) * (matrix_diag(p) - products)

    def rvs(self, n: Any, p: Any, size: Any = None, random_state: Any = None) -> Any:
        """Draw `[*size, outcomes]` int64 counts, one outcome after the other."""
        n, p = operands(n, p)
        outcomes = p.shape[-1]
        first = p[..., 0]
        shape = draws.full_shape(size, n, first, name="multinomial")
        source, dtype = draws.source_of(random_state), numpy_dtype_of(p)
        left, fraction, counts = n, sum_over(p, -1), []
        for i in range(outcomes - 1):
            p_i = p[..., i]
            rate = minimum(maximum(divide_no_nan(p_i, fraction), 0.0), 1.0)
            counts.append(draw_binomial(source, shape, dtype, left, rate))
            left, fraction = left - counts[-1], fraction - p_i
        counts.append(left + 0.0 * counts[-1] if counts else left)
        return cast(stack(counts, -1), "int64")


@dataclass(eq=False, repr=False)
class FrozenMultinomial(FrozenCounts):
    """A multinomial distribution with fixed parameters.

    >>> FrozenMultinomial(Multinomial(), 4, [0.5, 0.5]).mean().tolist()
    [2.0, 2.0]
    """

    dist: Multinomial
    n: Any
    p: Any
    seed: Any = None

    def rvs(self, size: Any = None, random_state: Any = None) -> Any:
        """Draw `[*size, outcomes]` counts."""
        state = self.seed if random_state is None else random_state
        return self.dist.rvs(self.n, self.p, size, state)


dirichlet = Dirichlet()
multinomial = Multinomial()
