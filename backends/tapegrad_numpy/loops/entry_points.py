"""The capabilities of the C compiler: fused loops, and kernels of fixed shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapegrad.core.backend.native_sequences import LoopWriter
from tapegrad.core.backend.optional_parts import SpecializableCall
from tapegrad_numpy.kernels.convolution import KERNELS as CONVOLUTIONS
from tapegrad_numpy.kernels.fourier import PLAIN as TRANSFORMS
from tapegrad_numpy.kernels.indexing import KERNELS as INDEXING
from tapegrad_numpy.kernels.products import KERNELS as PRODUCTS
from tapegrad_numpy.kernels.segment import KERNELS as SEGMENTS
from tapegrad_numpy.loops.dtypes import COMPLEX_PRIMITIVES, LOOP_DTYPES
from tapegrad_numpy.loops.layout import MANY
from tapegrad_numpy.loops.recycling import recycled

_ROWS_FOR_THREADS = 16
"""The number of rows from which there is enough work for the threads of most machines."""

_FEWEST_NEIGHBOURS, _LONGEST_APART = 16, 256
"""The fewest rows that are processed together, and the longest ones, if elements are apart.

Of longer rows fewer than 32 fit on the stack with the values that are kept between passes.
"""

_BYTES_PER_OPERATION = 2
"""Bytes that are read or written while a vector computes one operation of an element.

CPU time on a Neoverse-N1 by operations per byte, in ms: gravity of 96 bodies with gradients 1.07
for 2, 0.74 for 1, 0.70 for 1/2 and 1/4; of 1,200 bodies 160, 120, 111, 111; Sinkhorn steps of 128
points 7.6, 6.2, 5.1, 5.1; the forward algorithm of a hidden Markov model 3.5, 3.3, 2.4, 1.7.
Wider vectors compute more operations in that time.
"""

_CACHED = 1 << 17
"""The most bytes of a table that loops read by index; what else they read needs the caches, too.

A loop that reduces rows of 16 elements takes 61 ns per row from a table of 1.3 MB. To store the
rows takes 13 ns and the loop then 24 ns: more reads are under way at a time in a short loop.
"""


class CLoopCompiler:
    """Compiles fused loops to C; all loops that are not cached are compiled together."""

    dtypes = LOOP_DTYPES
    complex_primitives = COMPLEX_PRIMITIVES
    joins = False
    definitions = frozenset({
        *("euclidean_norm", "log_softmax", "log_softmax_gradient", "logsumexp", "normalize"),
        *("normalize_gradient", "offset_index", "one_hot", "scatter_along_axis"),
        *("sgd_rows_update", "softmax", "softmax_gradient", "sum_of_squares", "ties"),
        "weigh_bins",
    })  # fmt: skip
    windows = frozenset({
        *("flip", "gather_rows", "roll", "segment_take", "slice", "split", "take", "take_runs"),
        *("unslice", "unstack"),
    })  # fmt: skip
    widened = frozenset({
        *("avg_pool", "avg_pool_gradient", "conv", "conv_filter_gradient", "conv_input_gradient"),
        *("matmul", "matmul_stack", "matvec", "max_pool", "pool_scatter", "segment_sum"),
        *("sparse_cross_entropy", "sparse_cross_entropy_gradient", "take_add"),
    })  # fmt: skip
    result_buffer = staticmethod(recycled)

    def takes_stages(self, rows: int, length: int, stride: int = 1) -> bool:
        """Return whether a loop with stages is at least as fast as separate loops.

        Each row is processed by one thread. Separate loops divide a few long rows among threads.
        Rows whose elements are apart are processed together, with vectors over neighbouring rows.
        """
        if stride > 1 and (stride < _FEWEST_NEIGHBOURS or length > _LONGEST_APART):
            return False
        return rows >= _ROWS_FOR_THREADS or rows * length < MANY

    def recomputes(self, weight: int, nbytes: int) -> bool:
        return weight * _BYTES_PER_OPERATION <= nbytes

    def adds_rows(self, dtype: Any, entries: int, size: int) -> bool:
        """Return False: tasks of a loop run in several threads, which would add to one row."""
        return False

    def gathers(self, nbytes: int) -> bool:
        """Return whether a cache of the core holds the table; else rows are read once."""
        return nbytes <= _CACHED

    def sorts_rows(self, entries: int, row: int, size: int) -> bool:
        """Return False: loops add no rows."""
        return False

    def compile(self, loops: Sequence[Any]) -> list[Callable[..., Any] | None]:
        # Import the C generator with the first loop, because most processes have none.
        from tapegrad_numpy.loops import compile as c_compiler

        return [*c_compiler.make_all(loops, is_program=True)]

    def writer(self, run: Callable[..., Any]) -> LoopWriter | None:
        make = run.__dict__.get("writer")
        return None if make is None else make()

    def source(self, run: Callable[..., Any]) -> None:
        """Return None: the C source is not kept."""


class CShapeSpecializer:
    """Compiles small products, gathers, sums of rows and depthwise convolutions."""

    primitives = frozenset({
        *("matmul", "matvec", "matvecs"),
        *("segment_sum", "segment_take", "take", "take_add"),
        *("conv", "conv_input_gradient", "conv_filter_gradient"),
        *("fourier", "real_fourier", "inverse_real_fourier"),
    })  # fmt: skip
    plain: Mapping[str, Callable[..., Any]] = {
        **PRODUCTS, **INDEXING, **SEGMENTS, **CONVOLUTIONS, **TRANSFORMS
    }  # fmt: skip

    def specialize(self, calls: Sequence[SpecializableCall]) -> list[Callable[..., Any] | None]:
        # Imported with the first call, like the C generator that it uses.
        from tapegrad_numpy.loops import shape_specialized

        return [*shape_specialized.make_fixed(calls, self.plain)]
