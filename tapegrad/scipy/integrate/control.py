"""What all methods of integration share: the field, the tolerances, an attempted step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from tapegrad.core.primitive import INTERPRETERS
from tapegrad.scipy.vocabulary import largest, maximum, mean, sqrt, stop_gradient

Field = Callable[[float, Any], Any]
"""The right-hand side: the slope at a time (a Python number) and a state."""


def worst(size: Any) -> float:
    """Read a number; of a batch of examples, which take their steps together, the largest."""
    while type(size) in INTERPRETERS:
        size = size.tensor
    return float(largest(size))


class Attempt(NamedTuple):
    """A step that was tried: where it leads, the slope there, and its error over what is allowed.

    An error of infinity stands for a step that could not be computed. `stages` are what an
    implicit method has solved for.
    """

    after: Any
    slope: Any
    error: float
    stages: Any = None


class Method(Protocol):
    """A way to take a step."""

    @property
    def name(self) -> str:
        """The name by which users know it."""

    @property
    def error_order(self) -> int:
        """The order of the estimate of the error."""

    @property
    def is_implicit(self) -> bool:
        """Whether a step is the solution of equations."""

    def attempt(
        self, field: Field, t: float, y: Any, slope: Any, step: float, control: Control
    ) -> Attempt:
        """Try a step, without recording."""

    def advance(self, field: Field, t: float, y: Any, step: float) -> Any:
        """Take a step of given length for tapes around to see."""


@dataclass
class Control:
    """How large an error a step may make, by which method, and how often the field was asked.

    `is_retry` says that a longer step from the same place was rejected.
    """

    rtol: float
    atol: float
    method: Method
    max_step: float = math.inf
    first_step: float | None = None
    calls: int = 0
    matrices: int = 0
    is_retry: bool = False

    def ask(self, field: Field, t: float, y: Any) -> Any:
        """Return the slope as a constant, and count the call."""
        self.calls += 1
        return stop_gradient(field(t, y))

    def share(self, change: Any, *states: Any) -> Any:
        """Return a change over what is allowed of it."""
        scale = abs(states[0])
        for state in states[1:]:
            scale = maximum(scale, abs(state))
        return change / (scale * self.rtol + self.atol)

    def size(self, change: Any, *states: Any) -> float:
        """Return the root mean square of a change over what is allowed of it."""
        share = self.share(change, *states)
        return worst(sqrt(mean(share * share)))
