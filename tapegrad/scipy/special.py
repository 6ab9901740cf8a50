"""SciPy's special functions on tensors, with gradients.

Python numbers are float64; next to an array they take its dtype. Bessel functions take any real
order. Degrees of polynomials, and the orders of exponential integrals, spherical harmonics and
spherical Bessel functions, are Python ints. Most functions accept real arguments only and raise
for complex ones.
"""

from tapegrad import special_functions
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.special_functions import *  # noqa: F403

__all__: list[str] = []
__all__ += special_functions.__all__

_check_calls(globals(), __all__)
