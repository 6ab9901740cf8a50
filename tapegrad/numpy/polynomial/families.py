"""The six families of NumPy's `polynomial`: their recurrences and weights."""

import numpy as np

from tapegrad.numpy.polynomial.calculus import Family
from tapegrad.ops.elementwise.exponential import exp

POWERS = Family("polynomial", "poly", lambda n: (np.ones_like(n), 0 * n, 0 * n))
CHEBYSHEV = Family(
    "chebyshev",
    "cheb",
    lambda n: (np.where(n == 0, 1.0, 2.0), 0 * n, np.ones_like(n)),
    lambda x: 1.0 / ((1.0 + x) ** 0.5 * (1.0 - x) ** 0.5),
)
LEGENDRE = Family(
    "legendre",
    "leg",
    lambda n: ((2 * n + 1) / (n + 1), 0 * n, n / (n + 1)),
    lambda x: 0.0 * x + 1.0,
)
LAGUERRE = Family(
    "laguerre",
    "lag",
    lambda n: (-1 / (n + 1), (2 * n + 1) / (n + 1), n / (n + 1)),
    lambda x: exp(-x),
)
HERMITE = Family(
    "hermite", "herm", lambda n: (np.full_like(n, 2), 0 * n, 2 * n), lambda x: exp(-x * x)
)
HERMITE_E = Family(
    "hermite_e", "herme", lambda n: (np.ones_like(n), 0 * n, n), lambda x: exp(-0.5 * x * x)
)
