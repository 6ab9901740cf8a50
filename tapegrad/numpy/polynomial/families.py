"""The six families of NumPy's `polynomial`, each by its recurrence and weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numpy.polynomial.basis import Steps
from tapegrad.numpy.polynomial.calculus import Family
from tapegrad.ops.exponential import exp

Degrees = np.ndarray[Any, Any]


def _powers(n: Degrees) -> Steps:
    return np.ones_like(n), 0 * n, 0 * n


def _chebyshev(n: Degrees) -> Steps:
    return np.where(n == 0, 1.0, 2.0), 0 * n, np.ones_like(n)


def _chebyshev_weight(x: Any) -> Any:
    return 1.0 / ((1.0 + x) ** 0.5 * (1.0 - x) ** 0.5)


def _legendre(n: Degrees) -> Steps:
    return (2 * n + 1) / (n + 1), 0 * n, n / (n + 1)


def _legendre_weight(x: Any) -> Any:
    return 0.0 * x + 1.0


def _laguerre(n: Degrees) -> Steps:
    return -1 / (n + 1), (2 * n + 1) / (n + 1), n / (n + 1)


def _laguerre_weight(x: Any) -> Any:
    return exp(-x)


def _hermite(n: Degrees) -> Steps:
    return np.full_like(n, 2), 0 * n, 2 * n


def _hermite_weight(x: Any) -> Any:
    return exp(-x * x)


def _hermite_e(n: Degrees) -> Steps:
    return np.ones_like(n), 0 * n, n


def _hermite_e_weight(x: Any) -> Any:
    return exp(-0.5 * x * x)


POWERS = Family("polynomial", "poly", _powers)
CHEBYSHEV = Family("chebyshev", "cheb", _chebyshev, _chebyshev_weight)
LEGENDRE = Family("legendre", "leg", _legendre, _legendre_weight)
LAGUERRE = Family("laguerre", "lag", _laguerre, _laguerre_weight)
HERMITE = Family("hermite", "herm", _hermite, _hermite_weight)
HERMITE_E = Family("hermite_e", "herme", _hermite_e, _hermite_e_weight)
