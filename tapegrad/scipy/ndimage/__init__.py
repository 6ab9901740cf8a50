"""SciPy's ndimage with gradients: filters, sampling and geometric transforms.

boundaries      boundary modes
lines           correlation along one axis by matrix products
splines         interpolation weights and the spline prefilter
sampling        values at points and on grids, used by interpolation
interpolation   map_coordinates, affine_transform, shift, zoom, rotate
correlation     correlate and convolve
filters         Gaussian, uniform, and derivatives
ranks           maximum, minimum, median
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.scipy.ndimage.correlation import convolve, convolve1d, correlate, correlate1d
from tapegrad.scipy.ndimage.filters import (
    gaussian_filter,
    gaussian_filter1d,
    gaussian_gradient_magnitude,
    gaussian_laplace,
    laplace,
    prewitt,
    sobel,
    uniform_filter,
    uniform_filter1d,
)
from tapegrad.scipy.ndimage.interpolation import (
    affine_transform,
    map_coordinates,
    rotate,
    shift,
    zoom,
)
from tapegrad.scipy.ndimage.ranks import (
    maximum_filter,
    maximum_filter1d,
    median_filter,
    minimum_filter,
    minimum_filter1d,
    percentile_filter,
    rank_filter,
)
from tapegrad.scipy.ndimage.splines import spline_filter, spline_filter1d

__all__ = [
    "affine_transform", "convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter",
    "gaussian_filter1d", "gaussian_gradient_magnitude", "gaussian_laplace", "laplace",
    "map_coordinates", "maximum_filter", "maximum_filter1d", "median_filter", "minimum_filter",
    "minimum_filter1d", "percentile_filter", "prewitt", "rank_filter", "rotate", "shift",
    "sobel", "spline_filter", "spline_filter1d", "uniform_filter", "uniform_filter1d", "zoom",
]  # fmt: skip

_check_calls(globals(), __all__)
