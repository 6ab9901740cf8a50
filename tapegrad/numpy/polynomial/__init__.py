"""NumPy's `polynomial`: six families of series, as functions and classes, with derivatives.

    from tapegrad.numpy.polynomial import Chebyshev, legendre

    Chebyshev([1.0, 2.0, 3.0])(0.5)
    legendre.legval(0.5, [1.0, 2.0, 3.0])

Coefficients and points may be tensors that a tape watches.
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy.polynomial import (
    chebyshev,
    hermite,
    hermite_e,
    laguerre,
    legendre,
    polynomial,
    polyutils,
)
from tapegrad.numpy.polynomial.series import (
    Chebyshev,
    Hermite,
    HermiteE,
    Laguerre,
    Legendre,
    Polynomial,
)

__all__ = [
    "Chebyshev",
    "Hermite",
    "HermiteE",
    "Laguerre",
    "Legendre",
    "Polynomial",
    "chebyshev",
    "hermite",
    "hermite_e",
    "laguerre",
    "legendre",
    "polynomial",
    "polyutils",
]

_check_calls(globals(), __all__)
