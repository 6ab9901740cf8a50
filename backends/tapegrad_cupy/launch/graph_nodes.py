"""Read the nodes of a CUDA graph, and give them other arguments.

CuPy captures and launches graphs but does not look inside them, so this module calls CUDA's driver.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from typing import Any, NamedTuple

KERNEL, MEMCPY, MEMSET = 0, 1, 2  # CUgraphNodeType
_EMPTY, _WAIT_EVENT, _RECORD_EVENT = 5, 6, 7
_INVALID_VALUE = 1
_DEVICE_MEMORY = 2  # CUmemorytype

_CUPY_NAMES = ("cupy_", "tapegrad_")
"""How the names of kernels begin that CuPy generates."""

_OPAQUE_NAMES = ("nccl",)
"""How the names of kernels begin whose arguments may point to memory with further addresses.

Such arguments are never replaced: a graph whose inputs they may refer to cannot move its inputs.
"""

Triple = tuple[int, int, int]


class UnfitError(Exception):
    """A graph does something that this package cannot follow."""


class KernelParameters(ctypes.Structure):
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


class _Side(ctypes.Structure):
    """The source or the target of a copy in CUDA_MEMCPY3D."""

    _fields_ = [
        ("offsets", c_size_t * 4),
        ("kind", c_int),
        ("host", c_void_p),
        ("device", ctypes.c_uint64),
        ("others", c_size_t * 4),
    ]


class _CopyParameters(ctypes.Structure):
    """CUDA_MEMCPY3D"""

    _fields_ = [("source", _Side), ("target", _Side), ("extent", c_size_t * 3)]


class MemsetParameters(ctypes.Structure):
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


def driver_function(name: str) -> Any:
    """Return a function of the driver; raise UnfitError if this driver does not have it."""
    try:
        return getattr(driver(), name)
    except (AttributeError, OSError) as error:
        raise UnfitError(f"CUDA's driver has no {name}: {error}") from error


def check(status: int) -> None:
    """Raise UnfitError if the driver returned an error."""
    if status:
        raise UnfitError(f"CUDA's driver says {status}")


# Reading


class Node(NamedTuple):
    """A node: what its arguments do not change, and its arguments as the device gets them."""

    handle: int
    identity: tuple[Any, ...]
    arguments: bytes


def node_handles(graph: c_void_p) -> list[int]:
    """Return the handles of all nodes of a graph, in the order of their creation."""
    count = c_size_t()
    check(driver_function("cuGraphGetNodes")(graph, None, byref(count)))
    handles = (c_void_p * count.value)()
    check(driver_function("cuGraphGetNodes")(graph, handles, byref(count)))
    return [handle for handle in handles if handle is not None]


def read_nodes(graph: int) -> list[Node]:
    """Return all nodes of a graph; raise UnfitError if one copies from the host or is unknown."""
    return [_read_node(handle) for handle in node_handles(c_void_p(graph))]


def _read_node(handle: int) -> Node:
    kind = kind_of(handle)
    if kind == KERNEL:
        found = read_kernel_parameters(handle)
        sizes = (*found.grid, *found.block, found.shared)
        identity = (kind, found.function, found.kernel, sizes)
        arguments = kernel_arguments(found)
        if name_of(function_of(found)).startswith(_OPAQUE_NAMES):
            return Node(handle, (*identity, arguments), b"")
        return Node(handle, identity, arguments)
    if kind == MEMCPY:
        copy = _read_copy_parameters(handle)
        addresses = struct.pack("<QQ", copy.source.device, copy.target.device)
        extent = (*copy.source.others[1:], *copy.target.others[1:], *copy.extent)
        offsets = (*copy.source.offsets, *copy.target.offsets)
        return Node(handle, (kind, offsets, extent), addresses)
    if kind == MEMSET:
        found_memset = read_memset_parameters(handle)
        return Node(handle, (kind,), bytes(found_memset))
    if kind in (_EMPTY, _WAIT_EVENT, _RECORD_EVENT):
        return Node(handle, (kind,), b"")
    raise UnfitError(f"it has a node of CUDA's kind {kind}")


def kind_of(handle: int) -> int:
    """Return CUDA's number for the kind of a node."""
    kind = c_int()
    check(driver_function("cuGraphNodeGetType")(c_void_p(handle), byref(kind)))
    return kind.value


def read_kernel_parameters(handle: int) -> KernelParameters:
    """Return the parameters of a kernel's node."""
    found = KernelParameters()
    check(driver_function("cuGraphKernelNodeGetParams_v2")(c_void_p(handle), byref(found)))
    return found


def read_memset_parameters(handle: int) -> MemsetParameters:
    """Return the parameters of a node that fills memory."""
    found = MemsetParameters()
    check(driver_function("cuGraphMemsetNodeGetParams")(c_void_p(handle), byref(found)))
    return found


def _read_copy_parameters(handle: int) -> _CopyParameters:
    found = _CopyParameters()
    check(driver_function("cuGraphMemcpyNodeGetParams")(c_void_p(handle), byref(found)))
    # What lies in the host's memory is copied at each launch, and may hold addresses.
    if found.source.kind != _DEVICE_MEMORY or found.target.kind != _DEVICE_MEMORY:
        raise UnfitError("it copies between host and device")
    return found


def function_of(found: KernelParameters) -> int:
    """Return the function of a kernel, which may not be bound to a context yet."""
    if found.function:
        return int(found.function)
    function = c_void_p()
    check(driver_function("cuKernelGetFunction")(byref(function), c_void_p(found.kernel)))
    return function.value or 0


def kernel_arguments(found: KernelParameters) -> bytes:
    """Return the arguments of a launch in one piece, each where the kernel expects it."""
    if not found.arguments:
        return _buffered(found.extra)
    packed, function = bytearray(), function_of(found)
    is_from_cupy = name_of(function).startswith(_CUPY_NAMES)
    for index, (offset, size) in enumerate(argument_layout(function)):
        packed += bytes(offset - len(packed))
        argument = ctypes.string_at(found.arguments[index], size)
        packed += without_scratch(argument) if is_from_cupy else argument
    return bytes(packed)


def name_of(function: int) -> str:
    """Return the name of a function, "" if the driver cannot tell."""
    try:
        get_name = driver_function("cuFuncGetName")
    except UnfitError:
        return ""
    name = ctypes.c_char_p()
    return "" if get_name(byref(name), c_void_p(function)) else (name.value or b"").decode()


def without_scratch(argument: bytes) -> bytes:
    """Clear the part of an indexer of CuPy that the host leaves as it was.

    An indexer has a size, `n` lengths, and space for `n` positions, which only the device uses. It
    would look as if the argument changed.

    >>> words = struct.pack("<5q", 6, 2, 3, 99, -1)
    >>> struct.unpack("<5q", without_scratch(words))
    (6, 2, 3, 0, 0)
    """
    count, rest = divmod(len(argument), 8)
    if rest or count < 3 or count % 2 == 0:
        return argument
    size, *lengths = struct.unpack(f"<{(count + 1) // 2}q", argument[: 4 * (count + 1)])
    if size != math.prod(lengths):
        return argument
    return argument[: 4 * (count + 1)] + bytes(4 * (count - 1))


def _buffered(extra: int | None) -> bytes:
    """Arguments that were given in one piece: `1, their address, 2, that of their size, 0`."""
    found: dict[int, int] = {}
    while extra and (name := c_size_t.from_address(extra).value):
        found[name] = c_size_t.from_address(extra + 8).value
        extra += 16
    if set(found) != {1, 2}:
        raise UnfitError(f"a kernel of it has arguments given by {sorted(found)}")
    return ctypes.string_at(found[1], c_size_t.from_address(found[2]).value)


def argument_layout(function: int) -> tuple[tuple[int, int], ...]:
    """Return the offset and size of each argument of a function."""
    found: list[tuple[int, int]] = []
    offset, size = c_size_t(), c_size_t()
    while True:
        status = driver_function("cuFuncGetParamInfo")(
            c_void_p(function), c_size_t(len(found)), byref(offset), byref(size)
        )
        if status == _INVALID_VALUE:
            return tuple(found)
        check(status)
        found.append((offset.value, size.value))


# Writing


class NodeArguments:
    """The arguments of one node of an executable graph, which can be replaced.

    `bytes` are the arguments. `update` gives them to the graph; launches that were made before it
    keep their own.
    """

    __slots__ = ("_call", "_kept", "bytes")

    def __init__(self, executable: int, node: Node) -> None:
        self.bytes = bytearray(node.arguments)
        kind = node.identity[0]
        if kind == KERNEL:
            self._call, self._kept = self._for_kernel(executable, node.handle)
        elif kind == MEMCPY:
            self._call, self._kept = self._for_copy(executable, node.handle)
        else:
            raise UnfitError(f"a node of CUDA's kind {kind} gets no other arguments")

    def update(self) -> None:
        """Use the present arguments in later launches."""
        check(self._call())

    def _for_kernel(self, executable: int, handle: int) -> tuple[Any, Any]:
        found = read_kernel_parameters(handle)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        kept: list[Any] = [found]
        if found.arguments:
            layout = argument_layout(function_of(found))
            places = (c_void_p * len(layout))(*[start + offset for offset, _ in layout])
            found.arguments = ctypes.cast(places, ctypes.POINTER(c_void_p))
            kept.append(places)
        else:
            size = c_size_t(len(self.bytes))
            extra = (c_void_p * 5)(1, start, 2, ctypes.addressof(size), 0)
            found.extra = ctypes.addressof(extra)
            kept += [size, extra]
        call = driver_function("cuGraphExecKernelNodeSetParams_v2")
        address = ctypes.addressof(found)
        arguments = (c_void_p(executable), c_void_p(handle), c_void_p(address))
        return functools.partial(call, *arguments), kept

    def _for_copy(self, executable: int, handle: int) -> tuple[Any, Any]:
        found = _read_copy_parameters(handle)
        context = c_void_p()
        check(driver_function("cuCtxGetCurrent")(byref(context)))
        call = driver_function("cuGraphExecMemcpyNodeSetParams")

        def update() -> int:
            found.source.device, found.target.device = struct.unpack("<QQ", self.bytes)
            status: int = call(c_void_p(executable), c_void_p(handle), byref(found), context)
            return status

        return update, found
