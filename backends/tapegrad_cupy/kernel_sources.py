"""All CUDA sources of this backend, so that a machine without a GPU can test that they compile.

A module that compiles CUDA has a function `variants()` and is listed in `MODULES`. The function
yields a `Source` (see cuda_source.py) for every source that the module can compile: every dtype,
vector length and template argument. `text` and `options` come from the function that also creates
the kernel at run time, so that they cannot differ. The first word of `label` is the name of the
kernel, and the rest distinguishes its variants:

    def _macros(dtype: np.dtype[Any], vector: int) -> dict[str, str | int]: ...

    @functools.cache
    def _kernel(dtype: np.dtype[Any], vector: int) -> Any:
        return compile_kernel(SOURCE, "scale", **_macros(dtype, vector))

    def variants() -> Iterator[Source]:
        for dtype, vector in ...:
            yield Source(f"scale {dtype} {vector}", full_source(SOURCE, **_macros(dtype, vector)))

If sources differ only in a number that makes the kernel larger, such as the elements per thread,
only the largest is yielded. Expressions of `cupy.ElementwiseKernel`s are `Pointwise` (see
pointwise.py), which creates the kernel and the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from tapegrad_cupy.kernels import kernel_table
from tapegrad_cupy.kernels.attention import attention_tiles
from tapegrad_cupy.kernels.casting import multi_casts
from tapegrad_cupy.kernels.convolution import few_channels, grouped, patches, pooling, sequences
from tapegrad_cupy.kernels.copying import copies, corners, multi_copies, shape
from tapegrad_cupy.kernels.elementwise import accumulate, conversions, vjp as elementwise_vjp
from tapegrad_cupy.kernels.fourier import frames
from tapegrad_cupy.kernels.indexing import (
    gather,
    host_rows,
    long_sorts,
    row_sorts,
    scatter,
    searching,
)
from tapegrad_cupy.kernels.linalg import small as small_matrices
from tapegrad_cupy.kernels.loops import examples as loop_examples, rounds as loop_rounds
from tapegrad_cupy.kernels.products import narrow, small, stack_vectors
from tapegrad_cupy.kernels.random import philox, philox_rejection, philox_words
from tapegrad_cupy.kernels.reduction import reduction
from tapegrad_cupy.kernels.rows import column_launch, losses_with_gradients, normalization, rows
from tapegrad_cupy.kernels.scan import scan
from tapegrad_cupy.kernels.special import special
from tapegrad_cupy.kernels.updates import (
    multi_norms,
    multi_updates,
    row_updates,
    running_means,
    updates,
)
from tapegrad_cupy.launch.cuda_source import Source
from tapegrad_cupy.library_calls import replay_check

MODULES: tuple[ModuleType, ...] = (
    accumulate,
    attention_tiles,
    column_launch,
    conversions,
    copies,
    corners,
    elementwise_vjp,
    few_channels,
    frames,
    gather,
    grouped,
    host_rows,
    kernel_table,
    loop_examples,
    loop_rounds,
    losses_with_gradients,
    multi_casts,
    multi_copies,
    multi_norms,
    multi_updates,
    narrow,
    normalization,
    patches,
    philox,
    philox_rejection,
    philox_words,
    pooling,
    reduction,
    replay_check,
    row_updates,
    rows,
    scan,
    scatter,
    searching,
    sequences,
    long_sorts,
    row_sorts,
    shape,
    small,
    small_matrices,
    special,
    stack_vectors,
    running_means,
    updates,
)


def all_sources() -> Iterator[Source]:
    """Yield the sources of all modules, without a device."""
    for module in MODULES:
        yield from module.variants()
