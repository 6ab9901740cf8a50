"""Which objects hold a CuPy array: the reference counts of the array, its pointer and its memory.

A view is an array with a pointer of its own to the same memory, so all three are counted.
tapegrad/core/ownership.py explains what the counts are used for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import cupy

from tapegrad.core.ownership import distrust, reference_counts, why_not_used

Array = Any


def watched(arrays: Sequence[Array]) -> list[Any]:
    """Return the arrays, their pointers and their memory; every view holds one of them."""
    pointers = [array.data for array in arrays]
    return [*arrays, *pointers, *[pointer.mem for pointer in pointers]]


def expected_counts(
    arrays: Sequence[Array], holders: Sequence[int], owners: Sequence[int]
) -> list[int]:
    """Return the counts of `watched(arrays)` where only known holders exist.

    Each array is held by this many lists and variables, beside the list of watched objects, and by
    this many other owners. An owner holds the array twice: in a list of arrays and in a list of
    watched objects, which also has the pointer and the memory.
    """
    array, pointer, memory = _counts_of_one()
    return [
        *[array + held - 1 + 2 * own for held, own in zip(holders, owners, strict=True)],
        *[pointer + own for own in owners],
        *[memory + own for own in owners],
    ]


@functools.cache
def _counts_of_one() -> tuple[int, int, int]:
    """Return the counts of an array, its pointer and its memory, held by one list and watched.

    CuPy's objects hold each other, so the counts are measured.
    """
    if why_not_counted():
        return 1, 1, 1  # counts that `reference_counts` never returns then
    arrays = [cupy.ndarray((1,), cupy.uint8)]
    array, pointer, memory = reference_counts(watched(arrays))
    return array, pointer, memory


def why_not_counted() -> str:
    """Return why reference counts are not used for CuPy's arrays, or "" where they are."""
    _check_views()
    return why_not_used()


@functools.cache
def _check_views() -> None:
    """Stop using reference counts if a view holds neither the array, its pointer nor its memory."""
    # The address is never read, so that the check needs no device.
    memory = cupy.cuda.UnownedMemory(256, 2, None, 0)
    array = cupy.ndarray((2,), cupy.uint8, cupy.cuda.MemoryPointer(memory, 0))
    seen = watched([array])
    alone = reference_counts(seen)
    makers: tuple[Callable[[Array], Array], ...] = (
        lambda array: array[:1],
        lambda array: array.reshape(2, 1),
        lambda array: array.view("i1"),
    )
    for make in makers:
        held = make(array)
        if reference_counts(seen) == alone and not why_not_used():
            distrust("this CuPy does not count a view as a holder of its memory")
        del held


@functools.cache
def _own_memory() -> type:
    """The type of memory that CuPy's allocator returns; memory of other libraries differs."""
    return type(cupy.ndarray((1,), cupy.uint8).data.mem)


def owns_memory(array: Array) -> bool:
    """Return whether an array is no view, fills its memory in order, and CuPy allocated it."""
    pointer = array.data
    return bool(
        array.base is None
        and array._c_contiguous
        and not pointer.ptr & 15
        and type(pointer.mem) is _own_memory()
    )
