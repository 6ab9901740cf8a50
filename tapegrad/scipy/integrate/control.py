"""Types shared by all integration methods: the field, the step control, an attempted step."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.scipy.vocabulary import largest, maximum, mean, sqrt, stop_gradient

Field = Callable[[float, Any], Any]
"""The right-hand side f(t, y); t is a Python float."""


def read_largest(size: Any) -> float:
    """Read a number on the host; for a vmap batch, which shares its steps, read the largest."""
    while type(size) in INTERPRETERS:
        size = size.tensor
    return float(largest(size))


class Attempt(NamedTuple):
    """An attempted step: the new state, the slope there, and the error relative to the tolerance.

    The error is infinite if the step could not be computed. `stages` is the solution of the stage
    equations of an implicit method.
    """

    after: Any
    slope: Any
    error: float
    stages: Any = None


class Method(Protocol):
    """A one-step integration method."""

    @property
    def name(self) -> str:
        """The name in SciPy."""

    @property
    def error_order(self) -> int:
        """The order of the error estimate."""

    @property
    def is_implicit(self) -> bool:
        """Whether each step solves a system of equations."""

    def attempt(
        self, field: Field, t: float, y: Any, slope: Any, step: float, control: Control
    ) -> Attempt:
        """Try a step without recording."""

    def advance(self, field: Field, t: float, y: Any, step: float) -> Any:
        """Take a step of given length that enclosing tapes record."""


@runtime_checkable
class Multistep(Protocol):
    """A method whose steps depend on the steps before."""

    def integrate(
        self,
        field: Field,
        y: Any,
        times: Sequence[float],
        control: Control,
        every_step: bool,
        stop: Callable[[Any], bool] | None,
    ) -> tuple[list[float], list[Any], list[Any]]:
        """See `tapegrad.scipy.integrate.steps.integrate`."""


class Implicit(Protocol):
    """A method that stores its steps, because they cannot be integrated backwards."""

    def repeat(
        self, field: Field, y: Any, steps: Sequence[Any], times: Container[float]
    ) -> list[Any]:
        """Return the states at the times, of steps already taken, with derivatives."""


@dataclass
class Control:
    """The tolerances, the method, step limits and counts of evaluations.

    `is_retry` is set after a longer step from the same state was rejected.
    """

    rtol: float
    atol: float
    method: Method
    max_step: float = math.inf
    first_step: float | None = None
    calls: int = 0
    matrices: int = 0
    is_retry: bool = False

    def evaluate(self, field: Field, t: float, y: Any) -> Any:
        """Return the slope as a constant and count the call."""
        self.calls += 1
        return stop_gradient(field(t, y))

    def scaled_error(self, change: Any, *states: Any) -> Any:
        """Return a change divided by its tolerance."""
        scale = abs(states[0])
        for state in states[1:]:
            scale = maximum(scale, abs(state))
        return change / (scale * self.rtol + self.atol)

    def size(self, change: Any, *states: Any) -> float:
        """Return the root mean square of a change divided by its tolerance."""
        scaled_error = self.scaled_error(change, *states)
        return read_largest(sqrt(mean(scaled_error * scaled_error)))
