"""Kernels that NumPy runs better, or only, in its own way, by primitive name."""

from __future__ import annotations

from tapegrad_numpy.activations import KERNELS as ACTIVATIONS
from tapegrad_numpy.along_axis import KERNELS as ALONG_AXIS
from tapegrad_numpy.attention import KERNELS as ATTENTION
from tapegrad_numpy.convolution import KERNELS as CONVOLUTION
from tapegrad_numpy.elementwise import KERNELS as ELEMENTWISE
from tapegrad_numpy.indexing import KERNELS as INDEXING
from tapegrad_numpy.linalg import KERNELS as LINALG
from tapegrad_numpy.loops.hooks import KERNELS as LOOPS
from tapegrad_numpy.normalization import KERNELS as NORMALIZATION
from tapegrad_numpy.ownership import KERNELS as OWNERSHIP
from tapegrad_numpy.philox import KERNELS as PHILOX
from tapegrad_numpy.pooling import KERNELS as POOLING
from tapegrad_numpy.products import KERNELS as PRODUCTS
from tapegrad_numpy.reduction import KERNELS as REDUCTION
from tapegrad_numpy.schur import KERNELS as SCHUR
from tapegrad_numpy.segment import KERNELS as SEGMENT
from tapegrad_numpy.shape import KERNELS as SHAPE
from tapegrad_numpy.signal import KERNELS as SIGNAL
from tapegrad_numpy.softmax import KERNELS as SOFTMAX
from tapegrad_numpy.sorting import KERNELS as SORTING
from tapegrad_numpy.special import KERNELS as SPECIAL
from tapegrad_numpy.updates import KERNELS as UPDATES

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
    **LOOPS,
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
    **OWNERSHIP,
}
