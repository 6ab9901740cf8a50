"""What a library's call puts on the device: captured as a CUDA graph, and read back from it.

Nothing runs while a stream is captured, so a call may be captured with addresses where there is no
memory.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from ctypes import byref, c_size_t, c_void_p
from typing import NamedTuple

import cupy

from tapegrad.core.gc_pause import gc_paused
from tapegrad_cupy.launch.graph_nodes import (
    KERNEL,
    MEMSET,
    Triple,
    UnfitError,
    check,
    driver,
    function_of,
    kernel_arguments,
    kind_of,
    node_handles,
    read_kernel_parameters,
    read_memset_parameters,
)

_THIS_THREAD = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
_ATTRIBUTES = {2: 4, 4: 12, 5: 4, 14: 4}
"""CUlaunchAttributeID and bytes: cooperative, size and policy of clusters, share of shared memory.

What else a launch can have (priorities, early starts) changes when it runs, not what it computes.
"""


class Launch(NamedTuple):
    """A kernel's launch; its arguments lie as the kernel will find them."""

    function: int
    grid: Triple
    block: Triple
    shared: int
    attributes: tuple[tuple[int, bytes], ...]
    arguments: bytes


class Memset(NamedTuple):
    """Memory set to zero; its only argument is the address."""

    size: int
    arguments: bytes


def captured(call: Callable[[int], None]) -> list[Launch | Memset]:
    """Return what `call` puts on the stream that it gets, in order; raise UnfitError if more."""
    stream = cupy.cuda.Stream(non_blocking=True)
    graph = c_void_p()
    with gc_paused, stream:
        check(driver().cuStreamBeginCapture_v2(c_void_p(stream.ptr), _THIS_THREAD))
        try:
            call(stream.ptr)
        finally:
            status = driver().cuStreamEndCapture(c_void_p(stream.ptr), byref(graph))
    check(status)
    try:
        return [_read(node) for node in _in_order(graph)]
    finally:
        driver().cuGraphDestroy(graph)


def _in_order(graph: c_void_p) -> list[int]:
    """The nodes of a graph that is a chain, from first to last."""
    nodes = node_handles(graph)
    links = c_size_t()
    # The second version knows kernels that may start before their predecessor ends.
    edges = driver().cuGraphGetEdges_v2
    check(edges(graph, None, None, None, byref(links)))
    before, after = (c_void_p * links.value)(), (c_void_p * links.value)()
    if links.value:
        check(edges(graph, before, after, (ctypes.c_uint64 * links.value)(), byref(links)))
    following = dict(zip(before, after, strict=True))
    first = set(nodes) - set(after)
    chain = list(first)
    while chain and chain[-1] in following:
        chain.append(following[chain[-1]])
    if len(first) != 1 or len(chain) != len(nodes) or len(following) != links.value:
        raise UnfitError("its work is no chain")
    return chain


def _read(node: int) -> Launch | Memset:
    kind = kind_of(node)
    if kind == KERNEL:
        return _read_launch(node)
    if kind == MEMSET:
        return _read_memset(node)
    raise UnfitError(f"it has a node of CUDA's kind {kind}")


def _read_memset(node: int) -> Memset:
    found = read_memset_parameters(node)
    if found.value or found.height != 1:
        raise UnfitError("it sets memory to something else than zeros in a row")
    return Memset(found.width * found.element_size, struct.pack("<Q", found.address))


def _read_launch(node: int) -> Launch:
    found = read_kernel_parameters(node)
    attributes = []
    for number, size in _ATTRIBUTES.items():
        value = (ctypes.c_char * 64)()
        check(driver().cuGraphKernelNodeGetAttribute(c_void_p(node), number, value))
        known = bytes(value)[:size]
        if any(known):
            attributes.append((number, known.ljust(64, b"\0")))
    return Launch(
        function_of(found),
        (found.grid[0], found.grid[1], found.grid[2]),
        (found.block[0], found.block[1], found.block[2]),
        found.shared,
        tuple(attributes),
        kernel_arguments(found),
    )
