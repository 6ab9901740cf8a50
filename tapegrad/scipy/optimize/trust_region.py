"""Newton's method within a region of trust: trust-ncg, with one look of the host per iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tapegrad.scipy.optimize.descending import LOOKING
from tapegrad.scipy.optimize.implicit import look
from tapegrad.scipy.optimize.objective import Ended, Objective, Seen, Watcher, dot
from tapegrad.scipy.optimize.truncated import within
from tapegrad.scipy.sparse.linalg.krylov import length
from tapegrad.scipy.vocabulary import cast, numpy_dtype_of


@dataclass(frozen=True)
class Trust:
    """How far the model is believed, and when to stop."""

    first: float
    most: float
    least_ratio: float
    gtol: float
    maxiter: int


def descend_trusting(objective: Objective, x: Any, trust: Trust, watcher: Watcher) -> Ended:
    """Minimise quadratic models within a radius that grows and shrinks with their quality."""
    value, gradient = objective.both(x)
    seen = Seen(x, gradient, *look(LOOKING, value, length(gradient)))
    radius, apply = trust.first, objective.curvature(x)
    for rounds in range(trust.maxiter):
        if seen.size < trust.gtol:
            return Ended(seen, rounds, 0)
        model = within(apply, seen.gradient, radius)
        point = seen.x + model.step
        value, gradient = objective.both(point)
        border = cast(model.is_on_border, numpy_dtype_of(x))
        now, descent, size, is_on_border, moved = look(
            LOOKING, value, model.descent, length(gradient), border, dot(model.step, model.step)
        )
        if not descent > 0:
            return Ended(seen, rounds, 2)
        ratio = (seen.value - now) / descent
        if not ratio >= 0.25:
            radius *= 0.25
        elif ratio > 0.75 and is_on_border:
            radius = min(2.0 * radius, trust.most)
        if ratio > trust.least_ratio:
            seen = Seen(point, gradient, now, size)
            apply = objective.curvature(point)
        elif moved == 0 or radius < 1e-300:
            return Ended(seen, rounds, 2)
        if watcher.stops(seen.x, seen.value):
            return Ended(seen, rounds + 1, 99)
    return Ended(seen, trust.maxiter, 0 if seen.size < trust.gtol else 1)
