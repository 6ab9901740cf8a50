"""The trust-region Newton method trust-ncg, with one host read per iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tapegrad.scipy.optimize.descending import READER
from tapegrad.scipy.optimize.implicit import read_scalars
from tapegrad.scipy.optimize.objective import Objective, Outcome, State, Watcher, dot
from tapegrad.scipy.optimize.truncated import steihaug_step
from tapegrad.scipy.sparse.linalg.krylov import length
from tapegrad.scipy.vocabulary import cast, numpy_dtype_of


@dataclass(frozen=True)
class TrustRegion:
    """Radii, acceptance threshold and stopping criteria."""

    first: float
    most: float
    least_ratio: float
    gtol: float
    maxiter: int


def descend_in_trust_region(
    objective: Objective, x: Any, trust: TrustRegion, watcher: Watcher
) -> Outcome:
    """Minimize quadratic models within a radius that adapts to their quality."""
    value, gradient = objective.both(x)
    state = State(x, gradient, *read_scalars(READER, value, length(gradient)))
    radius, apply = trust.first, objective.curvature(x)
    for iterations in range(trust.maxiter):
        if state.size < trust.gtol:
            return Outcome(state, iterations, 0)
        model = steihaug_step(apply, state.gradient, radius)
        point = state.x + model.step
        value, gradient = objective.both(point)
        border = cast(model.is_on_border, numpy_dtype_of(x))
        now, descent, size, is_on_border, moved = read_scalars(
            READER, value, model.descent, length(gradient), border, dot(model.step, model.step)
        )
        if not descent > 0:
            return Outcome(state, iterations, 2)
        ratio = (state.value - now) / descent
        if not ratio >= 0.25:
            radius *= 0.25
        elif ratio > 0.75 and is_on_border:
            radius = min(2.0 * radius, trust.most)
        if ratio > trust.least_ratio:
            state = State(point, gradient, now, size)
            apply = objective.curvature(point)
        elif moved == 0 or radius < 1e-300:
            return Outcome(state, iterations, 2)
        if watcher.stops(state.x, state.value):
            return Outcome(state, iterations + 1, 99)
    return Outcome(state, trust.maxiter, 0 if state.size < trust.gtol else 1)
