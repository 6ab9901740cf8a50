"""All CUDA sources of this backend, so that a machine without a GPU can prove that they compile.

A module that compiles CUDA has a function `variants()` and a place in `MODULES`. It yields a
`Source` (see compiled.py) for every text that the module can ever ask the compiler for: every
dtype, vector length and template argument. `text` and `options` come from the function that also
makes the kernel at run time, so that the two cannot drift apart; the first word of `label` names
the kernel, the rest tells its variants apart:

    def _macros(dtype: np.dtype[Any], vector: int) -> dict[str, str | int]: ...

    @functools.cache
    def _kernel(dtype: np.dtype[Any], vector: int) -> Any:
        return compiled(SOURCE, "scale", **_macros(dtype, vector))

    def variants() -> Iterator[Source]:
        for dtype, vector in ...:
            yield Source(f"scale {dtype} {vector}", complete(SOURCE, **_macros(dtype, vector)))

Where only a number differs that makes a kernel larger without changing what it is made of, such as
how many elements a thread holds, the largest one stands for all. Expressions that CuPy makes a
kernel of are `Pointwise` (see pointwise.py), which has both sides.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from tapegrad_cupy import copies, kernel_table, multi_casts, multi_copies, shape
from tapegrad_cupy.attention import attention_tiles
from tapegrad_cupy.compiled import Source
from tapegrad_cupy.convolution import grouped, patches, pooling
from tapegrad_cupy.elementwise import accumulate, conversions, vjp as elementwise_vjp
from tapegrad_cupy.indexing import gather, host_rows, scatter
from tapegrad_cupy.loops import examples as loop_examples
from tapegrad_cupy.products import small
from tapegrad_cupy.random import philox, philox_rejection, philox_words
from tapegrad_cupy.reduction import reduction
from tapegrad_cupy.rows import column_launch, losses_with_gradients, normalization, rows
from tapegrad_cupy.special import special
from tapegrad_cupy.updates import multi_norms, multi_updates, row_updates, tallies, updates

MODULES: tuple[ModuleType, ...] = (
    accumulate,
    attention_tiles,
    column_launch,
    conversions,
    copies,
    elementwise_vjp,
    gather,
    grouped,
    host_rows,
    kernel_table,
    loop_examples,
    losses_with_gradients,
    multi_casts,
    multi_copies,
    multi_norms,
    multi_updates,
    normalization,
    patches,
    philox,
    philox_rejection,
    philox_words,
    pooling,
    reduction,
    row_updates,
    rows,
    scatter,
    shape,
    small,
    special,
    tallies,
    updates,
)


def all_sources() -> Iterator[Source]:
    """Yield every source of every module; none of them needs a device."""
    for module in MODULES:
        yield from module.variants()
