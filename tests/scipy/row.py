"""What a row of the tables of distributions holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Row:
    """A distribution: shape parameters, points to look at, smooth points to differentiate at."""

    name: str
    shapes: dict[str, float]
    points: tuple[float, ...]
    smooth: tuple[float, ...]
    outside: tuple[float, ...] = ()
    tails: tuple[str, ...] = ("cdf", "sf", "logcdf", "logsf")
    whole: tuple[str, ...] = ()
    """Shapes that must be whole numbers."""
    lacks: tuple[str, ...] = ()
    """Methods that have no formula here."""
    other: dict[str, float] = field(default_factory=dict)
    """A second set of shapes."""
    wrong: dict[str, float] = field(default_factory=dict)
    """Shapes outside their domain; without it -1 is."""
    elsewhere: tuple[str, ...] = ()
    """Moments that SciPy takes minutes for or cuts short; they have a test of their own."""

    @property
    def is_discrete(self) -> bool:
        return self.name in DISCRETE

    @property
    def density(self) -> str:
        return "pmf" if self.is_discrete else "pdf"

    @property
    def frame(self) -> dict[str, float]:
        """Parameters that shift the distribution, and scale it where it can be scaled."""
        return {"loc": 2.0} if self.is_discrete else {"loc": 0.3, "scale": 1.7}

    def standing(self, points: tuple[float, ...]) -> np.ndarray[Any, Any]:
        """The points as they lie after shifting and scaling."""
        return np.array(points) * self.frame.get("scale", 1.0) + self.frame["loc"]


DISCRETE = {"bernoulli", "betabinom", "binom", "geom", "nbinom", "poisson"}
DISCRETE |= {"dlaplace", "hypergeom", "logser", "planck", "randint", "skellam", "zipf"}
REAL = (-30.0, -3.0, -0.5, 0.0, 0.7, 4.0, 30.0)
REAL_SMOOTH = (-3.0, -0.5, 0.7, 4.0)
POSITIVE = (0.0, 1e-5, 0.5, 2.0, 30.0, 300.0)
POSITIVE_SMOOTH = (0.1, 0.5, 2.0, 9.0)
COUNTS = (0.0, 1.0, 2.0, 5.0, 7.0)
