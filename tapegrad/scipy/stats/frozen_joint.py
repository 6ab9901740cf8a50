"""Frozen multivariate distributions, as returned by calling one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class FrozenJoint:
    """A distribution `dist` with fixed parameters, which are fields of the same names."""

    dist: Any

    def _parameters(self) -> dict[str, Any]:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # of subclasses
        return {name: getattr(self, name) for name in names if name not in ("dist", "seed")}


class FrozenDensity(FrozenJoint):
    """A frozen distribution with a density."""

    seed: Any

    def logpdf(self, x: Any) -> Any:
        """Return the logarithm of the density at x."""
        return self.dist.logpdf(x, **self._parameters())

    def pdf(self, x: Any) -> Any:
        """Return the density at x."""
        return self.dist.pdf(x, **self._parameters())

    def entropy(self) -> Any:
        """Return the differential entropy."""
        return self.dist.entropy(**self._parameters())

    def rvs(self, size: Any = 1, random_state: Any = None) -> Any:
        """Draw `[*size, ...]` vectors or matrices."""
        state = self.seed if random_state is None else random_state
        return self.dist.rvs(**self._parameters(), size=size, random_state=state)


class FrozenCounts(FrozenJoint):
    """A frozen distribution of counts of several outcomes."""

    def logpmf(self, x: Any) -> Any:
        """Return the logarithm of the probability of x."""
        return self.dist.logpmf(x, **self._parameters())

    def pmf(self, x: Any) -> Any:
        """Return the probability of x."""
        return self.dist.pmf(x, **self._parameters())

    def mean(self) -> Any:
        """Return the mean count of each outcome."""
        return self.dist.mean(**self._parameters())

    def cov(self) -> Any:
        """Return the covariance matrix."""
        return self.dist.cov(**self._parameters())
