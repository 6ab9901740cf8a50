"""Distributions of vectors and matrices whose parameters are held: what calling one returns."""

from __future__ import annotations

from typing import Any, ClassVar


class FrozenJoint:
    """A distribution `dist` together with its parameters, attributes of the names that it takes."""

    _parameters: ClassVar[tuple[str, ...]]
    dist: Any

    def _held(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._parameters}


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
