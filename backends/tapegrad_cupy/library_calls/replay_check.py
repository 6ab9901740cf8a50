"""Compare a replayed library call with the library's own call, bit by bit, before it is used."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import cupy
import cupyx

from tapegrad_cupy.launch.cuda_source import (
    FULL_GRID,
    THREADS,
    Source,
    blocks_for,
    compile_kernel,
    full_source,
)
from tapegrad_cupy.launch.launch import Kernel

Call = Callable[[Sequence[int], int], None]
"""Takes the addresses of what is read and written, and the stream."""

_SOURCE = r"""
extern "C" __global__ void bits_differ(
    const unsigned char* a, const unsigned char* b, i64 size, int* found
) {
    const i64 first = 16 * ((i64)blockIdx.x * blockDim.x + threadIdx.x);
    const i64 step = 16 * (i64)gridDim.x * blockDim.x;
    bool differs = false;
    i64 at = first;
    for (; at + 16 <= size; at += step) {
        const uint4 x = *(const uint4*)(a + at), y = *(const uint4*)(b + at);
        differs |= x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w;
    }
    for (; at < size; ++at) differs |= a[at] != b[at];  // the end, for one thread
    if (differs) *found = 1;
}
"""

_DEVICE_TO_DEVICE = 3  # cudaMemcpyKind


_POISON = 0xA5
"""What every byte is before a replay writes it: old results would look like new ones."""


class Output(NamedTuple):
    """Memory that a call writes: the number of its address, and its size in bytes."""

    number: int
    size: int
    has_gaps: bool = False
    """Whether the call leaves some of these bytes as they are."""


def run_and_compare(
    by_library: Call,
    replay: Call,
    addresses: Sequence[int],
    outputs: Sequence[Output],
    stream: int,
) -> bool:
    """Make the library's call, replay it into other memory, and return whether bits agree.

    The results of the library's call stay where they belong, whatever the comparison says. An
    address that occurs twice, as for a sum in place, is read and written; it is moved as one.
    """
    written = [(addresses[one.number], one.size) for one in outputs if addresses[one.number]]
    partly = {addresses[one.number] for one in outputs if one.has_gaps}
    copies = {at: cupy.cuda.alloc(size) for at, size in written}
    for at, size in written:
        if at in partly or addresses.count(at) > 1:
            cupy.cuda.runtime.memcpyAsync(copies[at].ptr, at, size, _DEVICE_TO_DEVICE, stream)
        else:
            cupy.cuda.runtime.memsetAsync(copies[at].ptr, _POISON, size, stream)
    by_library(addresses, stream)
    replay([copies[at].ptr if at in copies else at for at in addresses], stream)
    found = cupy.zeros(1, cupy.int32)
    for at, size in written:
        blocks = min(FULL_GRID, blocks_for((size + 15) // 16))
        _kernel()(blocks, THREADS, at, copies[at].ptr, size, found.data.ptr)
    with _synchronization():
        return not int(found.get()[0])


@contextlib.contextmanager
def _synchronization() -> Iterator[None]:
    """Allow the host to wait, also where a user has asked CuPy to forbid it."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")  # CuPy deprecates the name
        if hasattr(cupyx, "allow_synchronize"):
            stack.enter_context(cupyx.allow_synchronize(True))
        yield


@functools.cache
def _kernel() -> Kernel:
    return Kernel(lambda: compile_kernel(_SOURCE, "bits_differ"), "PPqP")


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    yield Source("bits_differ", full_source(_SOURCE))
