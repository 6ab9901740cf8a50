"""Maximum likelihood fits of continuous distributions."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError
from tapegrad.ops.elementwise.comparison import isfinite
from tapegrad.scipy.optimize.minimizing import minimize
from tapegrad.scipy.vocabulary import (
    cast,
    exp,
    mean,
    operand,
    operands,
    reshape_p,
    smallest,
    stop_gradient,
    where,
)

_SIMPLEXES = 3
_LIMITS = {"maxiter": 1000, "xatol": 1e-6, "fatol": 1e-10}
_OUTSIDE = 1e3
"""The cost of a value outside of the support."""


def fit(family: Any, data: Any, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """Return the maximum likelihood estimates of the parameters of a family, in their order.

    >>> from tapegrad.scipy.stats.normal import norm
    >>> [round(float(x), 4) for x in fit(norm, [1.0, 2.0, 6.0], (), {})]
    [3.0, 2.1602]
    """
    given = operand(data)
    if given.dtype.is_complex:
        raise DTypeError(f"{family.name}.fit needs real values. Got {given.dtype.name}.")
    x = cast(stop_gradient(reshape_p(given, shape=(-1,))), "float64")
    if not x.shape[0]:
        raise ArgumentError(f"{family.name}.fit needs at least one value. Got none.")
    if float(mean(where(isfinite(x), 0.0, 1.0))) > 0.0:
        raise ArgumentError(f"{family.name}.fit needs finite values. Got NaN or infinity.")
    fixed, starts = _read(family, args, options)
    free = [name for name in family.parameters if name not in fixed]
    if not free:
        raise ArgumentError(
            f"All parameters of {family.name} are fixed, so there is nothing to fit. "
            "Leave at least one free."
        )
    starts = _starts(family, x, fixed, starts)

    def parameters(point: Any) -> dict[str, Any]:
        moving = {name: point[k] for k, name in enumerate(free)}
        if "scale" in moving:
            moving["scale"] = exp(moving["scale"])
        return {**fixed, **moving}

    def cost(point: Any) -> Any:
        y = family.logpdf(x, **parameters(point))
        is_inside = isfinite(y)
        return mean(where(is_inside, -where(is_inside, y, 0.0), _OUTSIDE))

    start = operands(x, [math.log(starts[n]) if n == "scale" else starts[n] for n in free])[1]
    best = start
    # A simplex degenerates at a discontinuity of the likelihood, so it is restarted.
    for _ in range(_SIMPLEXES):
        best = minimize(cost, best, method="Nelder-Mead", options=_LIMITS).x
    # Gradient steps refine the result; it is kept if the likelihood is not smooth there.
    last = minimize(cost, best, method="BFGS", options={"gtol": 1e-9}).x
    best = last if float(cost(last)) <= float(cost(best)) else best
    values = parameters(best)
    return tuple(operand(values[name]) for name in family.parameters)


def _read(
    family: Any, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the fixed parameters and the starting values of the others."""
    options = dict(options)
    method = options.pop("method", "MLE")
    if str(method).lower() != "mle":
        raise ArgumentError(f"{family.name}.fit supports only method='MLE'. Got {method!r}.")
    if len(args) > len(family.shapes):
        raise ArgumentTypeError(
            f"{family.name}.fit accepts starting values of "
            f"{', '.join(family.shapes) or 'no shape'}. Got {len(args)}."
        )
    starts = dict(zip(family.shapes, (float(value) for value in args)))
    fixed: dict[str, float] = {}
    for k, name in enumerate(family.parameters):
        spellings = {f"f{name}", f"fix_{name}", *([f"f{k}"] if name in family.shapes else [])}
        for spelling in spellings & options.keys():
            fixed[name] = float(options.pop(spelling))
        if name in ("loc", "scale") and name in options:
            starts[name] = float(options.pop(name))
    if options:
        raise ArgumentTypeError(
            f"{family.name}.fit does not support {', '.join(sorted(options))}. To fix a parameter, "
            "put f before its name."
        )
    return fixed, starts


def _starts(
    family: Any, x: Any, fixed: dict[str, float], starts: dict[str, float]
) -> dict[str, float]:
    """Return starting values: shapes of 1, and the matching loc and scale of the sample."""
    shapes = {name: fixed.get(name, starts.get(name, 1.0)) for name in family.shapes}
    middle = float(mean(x))
    width = max(float(mean((x - middle) ** 2)) ** 0.5, 1e-6 * max(abs(middle), 1.0))
    mu, var = (float(moment(**shapes)) for moment in (family.mean, family.var))
    is_known = math.isfinite(mu) and math.isfinite(var) and var > 0
    scale = fixed.get("scale", starts.get("scale", width / var**0.5 if is_known else width))
    loc = fixed.get("loc", starts.get("loc", middle - scale * mu if is_known else middle))
    low = float(family.support(**shapes)[0])
    if "loc" not in fixed and "loc" not in starts and math.isfinite(low):
        # All values must lie within the support.
        least = float(smallest(x))
        loc = min(loc, least - 0.1 * width - low * scale)
    return {**shapes, "loc": loc, "scale": scale}
