"""Continuous distributions: densities, expectations, fits and samples."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tapegrad.scipy.stats.family import Family, Formula, check_order, standardized
from tapegrad.scipy.stats.frozen import FrozenContinuous
from tapegrad.scipy.stats.likelihood import fit
from tapegrad.scipy.stats.logarithms import exp_or_infinite
from tapegrad.scipy.stats.quadrature import column, mean_over_shares
from tapegrad.scipy.vocabulary import is_number, log, where


def symmetric(cdf: Formula, ppf: Formula, logcdf: Formula | None = None) -> dict[str, Any]:
    """Return the formulas of both tails of a density that is symmetric about 0.

    >>> sorted(symmetric(lambda x: x, lambda q: q))
    ['cdf', 'isf', 'ppf', 'sf']
    """
    formulas: dict[str, Any] = {
        "cdf": cdf,
        "sf": lambda x, *shapes: cdf(-x, *shapes),
        "ppf": ppf,
        "isf": lambda q, *shapes: -ppf(q, *shapes),
    }
    if logcdf is not None:
        formulas |= {"logcdf": logcdf, "logsf": lambda x, *shapes: logcdf(-x, *shapes)}
    return formulas


class Continuous(Family):
    """A continuous distribution with shape parameters, `loc` and `scale`.

    Outside the support, densities are 0 with gradient 0. All parameters are differentiable. Invalid
    parameters give NaN.

    >>> from tapegrad.scipy.stats.positive import gamma
    >>> round(float(gamma.pdf(1.0, a=2.0, scale=0.5)), 4)
    0.5413
    >>> float(gamma.logpdf(-1.0, 2.0))
    -inf
    """

    def __init__(
        self, name: str, shapes: str = "", support: Any = (-math.inf, math.inf), **formulas: Any
    ) -> None:
        super().__init__(name, shapes, support, **formulas)

    @property
    def parameters(self) -> tuple[str, ...]:
        return (*self.shapes, "loc", "scale")

    def _step(self, z: Any) -> Any:
        return z

    def _is_past(self, z: Any, high: Any) -> Any:
        return z > high

    def _below(self, low: Any) -> Any:
        return low

    def __call__(self, *args: Any, **kwargs: Any) -> FrozenContinuous:
        """Return the frozen distribution with these parameters."""
        return FrozenContinuous(self, args, kwargs)

    def logpdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the logarithm of the density at x, which is -inf outside the support."""
        given = self._given(x, args, kwargs)
        z = standardized(given.x, given.loc, given.scale)
        z, is_below, is_above = self._place(given, z, self._is_past)
        y = self._formula("log_density")(z, *given.shapes)
        y = y if is_number(given.scale, 1) else y - log(given.scale)
        return given.checked(where(is_below | is_above, -math.inf, y))

    def pdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the density at x, which is 0 outside the support."""
        return exp_or_infinite(self.logpdf(x, *args, **kwargs))

    def expect(
        self, func: Any = None, args: tuple[Any, ...] = (), loc: Any = 0.0, scale: Any = 1.0
    ) -> Any:
        """Return the expectation of a function, integrated over the quantiles of the distribution.

        The last 1e-16 of both tails is cut off, which matters for heavy tails.

        >>> from tapegrad.scipy.stats.normal import norm
        >>> round(float(norm.expect(lambda x: x * x, loc=1.0, scale=2.0)), 9)
        5.0
        """
        given = self._all_given(tuple(args), {"loc": loc, "scale": scale})
        *shapes, loc, scale = column(*given.shapes, given.loc, given.scale)
        below = self._formula("ppf")
        above = self._formulas.get("isf", lambda q, *shapes: below(1 - q, *shapes))

        def value(q: Any, is_upper: bool) -> Any:
            x = (above if is_upper else below)(q, *shapes) * scale + loc
            return x if func is None else func(x)

        return given.checked(mean_over_shares(given.loc, value))

    def moment(self, order: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a raw moment: by formulas up to order 2, beyond that by `expect`.

        >>> from tapegrad.scipy.stats.normal import norm
        >>> round(float(norm.moment(4)), 9)
        3.0
        """
        power = check_order(order, self.name)
        if power > 2:
            read = self.read(args, kwargs)
            shapes = tuple(read[name] for name in self.shapes)
            return self.expect(lambda x: x**power, shapes, read["loc"], read["scale"])
        return self._low_moment(power, args, kwargs)

    def fit(self, data: Any, *args: Any, **kwds: Any) -> tuple[Any, ...]:
        """Return the maximum likelihood estimates of shapes, loc and scale, without gradients.

        `args`, `loc` and `scale` are starting values. `floc`, `fscale`, `f0`, `fa`, `fix_a`, ...
        fix parameters. The search reads numbers on the host.

        >>> from tapegrad.scipy.stats.normal import norm
        >>> [round(float(x), 4) for x in norm.fit([1.0, 2.0, 6.0], floc=2.0)]
        [2.0, 2.3805]
        """
        return fit(self, data, args, kwds)

    def rvs(self, *args: Any, size: Any = None, random_state: Any = None, **kwargs: Any) -> Any:
        """Draw a sample of shape `size`; it is differentiable where reparametrization is possible.

        >>> from tapegrad.scipy.stats.normal import norm
        >>> norm.rvs(loc=[0.0, 10.0], size=(3, 2), random_state=1).shape
        (3, 2)
        """
        return self._sample(args, kwargs, size, random_state)


OnPositive = partial(Continuous, support=(0.0, math.inf), inside=1.0)
"""The support of positive numbers."""

OnUnit = partial(Continuous, support=(0.0, 1.0), inside=0.5)
"""The support between 0 and 1."""
