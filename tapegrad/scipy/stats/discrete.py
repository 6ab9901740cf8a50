"""Discrete distributions: probabilities of integers."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.elementwise.comparison import greater
from tapegrad.scipy.stats.family import Family, standardized
from tapegrad.scipy.stats.frozen import FrozenDiscrete
from tapegrad.scipy.vocabulary import cast, exp, floor, isnan, where


class Discrete(Family):
    """A distribution of integers with shape parameters and `loc`.

    Probabilities are 0 outside the support and at non-integers. Continuous parameters are
    differentiable.

    >>> from tapegrad.scipy.stats.waiting import poisson
    >>> round(float(poisson.pmf(2, mu=1.5)), 4)
    0.251
    >>> float(poisson.pmf(2.5, 1.5))
    0.0
    """

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.shapes, "loc")

    def _step(self, z: Any) -> Any:
        return floor(z)

    def _is_past(self, z: Any, high: Any) -> Any:
        return z >= high

    def _below(self, low: Any) -> Any:
        return low - 1

    def __call__(self, *args: Any, **kwargs: Any) -> FrozenDiscrete:
        """Return the frozen distribution with these parameters."""
        return FrozenDiscrete(self, args, kwargs)

    def logpmf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the logarithm of the probability of k, which is -inf outside the support."""
        given = self._given(k, args, kwargs)
        z = standardized(given.x, given.loc, 1)
        is_between = floor(z) != z
        z, is_below, is_above = self._place(given, z, greater)
        y = self._formula("log_density")(z, *given.shapes)
        y = where(is_below | is_above | is_between, -math.inf, y)
        return given.checked(where(isnan(given.x), given.x, y))

    def pmf(self, k: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the probability of k, which is 0 outside the support."""
        return exp(self.logpmf(k, *args, **kwargs))

    def rvs(self, *args: Any, size: Any = None, random_state: Any = None, **kwargs: Any) -> Any:
        """Draw an int64 sample of shape `size`; it has no gradient.

        >>> from tapegrad.scipy.stats.waiting import poisson
        >>> poisson.rvs(3.0, size=4, random_state=1).dtype
        <dtype: 'int64'>
        """
        return cast(self._sample(args, kwargs, size, random_state), "int64")
