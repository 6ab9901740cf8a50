"""Collective calls on CuPy arrays through NCCL (cupy.cuda.nccl).

The calls are asynchronous: they are queued on the current stream, like kernels. If another process
fails, the control channel ends this one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import cupy

from tapegrad.core.backend.communication import Peers, World
from tapegrad.errors import BackendUnavailableError, DTypeError

DTYPES = {
    "int8": "INT8",
    "uint8": "UINT8",
    "bool": "UINT8",
    "int32": "INT32",
    "uint32": "UINT32",
    "int64": "INT64",
    "uint64": "UINT64",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    # The sum of complex numbers is that of their parts.
    "complex64": "FLOAT32",
    "complex128": "FLOAT64",
}
"""NCCL's name of a dtype."""


class Nccl:
    """Communication of CuPy arrays; a capability of the backend."""

    def connect(self, world: World) -> NcclCommunicator:
        from cupy.cuda import nccl  # loads the library, which programs on one GPU do not need

        if not nccl.available:
            raise BackendUnavailableError(
                "Arrays on GPUs are exchanged through NCCL, which is not installed. "
                "Run: pip install nvidia-nccl-cu13 (nvidia-nccl-cu12 for CUDA 12)."
            )
        return NcclCommunicator(world, nccl)


class NcclCommunicator:
    """Collective calls of all processes of a world, or of a group of them, each with one GPU."""

    def __init__(self, world: World, nccl: Any, group: tuple[int, ...] | None = None) -> None:
        self._world = world
        self._nccl = nccl
        self._peers: Peers = world.peers  # type: ignore[assignment]  # worlds of several have it
        self._is_group = group is not None
        ranks = group or tuple(range(world.size))
        self._size, place = len(ranks), ranks.index(world.rank)
        key = f"nccl {group}"
        if place == 0:
            self._peers.publish(key, json.dumps(nccl.get_unique_id()))
        identifier = tuple(json.loads(self._peers.look_up(key)))
        self._comm = nccl.NcclCommunicator(self._size, identifier, place)
        self._ops = {"sum": nccl.NCCL_SUM, "max": nccl.NCCL_MAX, "min": nccl.NCCL_MIN}

    def all_reduce(self, x: Any, op: str) -> Any:
        given, result = _contiguous(x), _empty(x.shape, x)
        count, kind = self._kind(x, op)
        self._note(f"all_reduce({op})", x)
        self._comm.allReduce(_at(given), _at(result), count, kind, self._ops[op], _stream())
        return result

    def reduce_scatter(self, x: Any) -> Any:
        given, result = _contiguous(x), _empty(x.shape[1:], x)
        count, kind = self._kind(result, "sum")
        self._note("reduce_scatter", x)
        op = self._ops["sum"]
        self._comm.reduceScatter(_at(given), _at(result), count, kind, op, _stream())
        return result

    def all_gather(self, x: Any) -> Any:
        given, result = _contiguous(x), _empty((self._size, *x.shape), x)
        self._note("all_gather", x)
        bytes_ = self._nccl.NCCL_INT8
        self._comm.allGather(_at(given), _at(result), given.nbytes, bytes_, _stream())
        return result

    def broadcast(self, x: Any, root: int) -> Any:
        given, result = _contiguous(x), _empty(x.shape, x)
        self._note(f"broadcast(from {root})", x)
        bytes_ = self._nccl.NCCL_INT8
        self._comm.broadcast(_at(given), _at(result), given.nbytes, bytes_, root, _stream())
        return result

    def all_to_all(self, x: Any) -> Any:
        given, result = _contiguous(x), _empty(x.shape, x)
        self._note("all_to_all", x)
        row, bytes_ = given.nbytes // self._size, self._nccl.NCCL_INT8
        self._nccl.groupStart()
        for peer in range(self._size):
            self._comm.send(_at(given) + peer * row, row, bytes_, peer, _stream())
            self._comm.recv(_at(result) + peer * row, row, bytes_, peer, _stream())
        self._nccl.groupEnd()
        return result

    def send(self, x: Any, to: int) -> None:
        given = _contiguous(x)
        self._peers.poll()
        self._comm.send(_at(given), given.nbytes, self._nccl.NCCL_INT8, to, _stream())

    def recv(self, like: Any, source: int) -> Any:
        result = _empty(like.shape, like)
        self._peers.poll()
        self._comm.recv(_at(result), result.nbytes, self._nccl.NCCL_INT8, source, _stream())
        return result

    def barrier(self) -> None:
        self.all_reduce(cupy.zeros(1, "float32"), "sum")
        cupy.cuda.get_current_stream().synchronize()

    def group(self, ranks: Sequence[int]) -> NcclCommunicator:
        return NcclCommunicator(self._world, self._nccl, tuple(ranks))

    def close(self) -> None:
        cupy.cuda.Device().synchronize()
        self._comm.destroy()

    def _note(self, call: str, x: Any) -> None:
        """Let the processes compare their calls; raise if one of them has failed."""
        self._peers.begin(None if self._is_group else f"{call} {x.dtype.name}{list(x.shape)}")
        self._peers.end()

    def _kind(self, x: Any, op: str) -> tuple[int, int]:
        """Return how many numbers an array has for NCCL, and their dtype."""
        name = x.dtype.name
        is_complex = x.dtype.kind == "c"
        if name not in DTYPES or (name == "bool" and op == "sum") or (is_complex and op != "sum"):
            raise DTypeError(
                f"all_reduce cannot compute the {op} of {name} arrays. Cast them first."
            )
        return x.size * (2 if is_complex else 1), getattr(self._nccl, f"NCCL_{DTYPES[name]}")


def _contiguous(x: Any) -> Any:
    """Return an array in C order; unlike `ascontiguousarray`, this keeps arrays without axes."""
    return cupy.asarray(x, order="C")


def _empty(shape: tuple[int, ...], like: Any) -> Any:
    return cupy.empty(shape, like.dtype)


def _at(array: Any) -> int:
    address: int = array.data.ptr
    return address


def _stream() -> int:
    pointer: int = cupy.cuda.get_current_stream().ptr
    return pointer
