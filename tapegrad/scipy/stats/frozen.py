"""Frozen univariate distributions, as returned by calling a family."""

from __future__ import annotations

from typing import Any

from tapegrad.scipy.stats.family import Family


class Frozen:
    """A distribution with fixed parameters.

    >>> from tapegrad.scipy.stats.normal import norm
    >>> standing = norm(loc=1.0, scale=2.0)
    >>> float(standing.mean()), float(standing.cdf(1.0))
    (1.0, 0.5)
    """

    def __init__(self, dist: Family, args: tuple[Any, ...], kwds: dict[str, Any]) -> None:
        dist.read(args, kwds)
        self.dist: Any = dist
        self.args = args
        self.kwds = kwds

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{name}={x!r}" for name, x in self.kwds.items())]
        return f"<tapegrad.scipy.stats.{self.dist.name}({', '.join(given)})>"

    def cdf(self, x: Any) -> Any:
        """Return the cumulative distribution function at x."""
        return self.dist.cdf(x, *self.args, **self.kwds)

    def sf(self, x: Any) -> Any:
        """Return the survival function 1 - cdf(x)."""
        return self.dist.sf(x, *self.args, **self.kwds)

    def logcdf(self, x: Any) -> Any:
        """Return the logarithm of cdf."""
        return self.dist.logcdf(x, *self.args, **self.kwds)

    def logsf(self, x: Any) -> Any:
        """Return the logarithm of sf."""
        return self.dist.logsf(x, *self.args, **self.kwds)

    def ppf(self, q: Any) -> Any:
        """Return the quantile of q: the inverse of cdf."""
        return self.dist.ppf(q, *self.args, **self.kwds)

    def isf(self, q: Any) -> Any:
        """Return the inverse of sf."""
        return self.dist.isf(q, *self.args, **self.kwds)

    def median(self) -> Any:
        """Return the median."""
        return self.dist.median(*self.args, **self.kwds)

    def interval(self, confidence: Any = 0.95) -> tuple[Any, Any]:
        """Return the ends of the interval around the median with this probability."""
        low, high = self.dist.interval(confidence, *self.args, **self.kwds)
        return low, high

    def mean(self) -> Any:
        """Return the mean."""
        return self.dist.mean(*self.args, **self.kwds)

    def var(self) -> Any:
        """Return the variance."""
        return self.dist.var(*self.args, **self.kwds)

    def std(self) -> Any:
        """Return the standard deviation."""
        return self.dist.std(*self.args, **self.kwds)

    def entropy(self) -> Any:
        """Return the (differential) entropy in nats."""
        return self.dist.entropy(*self.args, **self.kwds)

    def stats(self, moments: str = "mv") -> Any:
        """Return the mean for "m", the variance for "v", or both for "mv"."""
        return self.dist.stats(*self.args, moments=moments, **self.kwds)

    def support(self) -> tuple[Any, Any]:
        """Return the ends of the support."""
        low, high = self.dist.support(*self.args, **self.kwds)
        return low, high

    def rvs(self, size: Any = None, random_state: Any = None) -> Any:
        """Draw a sample of shape `size`."""
        return self.dist.rvs(*self.args, size=size, random_state=random_state, **self.kwds)


class FrozenContinuous(Frozen):
    """A continuous distribution with fixed parameters."""

    def pdf(self, x: Any) -> Any:
        """Return the density at x."""
        return self.dist.pdf(x, *self.args, **self.kwds)

    def logpdf(self, x: Any) -> Any:
        """Return the logarithm of the density at x."""
        return self.dist.logpdf(x, *self.args, **self.kwds)

    def expect(self, func: Any = None) -> Any:
        """Return the expectation of a function."""
        given = self.dist.read(self.args, self.kwds)
        shapes = tuple(given[name] for name in self.dist.shapes)
        return self.dist.expect(func, shapes, given["loc"], given["scale"])

    def moment(self, order: Any) -> Any:
        """Return a raw moment."""
        return self.dist.moment(order, *self.args, **self.kwds)


class FrozenDiscrete(Frozen):
    """A discrete distribution with fixed parameters."""

    def pmf(self, k: Any) -> Any:
        """Return the probability of k."""
        return self.dist.pmf(k, *self.args, **self.kwds)

    def logpmf(self, k: Any) -> Any:
        """Return the logarithm of the probability of k."""
        return self.dist.logpmf(k, *self.args, **self.kwds)
