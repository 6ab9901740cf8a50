"""Distributions of vectors and matrices whose parameters are held: what calling one returns."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class FrozenJoint:
    """A distribution `dist` together with its parameters: fields of the names that it takes."""

    dist: Any

    def _held(self) -> dict[str, Any]:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]  # of subclasses
        return {name: getattr(self, name) for name in names if name not in ("dist", "seed")}


class FrozenDensity(FrozenJoint):
    """A distribution that has a density."""

    seed: Any

    def logpdf(self, x: Any) -> Any:
        """Return the logarithm of the density at x."""
        return self.dist.logpdf(x, **self._held())

    def pdf(self, x: Any) -> Any:
        """Return the density at x."""
        return self.dist.pdf(x, **self._held())

    def entropy(self) -> Any:
        """Return the differential entropy."""
        return self.dist.entropy(**self._held())

    def rvs(self, size: Any = 1, random_state: Any = None) -> Any:
        """Draw `[*size, ...]` vectors or matrices."""
        state = self.seed if random_state is None else random_state
        return self.dist.rvs(**self._held(), size=size, random_state=state)


class FrozenCounts(FrozenJoint):
    """A distribution of how often each of several outcomes comes up."""

    def logpmf(self, x: Any) -> Any:
        """Return the logarithm of the probability of x."""
        return self.dist.logpmf(x, **self._held())

    def pmf(self, x: Any) -> Any:
        """Return the probability of x."""
        return self.dist.pmf(x, **self._held())

    def mean(self) -> Any:
        """Return the mean count of each outcome."""
        return self.dist.mean(**self._held())

    def cov(self) -> Any:
        """Return the matrix of covariances."""
        return self.dist.cov(**self._held())
