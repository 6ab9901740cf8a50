"""What a library's call puts on the device: captured as a CUDA graph, and read back from it.

Nothing runs while a stream is captured, so a call may be captured with addresses where there is no
memory.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from typing import Any, NamedTuple

import cupy

from tapegrad_cupy.runtime.gc_pause import gc_paused

_KERNEL, _MEMSET = 0, 2  # CUgraphNodeType
_THIS_THREAD = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
_INVALID_VALUE = 1
_ATTRIBUTES = {2: 4, 4: 12, 5: 4, 14: 4}
"""CUlaunchAttributeID and bytes: cooperative, size and policy of clusters, share of shared memory.

What else a launch can have (priorities, early starts) changes when it runs, not what it computes.
"""

Triple = tuple[int, int, int]


class UnfitError(Exception):
    """The call does more than launch kernels one after the other."""


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


class _KernelParameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2"""

    _fields_ = [
        ("function", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("arguments", ctypes.POINTER(c_void_p)),
        ("extra", c_void_p),
        ("kernel", c_void_p),
        ("context", c_void_p),
    ]


class _MemsetParameters(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS"""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("element_size", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    ]


@functools.cache
def driver() -> Any:
    """CUDA's driver library, which CuPy has loaded already."""
    return ctypes.CDLL("libcuda.so.1")


def captured(call: Callable[[int], None]) -> list[Launch | Memset]:
    """Return what `call` puts on the stream that it gets, in order; raise UnfitError if more."""
    stream = cupy.cuda.Stream(non_blocking=True)
    graph = c_void_p()
    with gc_paused, stream:
        _check(driver().cuStreamBeginCapture_v2(c_void_p(stream.ptr), _THIS_THREAD))
        try:
            call(stream.ptr)
        finally:
            status = driver().cuStreamEndCapture(c_void_p(stream.ptr), byref(graph))
    _check(status)
    try:
        return [_read(node) for node in _in_order(graph)]
    finally:
        driver().cuGraphDestroy(graph)


def _check(status: int) -> None:
    if status:
        raise UnfitError(f"CUDA's driver says {status}")


def _in_order(graph: c_void_p) -> list[int]:
    """The nodes of a graph that is a chain, from first to last."""
    count, links = c_size_t(), c_size_t()
    _check(driver().cuGraphGetNodes(graph, None, byref(count)))
    nodes = (c_void_p * count.value)()
    _check(driver().cuGraphGetNodes(graph, nodes, byref(count)))
    # The second version knows kernels that may start before their predecessor ends.
    edges = driver().cuGraphGetEdges_v2
    _check(edges(graph, None, None, None, byref(links)))
    before, after = (c_void_p * links.value)(), (c_void_p * links.value)()
    if links.value:
        _check(edges(graph, before, after, (ctypes.c_uint64 * links.value)(), byref(links)))
    following = dict(zip(before, after, strict=True))
    first = set(nodes) - set(after)
    chain = list(first)
    while chain and chain[-1] in following:
        chain.append(following[chain[-1]])
    if len(first) != 1 or len(chain) != count.value or len(following) != links.value:
        raise UnfitError("its work is no chain")
    return [node for node in chain if node is not None]


def _read(node: int) -> Launch | Memset:
    kind = c_int()
    _check(driver().cuGraphNodeGetType(c_void_p(node), byref(kind)))
    if kind.value == _KERNEL:
        return _read_launch(c_void_p(node))
    if kind.value == _MEMSET:
        return _read_memset(c_void_p(node))
    raise UnfitError(f"it has a node of CUDA's kind {kind.value}")


def _read_memset(node: c_void_p) -> Memset:
    found = _MemsetParameters()
    _check(driver().cuGraphMemsetNodeGetParams(node, byref(found)))
    if found.value or found.height != 1:
        raise UnfitError("it sets memory to something else than zeros in a row")
    return Memset(found.width * found.element_size, struct.pack("<Q", found.address))


def _read_launch(node: c_void_p) -> Launch:
    found = _KernelParameters()
    _check(driver().cuGraphKernelNodeGetParams_v2(node, byref(found)))
    function = found.function or _function_of(found.kernel)
    attributes = []
    for number, size in _ATTRIBUTES.items():
        value = (ctypes.c_char * 64)()
        _check(driver().cuGraphKernelNodeGetAttribute(node, number, value))
        known = bytes(value)[:size]
        if any(known):
            attributes.append((number, known.ljust(64, b"\0")))
    return Launch(
        function,
        (found.grid[0], found.grid[1], found.grid[2]),
        (found.block[0], found.block[1], found.block[2]),
        found.shared,
        tuple(attributes),
        _packed(function, found.arguments) if found.arguments else _buffered(found.extra),
    )


def _function_of(kernel: int) -> int:
    """The function of a kernel that is not bound to a context."""
    function = c_void_p()
    _check(driver().cuKernelGetFunction(byref(function), c_void_p(kernel)))
    return function.value or 0


def _buffered(extra: int | None) -> bytes:
    """Arguments that were given in one piece: `1, their address, 2, that of their size, 0`."""
    found: dict[int, int] = {}
    while extra and (name := c_size_t.from_address(extra).value):
        found[name] = c_size_t.from_address(extra + 8).value
        extra += 16
    if set(found) != {1, 2}:
        raise UnfitError(f"a kernel of it has arguments given by {sorted(found)}")
    return ctypes.string_at(found[1], c_size_t.from_address(found[2]).value)


def _packed(function: int, places: Any) -> bytes:
    """The arguments of a launch in one piece, each where the kernel expects it."""
    packed, index = bytearray(), 0
    offset, size = c_size_t(), c_size_t()
    while True:
        status = driver().cuFuncGetParamInfo(
            c_void_p(function), c_size_t(index), byref(offset), byref(size)
        )
        if status == _INVALID_VALUE:
            return bytes(packed)
        _check(status)
        packed += bytes(offset.value - len(packed))
        packed += ctypes.string_at(places[index], size.value)
        index += 1
