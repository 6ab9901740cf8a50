"""Backward differentiation formulas of orders 1 to 5, for stiff equations.

The state is a list of backward differences. A step extrapolates them and corrects the result by the
solution of one system of equations with as many unknowns as the state has elements, where Radau
solves three times as many. A change of the step length is linear in the differences.

A recording tape repeats the accepted steps: each correction has the derivatives of the equations
that it solves.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.ops.linalg.solve import inv_p
from tapegrad.scipy.integrate.control import Attempt, Control, Field
from tapegrad.scipy.integrate.explicit import mix
from tapegrad.scipy.integrate.radau import Radau, field_jacobian
from tapegrad.scipy.integrate.steps import Step, Stop, first_step, least_step, too_small
from tapegrad.scipy.optimize.implicit import with_implicit_derivatives
from tapegrad.scipy.vocabulary import eps_of, numbers_like, reshape_p, stop_gradient, zeros_like

# Shampine and Reichelt, The MATLAB ODE Suite, 1997: NDFs with their kappa, without one for order 5.
MOST_ORDER = 5
_KAPPA = np.array([0.0, -0.1850, -1 / 9, -0.0823, -0.0415, 0.0])
GAMMA = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, MOST_ORDER + 1))])
ALPHA = (1 - _KAPPA) * GAMMA
ERRORS = _KAPPA * GAMMA + 1 / np.arange(1, MOST_ORDER + 2)
MOST_ITERATIONS = 4
SAFETY, LEAST, MOST = 0.9, 0.2, 10.0


def rescaling(order: int, factor: float) -> np.ndarray:
    """Return the matrix that gives the differences of a new step length, `factor` times the old.

    >>> rescaling(1, 0.5).tolist()
    [[1.0, 0.0], [0.0, 0.5]]
    """

    def basis(scale: float) -> np.ndarray:
        i, j = np.arange(1, order + 1)[:, None], np.arange(1, order + 1)
        matrix = np.zeros((order + 1, order + 1))
        matrix[0] = 1.0
        matrix[1:, 1:] = (i - 1 - scale * j) / i
        products: np.ndarray = np.cumprod(matrix, axis=0)
        return products

    matrix: np.ndarray = (basis(factor) @ basis(1.0)).T
    return matrix


class Differences:
    """The backward differences of the state, of order 0 (the state itself) and higher."""

    def __init__(self, y: Any, slope: Any, step: float) -> None:
        nothing = zeros_like(y)
        self.rows = [y, slope * step, *[nothing] * (MOST_ORDER + 1)]
        self.order = 1

    def rescale(self, factor: float) -> None:
        """Change the step length."""
        weights, rows = rescaling(self.order, factor), self.rows[: self.order + 1]
        self.rows[: self.order + 1] = [mix([float(w) for w in row], rows) for row in weights]

    def predicted(self) -> Any:
        """Return the extrapolated state after one step."""
        return mix([1.0] * (self.order + 1), self.rows[: self.order + 1])

    def past(self) -> Any:
        """Return the part of the equations of a step that does not depend on its correction."""
        weights = [float(w) for w in GAMMA[1 : self.order + 1] / ALPHA[self.order]]
        return mix(weights, self.rows[1 : self.order + 1])

    def accept(self, correction: Any) -> None:
        """Add the correction of a step."""
        order, rows = self.order, self.rows
        rows[order + 2] = correction - rows[order + 1]
        rows[order + 1] = correction
        for i in range(order, -1, -1):
            rows[i] = rows[i] + rows[i + 1]

    def behind(self, fraction: float) -> Any:
        """Return the state that lies a fraction of a step, 0 to -1, behind the last one."""
        weights, product = [1.0], 1.0
        for k in range(self.order):
            product *= (fraction + k) / (k + 1)
            weights.append(product)
        return mix(weights, self.rows[: self.order + 1])


class Advance(NamedTuple):
    """An accepted step: what to repeat under a tape, and the requested times within it."""

    start: float
    end: float
    step: float
    order: int
    rescalings: tuple[tuple[int, float], ...]
    correction: Any
    seen: tuple[float, ...]


class BDF:
    """Backward differentiation formulas of variable order."""

    name: ClassVar[str] = "BDF"
    error_order: ClassVar[int] = 1
    is_implicit: ClassVar[bool] = True

    def integrate(
        self,
        field: Field,
        y: Any,
        times: Sequence[float],
        control: Control,
        every_step: bool = False,
        stop: Stop | None = None,
    ) -> tuple[list[float], list[Any], list[Advance]]:
        """See `tapegrad.scipy.integrate.steps.integrate`."""
        found_times, found, steps = [times[0]], [y], []
        walk = _Walk(field, y, times, control)
        while walk.t != times[-1]:
            before = walk.differences.rows[0]
            step = walk.advance(every_step)
            steps.append(step)
            found_times.extend(step.seen)
            found.extend(_states_at(walk.differences, step))
            after = walk.differences.rows[0]
            if stop is not None and stop(Step(step.start, step.end, before, after, None)):
                break
            walk.choose_order()
        return found_times, found, steps

    def repeat(
        self, field: Field, y: Any, steps: Sequence[Advance], times: Container[float]
    ) -> list[Any]:
        """Return the states that `integrate` has found, with derivatives."""
        found = [y]
        if not steps:
            return found
        differences = Differences(y, field(steps[0].start, y), steps[0].rescalings[0][1])
        for place, step in enumerate(steps):
            for order, factor in step.rescalings[0 if place else 1 :]:
                differences.order = order
                differences.rescale(factor)
            differences.order = step.order
            shape = tuple(y.shape)
            exact = with_implicit_derivatives(
                _equations(field, differences, step.end, step.step, shape), step.correction
            )
            differences.accept(reshape_p(exact, shape=shape))
            found.extend(_states_at(differences, step))
        return found

    def attempt(
        self, field: Field, t: float, y: Any, slope: Any, step: float, control: Control
    ) -> Attempt:
        """Try a single step without a past, by Radau's method."""
        return Radau().attempt(field, t, y, slope, step, control)

    def advance(self, field: Field, t: float, y: Any, step: float) -> Any:
        """Take a step between two others, by Radau's method."""
        return Radau().advance(field, t, y, step)


def _states_at(differences: Differences, step: Advance) -> list[Any]:
    return [differences.behind((t - step.end) / step.step) for t in step.seen]


def _equations(
    field: Field, differences: Differences, t: float, step: float, shape: tuple[int, ...]
) -> Any:
    """Return the function of the correction, a vector, that is zero for a step to the time t."""
    predicted, past = differences.predicted(), differences.past()
    length = step / float(ALPHA[differences.order])

    def residual(correction: Any) -> Any:
        state = predicted + reshape_p(correction, shape=shape)
        return correction - reshape_p(length * field(t, state) - past, shape=(-1,))

    return residual


class _Walk:
    """A running integration. The host reads one number per iteration and three per step."""

    def __init__(self, field: Field, y: Any, times: Sequence[float], control: Control) -> None:
        self.field, self.control, self.t, self.times = field, control, times[0], times
        self.sign = math.copysign(1.0, times[-1] - self.t)
        slope = control.evaluate(field, self.t, y)
        self.step = min(first_step(field, self.t, y, slope, self.sign, control), control.max_step)
        self.differences = Differences(y, slope, self.sign * self.step)
        self.rescalings = [(1, self.sign * self.step)]
        self.matrix = field_jacobian(field, self.t, y, control)
        self.inverse: Any = None
        self.equal_steps = 0
        self._measures: tuple[float, float] = (0.0, 0.0)
        self._next = 1

    def advance(self, every_step: bool) -> Advance:
        """Try steps until one meets the tolerance, and take it."""
        order, differences, control = self.differences.order, self.differences, self.control
        end = self.times[-1]
        is_current = False
        while True:
            self._shorten(end)
            target = self.t + self.sign * self.step
            target = end if self.sign * (target - end) >= 0 else target
            y = differences.predicted()
            correction, iterations = self._solve(target, y)
            if correction is None:
                if is_current:
                    self._rescale(0.5)
                else:
                    self.matrix = field_jacobian(self.field, target, y, control)
                    self.inverse, is_current = None, True
                continue
            safety = SAFETY * (2 * MOST_ITERATIONS + 1) / (2 * MOST_ITERATIONS + iterations)
            change = reshape_p(correction, shape=tuple(y.shape))
            error = control.size(float(ERRORS[order]) * change, y + change)
            if error > 1:
                self._rescale(max(LEAST, safety * error ** (-1 / (order + 1))))
                continue
            self._measures = error, safety
            return self._accept(target, correction, change, every_step)

    def _accept(self, target: float, correction: Any, change: Any, every_step: bool) -> Advance:
        start, order = self.t, self.differences.order
        seen: list[float] = []
        while self._next < len(self.times) and (self.sign * (target - self.times[self._next]) >= 0):
            if self.sign * (self.times[self._next] - start) <= 0:
                raise ArgumentError("The times of an integration must be increasing or decreasing.")
            seen.append(self.times[self._next])
            start, self._next = self.times[self._next], self._next + 1
        if every_step and target not in seen:
            seen.append(target)
        found = Advance(
            self.t, target, self.sign * self.step, order, tuple(self.rescalings), correction,
            tuple(seen),
        )  # fmt: skip
        self.differences.accept(change)
        self.rescalings.clear()
        self.t, self.equal_steps = target, self.equal_steps + 1
        return found

    def choose_order(self) -> None:
        """Choose the order and the step length that promise the longest step."""
        differences, order = self.differences, self.differences.order
        if self.equal_steps < order + 1:
            return
        error, safety = self._measures
        errors = [math.inf, error, math.inf]
        y = differences.rows[0]
        if order > 1:
            lower = float(ERRORS[order - 1]) * differences.rows[order]
            errors[0] = self.control.size(lower, y)
        if order < MOST_ORDER:
            higher = float(ERRORS[order + 1]) * differences.rows[order + 2]
            errors[2] = self.control.size(higher, y)
        factors = [
            size ** (-1 / (order + i)) if size > 0 else math.inf for i, size in enumerate(errors)
        ]
        best = factors.index(max(factors))
        differences.order = order + best - 1
        self._rescale(min(MOST, safety * factors[best]))

    def _rescale(self, factor: float) -> None:
        self.step *= factor
        self.differences.rescale(factor)
        self.rescalings.append((self.differences.order, factor))
        self.equal_steps, self.inverse = 0, None

    def _shorten(self, end: float) -> None:
        """Limit the step by `max_step` and the end; raise if it is too small."""
        if not self.step > least_step(self.t, self.sign):
            raise too_small(self.t)
        limit = min(self.control.max_step, abs(end - self.t))
        if self.step > limit:
            self._rescale(limit / self.step)

    def _solve(self, t: float, y: Any) -> tuple[Any | None, int]:
        """Solve the equations of a step by simplified Newton iterations; None if they diverge."""
        control, size = self.control, self.matrix.shape[0]
        length = self.sign * self.step / float(ALPHA[self.differences.order])
        if self.inverse is None:
            self.inverse = inv_p(numbers_like(y, np.eye(size)) - length * self.matrix)
        shape = tuple(y.shape)
        residual = _equations(self.field, self.differences, t, self.sign * self.step, shape)
        found = zeros_like(reshape_p(y, shape=(-1,)))
        goal = max(10 * eps_of(y) / control.rtol, min(0.03, control.rtol**0.5))
        before = math.inf
        for count in range(MOST_ITERATIONS):
            control.calls += 1
            change = -(self.inverse @ stop_gradient(residual(found)))
            now = control.size(reshape_p(change, shape=shape), y)
            pace = now / before if count else 0.0
            left = MOST_ITERATIONS - count
            if not math.isfinite(now) or (
                count and (pace >= 1 or pace**left / (1 - pace) * now > goal)
            ):
                return None, count + 1
            found = found + change
            if now == 0 or (count and pace / (1 - pace) * now < goal):
                return found, count + 1
            before = now
        return None, MOST_ITERATIONS
