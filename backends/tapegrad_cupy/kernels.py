"""Kernels that CuPy runs in its own way, by primitive name; all others are generic."""

from __future__ import annotations

from sys import maxsize

from tapegrad_cupy.attention.attention import KERNELS as ATTENTION
from tapegrad_cupy.capture import KERNELS as CAPTURE
from tapegrad_cupy.cast_groups import KERNELS as CAST_GROUPS
from tapegrad_cupy.convolution.convolution import KERNELS as CONVOLUTION
from tapegrad_cupy.convolution.pooling import KERNELS as POOLING
from tapegrad_cupy.copies import KERNELS as COPIES
from tapegrad_cupy.indexing.gather import KERNELS as GATHER
from tapegrad_cupy.indexing.host_rows import KERNELS as HOST_ROWS
from tapegrad_cupy.indexing.scatter import KERNELS as SCATTER
from tapegrad_cupy.joins import KERNELS as JOINS
from tapegrad_cupy.loops.loops import KERNELS as LOOPS
from tapegrad_cupy.multi_casts import KERNELS as MULTI_CASTS
from tapegrad_cupy.products.epilogues import KERNELS as EPILOGUES
from tapegrad_cupy.products.products import KERNELS as PRODUCTS
from tapegrad_cupy.random.philox import KERNELS as PHILOX
from tapegrad_cupy.reduction.reduction import KERNELS as REDUCTION
from tapegrad_cupy.replay import SMALL
from tapegrad_cupy.rows.normalization import KERNELS as NORMALIZATION
from tapegrad_cupy.rows.rows import KERNELS as ROWS
from tapegrad_cupy.searching import KERNELS as SEARCHING
from tapegrad_cupy.shape import KERNELS as SHAPE
from tapegrad_cupy.special.special import KERNELS as SPECIAL
from tapegrad_cupy.updates.multi_norms import KERNELS as MULTI_NORMS
from tapegrad_cupy.updates.multi_updates import KERNELS as MULTI_UPDATES
from tapegrad_cupy.updates.row_updates import KERNELS as ROW_UPDATES
from tapegrad_cupy.updates.tallies import KERNELS as TALLIES
from tapegrad_cupy.updates.updates import KERNELS as UPDATES

KERNELS = {
    **SHAPE,
    **CAPTURE,
    **LOOPS,
    **COPIES,
    **JOINS,
    **REDUCTION,
    **GATHER,
    **HOST_ROWS,
    **SCATTER,
    **SEARCHING,
    **PRODUCTS,
    **EPILOGUES,
    **CONVOLUTION,
    **POOLING,
    **ATTENTION,
    **ROWS,
    **SPECIAL,
    **PHILOX,
    **UPDATES,
    **TALLIES,
    **ROW_UPDATES,
    **MULTI_CASTS,
    **CAST_GROUPS,
    **MULTI_UPDATES,
    **MULTI_NORMS,
}

PLANNED = {
    **dict.fromkeys([*REDUCTION, *ROWS, "take"], SMALL),
    **dict.fromkeys(NORMALIZATION, maxsize),  # which would copy operands themselves
}
"""Kernels whose launches are recorded and replayed, see replay.py, and how large copies may be."""
del PLANNED["sparse_cross_entropy_and_gradient.over"]  # it writes to its operands
