"""The table of NumPy kernels by primitive name; other primitives use generic kernels."""

from __future__ import annotations

from tapegrad_numpy.kernels.activations import KERNELS as ACTIVATIONS
from tapegrad_numpy.kernels.along_axis import KERNELS as ALONG_AXIS
from tapegrad_numpy.kernels.attention import KERNELS as ATTENTION
from tapegrad_numpy.kernels.convolution import KERNELS as CONVOLUTION
from tapegrad_numpy.kernels.elementwise import KERNELS as ELEMENTWISE
from tapegrad_numpy.kernels.indexing import KERNELS as INDEXING
from tapegrad_numpy.kernels.linalg import KERNELS as LINALG
from tapegrad_numpy.kernels.normalization import KERNELS as NORMALIZATION
from tapegrad_numpy.kernels.philox import KERNELS as PHILOX
from tapegrad_numpy.kernels.pooling import KERNELS as POOLING
from tapegrad_numpy.kernels.products import KERNELS as PRODUCTS
from tapegrad_numpy.kernels.reduction import KERNELS as REDUCTION
from tapegrad_numpy.kernels.schur import KERNELS as SCHUR
from tapegrad_numpy.kernels.segment import KERNELS as SEGMENT
from tapegrad_numpy.kernels.shape import KERNELS as SHAPE
from tapegrad_numpy.kernels.signal import KERNELS as SIGNAL
from tapegrad_numpy.kernels.singular_values import KERNELS as SINGULAR_VALUES
from tapegrad_numpy.kernels.softmax import KERNELS as SOFTMAX
from tapegrad_numpy.kernels.sorting import KERNELS as SORTING
from tapegrad_numpy.kernels.special import KERNELS as SPECIAL
from tapegrad_numpy.kernels.updates import KERNELS as UPDATES

KERNELS = {
    **ELEMENTWISE,
    **ACTIVATIONS,
    **ALONG_AXIS,
    **INDEXING,
    **REDUCTION,
    **SEGMENT,
    **SORTING,
    **LINALG,
    **SCHUR,
    **SINGULAR_VALUES,
    **PRODUCTS,
    **CONVOLUTION,
    **POOLING,
    **PHILOX,
    **SIGNAL,
    **SOFTMAX,
    **ATTENTION,
    **SPECIAL,
    **NORMALIZATION,
    **SHAPE,
    **UPDATES,
}
