"""The hand-written kernels by primitive name."""

from __future__ import annotations

from sys import maxsize

from tapegrad_cupy.kernels.attention.attention import KERNELS as ATTENTION
from tapegrad_cupy.kernels.convolution.convolution import KERNELS as CONVOLUTION
from tapegrad_cupy.kernels.convolution.pooling import KERNELS as POOLING
from tapegrad_cupy.kernels.convolution.sequences import KERNELS as SEQUENCES
from tapegrad_cupy.kernels.copying.copies import KERNELS as COPIES
from tapegrad_cupy.kernels.copying.joins import KERNELS as JOINS
from tapegrad_cupy.kernels.copying.shape import KERNELS as SHAPE
from tapegrad_cupy.kernels.fourier.frames import KERNELS as FRAMES
from tapegrad_cupy.kernels.fourier.transforms import KERNELS as TRANSFORMS
from tapegrad_cupy.kernels.indexing.gather import KERNELS as GATHER
from tapegrad_cupy.kernels.indexing.row_sorts import KERNELS as ROW_SORTS
from tapegrad_cupy.kernels.indexing.scatter import KERNELS as SCATTER
from tapegrad_cupy.kernels.indexing.searching import KERNELS as SEARCHING
from tapegrad_cupy.kernels.linalg.solvers import KERNELS as LINALG
from tapegrad_cupy.kernels.products.epilogues import KERNELS as EPILOGUES
from tapegrad_cupy.kernels.products.products import KERNELS as PRODUCTS
from tapegrad_cupy.kernels.random.philox import KERNELS as PHILOX
from tapegrad_cupy.kernels.reduction.reduction import KERNELS as REDUCTION
from tapegrad_cupy.kernels.rows.normalization import KERNELS as NORMALIZATION
from tapegrad_cupy.kernels.rows.rows import KERNELS as ROWS
from tapegrad_cupy.kernels.scan.scan import KERNELS as SCAN
from tapegrad_cupy.kernels.special.special import KERNELS as SPECIAL
from tapegrad_cupy.kernels.updates.row_updates import KERNELS as ROW_UPDATES
from tapegrad_cupy.kernels.updates.running_means import KERNELS as RUNNING_MEANS
from tapegrad_cupy.kernels.updates.updates import KERNELS as UPDATES
from tapegrad_cupy.launch.replay import SMALL

KERNELS = {
    **SHAPE,
    **COPIES,
    **JOINS,
    **REDUCTION,
    **SCAN,
    **GATHER,
    **SCATTER,
    **SEARCHING,
    **ROW_SORTS,
    **LINALG,
    **TRANSFORMS,
    **FRAMES,
    **PRODUCTS,
    **EPILOGUES,
    **CONVOLUTION,
    **POOLING,
    **SEQUENCES,
    **ATTENTION,
    **ROWS,
    **SPECIAL,
    **PHILOX,
    **UPDATES,
    **RUNNING_MEANS,
    **ROW_UPDATES,
}

REPLAYED = {
    **dict.fromkeys([*REDUCTION, *ROWS, "take"], SMALL),
    **dict.fromkeys(NORMALIZATION, maxsize),  # which would copy the operands anyway
}
"""Kernels whose launches are replayed, with the largest operand that is copied for that."""
