"""The base class of univariate distributions: parameters, tails, quantiles, moments, samples.

A distribution is a table of formulas for its standard form (loc 0, scale 1). The base class adds
loc and scale, the values outside of the support, and the handling of invalid parameters.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.elementwise.comparison import isinf
from tapegrad.scipy.stats.draws import full_shape, source_of, uniform
from tapegrad.scipy.stats.logarithms import log_or_minus_infinity
from tapegrad.scipy.vocabulary import (
    broadcast_p,
    is_number,
    log,
    log1p,
    numpy_dtype_of,
    operands,
    sqrt,
    where,
)

Formula = Callable[..., Any]
Bounds = tuple[Any, Any]

FORMULAS = frozenset(
    {"log_density", "cdf", "sf", "logcdf", "logsf", "ppf", "isf", "entropy", "mean", "var"}
    | {"draw", "valid", "inside", "stand_in"}
)


class Given(NamedTuple):
    """The arguments of a call; invalid parameters are replaced by valid ones."""

    x: Any
    shapes: list[Any]
    loc: Any
    scale: Any
    is_valid: Any
    """Where the given parameters are valid, or None for everywhere."""

    def checked(self, y: Any) -> Any:
        """Return y, and NaN where a parameter is invalid."""
        return y if self.is_valid is None else where(self.is_valid, y, math.nan)


class Standard(NamedTuple):
    """A standardized value and its side; values outside the support are replaced by inner ones."""

    z: Any
    is_below: Any
    is_above: Any


def standardized(x: Any, loc: Any, scale: Any) -> Any:
    """Return (x - loc) / scale, and 0 for infinite x, whose gradient would be NaN.

    >>> [float(standardized(x, 1.0, 2.0)) for x in operands(5.0, math.inf)]
    [2.0, -0.5]
    """
    x = where(isinf(x), 0.0, x)
    x = x if is_number(loc, 0) else x - loc
    return x if is_number(scale, 1) else x / scale


class Family(ABC):
    """A distribution whose methods take the parameters; calling it returns a frozen distribution.

    Formulas take the standard variable first, then the shape parameters. `support` is a pair of
    bounds or a function of the shapes; `inside` is an inner point or such a function. Shapes that
    are not `valid` are replaced by `stand_in` (0.5 each) in the formulas and give NaN.
    """

    def __init__(
        self, name: str, shapes: str, support: Bounds | Callable[..., Bounds], **formulas: Any
    ) -> None:
        unknown = formulas.keys() - FORMULAS
        if unknown:
            raise ArgumentError(
                f"The declaration of {name} has unknown formulas: {sorted(unknown)}."
            )
        self.name = name
        self.shapes = tuple(shapes.split())
        self._support = support
        self._formulas = formulas

    def __repr__(self) -> str:
        return f"<tapegrad.scipy.stats.{self.name}>"

    # Differences between continuous and discrete distributions

    @property
    @abstractmethod
    def parameters(self) -> tuple[str, ...]:
        """The names of all parameters in the order of positional arguments."""

    @abstractmethod
    def _step(self, z: Any) -> Any:
        """Return the point at which to compute the tails for the standard variable z."""

    @abstractmethod
    def _is_past(self, z: Any, high: Any) -> Any:
        """Return whether the CDF is 1 at z."""

    @abstractmethod
    def _below(self, low: Any) -> Any:
        """Return the quantile of probability 0."""

    # Reading arguments

    def read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters by name; raise if some are missing or unknown."""
        names = self.parameters
        if len(args) > len(names):
            raise ArgumentTypeError(
                f"{self.name} accepts the parameters {', '.join(names)}. Got {len(args)} values."
            )
        given = {**dict(zip(names, args)), **kwargs}
        if len(given) < len(args) + len(kwargs) or given.keys() - set(names):
            wrong = sorted(set(kwargs) & set(names[: len(args)]) | given.keys() - set(names))
            raise ArgumentTypeError(
                f"{self.name} accepts each of the parameters {', '.join(names)} once. "
                f"Got {', '.join(wrong)} in addition."
            )
        missing = [name for name in self.shapes if name not in given]
        if missing:
            raise ArgumentTypeError(f"{self.name} needs {' and '.join(missing)}.")
        return {"loc": 0.0, "scale": 1.0, **given}

    def _given(self, x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
        """Return x and the parameters in one dtype; the defaults of loc and scale stay floats."""
        given = self.read(args, kwargs)
        defaults = {"loc": 0, "scale": 1}
        names = [*self.shapes, *(n for n in defaults if not is_number(given[n], defaults[n]))]
        x, *tensors = operands(x, *(given[name] for name in names))
        values = {**given, **dict(zip(names, tensors))}
        return self._within(x, [values[n] for n in self.shapes], values["loc"], values["scale"])

    def _all_given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Given:
        """Return all parameters as tensors, and 0 of their dtype as x."""
        given = self.read(args, kwargs)
        names = (*self.shapes, "loc", "scale")
        x, *shapes, loc, scale = operands(0.0, *(given[name] for name in names))
        return self._within(x, shapes, loc, scale)

    def _within(self, x: Any, shapes: list[Any], loc: Any, scale: Any) -> Given:
        """Replace invalid parameters and record where they are valid."""
        valid = self._formulas.get("valid")
        is_valid = None if valid is None else valid(*shapes)
        if is_valid is not None:
            stand_in = self._formulas.get("stand_in", (0.5,) * len(shapes))
            shapes = [where(is_valid, x, number) for x, number in zip(shapes, stand_in)]
        if is_number(scale, 1):
            return Given(x, shapes, loc, scale, is_valid)
        is_positive = scale > 0
        is_valid = is_positive if is_valid is None else is_valid & is_positive
        return Given(x, shapes, loc, where(is_positive, scale, 1.0), is_valid)

    def _formula(self, name: str) -> Formula:
        formula = self._formulas.get(name)
        if formula is None:
            raise ArgumentError(
                f"{self.name} does not support {name}: there is no formula for it in terms of "
                "differentiable functions."
            )
        return formula  # type: ignore[no-any-return]

    def _bounds(self, shapes: list[Any]) -> Bounds:
        return self._support(*shapes) if callable(self._support) else self._support

    def _place(self, given: Given, z: Any, is_past: Formula) -> Standard:
        """Return on which side of the support the standard variable z of x lies."""
        x, shapes = given.x, given.shapes
        low, high = self._bounds(shapes)
        # z is finite even for infinite x, so x itself is tested.
        is_below = where(isinf(x), x < 0, z < low)
        is_above = where(isinf(x), x > 0, is_past(z, high))
        inside = self._formulas.get("inside", 0.0)
        inner = inside(*shapes) if callable(inside) else inside
        return Standard(where(is_below | is_above, inner, z), is_below, is_above)

    # Tails and quantiles

    def _tail(
        self, formula: Formula, ends: Bounds, x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        given = self._given(x, args, kwargs)
        z = self._step(standardized(given.x, given.loc, given.scale))
        z, is_below, is_above = self._place(given, z, self._is_past)
        y = where(is_below, ends[0], where(is_above, ends[1], formula(z, *given.shapes)))
        return given.checked(y)

    def _lower(self, z: Any, *shapes: Any) -> Any:
        if "cdf" not in self._formulas and "sf" in self._formulas:
            return 1 - self._formulas["sf"](z, *shapes)
        return self._formula("cdf")(z, *shapes)

    def _upper(self, z: Any, *shapes: Any) -> Any:
        given = self._formulas.get("sf")
        return 1 - self._lower(z, *shapes) if given is None else given(z, *shapes)

    def _log_lower(self, z: Any, *shapes: Any) -> Any:
        given = self._formulas.get("logcdf")
        if given is not None:
            return given(z, *shapes)
        return _log_probability(self._lower(z, *shapes), self._upper(z, *shapes))

    def _log_upper(self, z: Any, *shapes: Any) -> Any:
        given = self._formulas.get("logsf")
        if given is not None:
            return given(z, *shapes)
        return _log_probability(self._upper(z, *shapes), self._lower(z, *shapes))

    def cdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the cumulative distribution function at x."""
        return self._tail(self._lower, (0.0, 1.0), x, args, kwargs)

    def sf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the survival function 1 - cdf(x), accurate where it is small."""
        return self._tail(self._upper, (1.0, 0.0), x, args, kwargs)

    def logcdf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the logarithm of cdf."""
        return self._tail(self._log_lower, (-math.inf, 0.0), x, args, kwargs)

    def logsf(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the logarithm of sf."""
        return self._tail(self._log_upper, (0.0, -math.inf), x, args, kwargs)

    def ppf(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the quantile of q: the inverse of cdf."""
        return self._quantile(self._formula("ppf"), False, q, args, kwargs)

    def isf(self, q: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the inverse of sf."""
        formula = self._formulas.get("isf")
        if formula is None:
            below = self._formula("ppf")
            return self._quantile(lambda q, *shapes: below(1 - q, *shapes), True, q, args, kwargs)
        return self._quantile(formula, True, q, args, kwargs)

    def _quantile(
        self,
        formula: Formula,
        is_upper: bool,
        q: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        given = self._given(q, args, kwargs)
        q, shapes, loc, scale, _ = given
        low, high = self._bounds(shapes)
        ends = (_edge(self._below(low), loc, scale), _edge(high, loc, scale))
        at_zero, at_one = reversed(ends) if is_upper else ends
        is_inner = (q > 0) & (q < 1)
        y = _shifted(formula(where(is_inner, q, 0.5), *shapes), loc, scale)
        y = where(is_inner, y, where(q == 0, at_zero, where(q == 1, at_one, math.nan)))
        return given.checked(y)

    def median(self, *args: Any, **kwargs: Any) -> Any:
        """Return the median."""
        return self.ppf(0.5, *args, **kwargs)

    def interval(self, confidence: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return the ends of the interval around the median with this probability."""
        rest = (1 - operands(confidence)[0]) / 2
        return self.ppf(rest, *args, **kwargs), self.isf(rest, *args, **kwargs)

    # Moments

    def _moment(self, name: str, finish: Formula, args: Any, kwargs: Any) -> Any:
        given = self._all_given(args, kwargs)
        _, shapes, loc, scale, _ = given
        y = given.checked(finish(self._formula(name)(*shapes), loc, scale))
        full = np.broadcast_shapes(*(value.shape for value in (*shapes, loc, scale)))
        return y if y.shape == full else broadcast_p(y, shape=full)

    def mean(self, *args: Any, **kwargs: Any) -> Any:
        """Return the mean."""
        return self._moment("mean", lambda m, loc, scale: m * scale + loc, args, kwargs)

    def var(self, *args: Any, **kwargs: Any) -> Any:
        """Return the variance."""
        return self._moment("var", lambda v, loc, scale: v * scale * scale, args, kwargs)

    def std(self, *args: Any, **kwargs: Any) -> Any:
        """Return the standard deviation."""
        return sqrt(self.var(*args, **kwargs))

    def entropy(self, *args: Any, **kwargs: Any) -> Any:
        """Return the (differential) entropy in nats."""
        return self._moment("entropy", lambda h, loc, scale: h + log(scale), args, kwargs)

    def stats(self, *args: Any, moments: str = "mv", **kwargs: Any) -> Any:
        """Return the mean for "m", the variance for "v", or both for "mv".

        >>> from tapegrad.scipy.stats.positive import gamma
        >>> [float(x) for x in gamma.stats(2.0, scale=3.0)]
        [6.0, 18.0]
        """
        if not moments or set(moments) - set("mv"):
            raise ArgumentError(
                f"moments of {self.name} must be 'm', 'v' or 'mv'. Got {moments!r}."
            )
        methods = {"m": self.mean, "v": self.var}
        found = tuple(methods[m](*args, **kwargs) for m in "mv" if m in moments)
        return found[0] if len(found) == 1 else found

    def _low_moment(self, order: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a raw moment up to order 2."""
        mean = self.mean(*args, **kwargs)
        if order == 0:
            return 0.0 * mean + 1
        return mean if order == 1 else self.var(*args, **kwargs) + mean * mean

    def support(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return the ends of the support."""
        given = self._all_given(args, kwargs)
        _, shapes, loc, scale, _ = given
        low, high = (_edge(bound, loc, scale) for bound in self._bounds(shapes))
        return given.checked(low), given.checked(high)

    # Samples

    def _sample(self, args: tuple[Any, ...], kwargs: dict[str, Any], size: Any, state: Any) -> Any:
        if len(args) == len(self.parameters) + 1:
            *args, size = args  # type: ignore[assignment]  # SciPy takes it by position as well
        given = self._all_given(args, kwargs)
        _, shapes, loc, scale, _ = given
        shape = full_shape(size, *shapes, loc, scale, name=self.name)
        source, dtype = source_of(state), numpy_dtype_of(loc)
        draw = self._formulas.get("draw")
        if draw is not None:
            y = draw(source, shape, dtype, *shapes)
        else:
            y = self._formula("ppf")(uniform(source, shape, dtype), *shapes)
        return given.checked(y * scale + loc)


def check_order(order: Any, name: str) -> int:
    """Return the order of a moment; raise if it is not a non-negative integer.

    >>> check_order(2, "norm")
    2
    """
    if int(order) != order or order < 0:
        raise ArgumentError(f"{name}.moment needs a non-negative integer order. Got {order!r}.")
    return int(order)


def _log_probability(p: Any, rest: Any) -> Any:
    """Return log(p), computed as log1p(-rest) where p is near 1."""
    is_small = p < 0.5
    return where(is_small, log_or_minus_infinity(p), log1p(-where(is_small, 0.0, rest)))


def _shifted(y: Any, loc: Any, scale: Any) -> Any:
    """Return y * scale + loc, skipping a scale of 1 and a loc of 0."""
    y = y if is_number(scale, 1) else y * scale
    return y if is_number(loc, 0) else y + loc


def _edge(bound: Any, loc: Any, scale: Any) -> Any:
    """Return an end of the support; an infinite one has no gradient."""
    if isinstance(bound, float | int):
        return bound if math.isinf(bound) else _shifted(bound, loc, scale)
    is_infinite = isinf(bound)
    return where(is_infinite, bound, _shifted(where(is_infinite, 0.0, bound), loc, scale))
