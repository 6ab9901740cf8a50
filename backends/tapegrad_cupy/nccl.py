"""Collective calls on CuPy arrays through NCCL (cupy.cuda.nccl).

The calls are asynchronous: they are queued on the current stream, like kernels, and they can be
part of a CUDA graph. If another process fails, the control channel ends this one.
"""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import cupy

from tapegrad.core.backend.communication import Peers, World
from tapegrad.errors import AbortedError, BackendUnavailableError, DTypeError
from tapegrad_cupy.graphs.capture_memory import STATE
from tapegrad_cupy.graphs.repeated_calls import at_each_launch

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

    def use(self, device: str) -> None:
        cupy.cuda.Device(int(device.partition(":")[2])).use()

    def connect(self, world: World) -> NcclCommunicator:
        # With the addresses of a graph registered, the processes would have to capture together.
        os.environ.setdefault("NCCL_GRAPH_REGISTER", "0")
        return NcclCommunicator(world, _load_nccl())


def _load_nccl() -> Any:
    """Import NCCL, which programs on one GPU do not need."""
    reason = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error below says the same
            from cupy.cuda import nccl
        if nccl.available:
            return nccl
    except Exception as error:
        reason = f" CuPy could not load it: {error}"
    cuda = cupy.cuda.runtime.runtimeGetVersion() // 1000
    raise BackendUnavailableError(
        "Arrays on GPUs are exchanged through NCCL, which is not installed. "
        f"Run: pip install nvidia-nccl-cu{cuda}.{reason}"
    )


class NcclCommunicator:
    """Collective calls of all processes of a world, or of a group of them, each with one GPU."""

    def __init__(self, world: World, nccl: Any, group: tuple[int, ...] | None = None) -> None:
        self._world = world
        self._nccl = nccl
        self._peers: Peers = world.peers  # type: ignore[assignment]  # worlds that exchange have it
        self._is_group = group is not None
        ranks = group or tuple(range(world.size))
        self._size, place = len(ranks), ranks.index(world.rank)
        key = f"nccl {group}"
        if place == 0:
            self._peers.publish(key, nccl.get_unique_id().hex())
        identifier = bytes.fromhex(self._peers.look_up(key))
        self._comm = nccl.NcclCommunicator(self._size, identifier, place)
        if world.is_elastic:
            self._peers.on_loss(self._abort)
        self._ops = {"sum": nccl.NCCL_SUM, "max": nccl.NCCL_MAX, "min": nccl.NCCL_MIN}
        self._bytes = nccl.NCCL_INT8
        self._sends: list[tuple[Any, int]] = []
        """Arrays to send, with the ranks of their receivers; see `send`."""
        self._is_in_graphs = False
        self._second: Any = None
        self._started: dict[int, tuple[Any, Any]] = {}
        """The arrays of calls on the second stream and their events, by the result's address."""

    def all_reduce(self, x: Any, op: str) -> Any:
        return self._all_reduce(x, op, False, _stream())[1]

    def reduce_scatter(self, x: Any) -> Any:
        return self._reduce_scatter(x, _stream())[1]

    def all_gather(self, x: Any) -> Any:
        return self._all_gather(x, _stream())[1]

    # A copy in order is made before the second stream begins to wait for this one.

    def start_all_reduce(self, x: Any, op: str, over: bool = False) -> Any:
        given = _contiguous(x)
        over = over or given is not x
        return self._started_by(self._all_reduce(given, op, over, self._beside()))

    def start_reduce_scatter(self, x: Any) -> Any:
        given = _contiguous(x)
        return self._started_by(self._reduce_scatter(given, self._beside()))

    def start_all_gather(self, x: Any) -> Any:
        given = _contiguous(x)
        return self._started_by(self._all_gather(given, self._beside()))

    def wait(self, result: Any) -> Any:
        started = self._started.pop(_at(result), None)
        if started is not None:
            cupy.cuda.get_current_stream().wait_event(started[1])
        return result

    def _all_reduce(self, x: Any, op: str, over: bool, stream: int) -> tuple[Any, Any]:
        """Queue the call on a stream; return the operand that it reads and its result."""
        given = _contiguous(x)
        # In place if nothing else reads the memory. A world of one process then copies nothing.
        result = given if over or given is not x else _empty(x.shape, x)
        count, kind = self._kind(x, op)
        with self._call(f"all_reduce({op})", x):
            self._comm.allReduce(_at(given), _at(result), count, kind, self._ops[op], stream)
        return given, result

    def _reduce_scatter(self, x: Any, stream: int) -> tuple[Any, Any]:
        given, result = _contiguous(x), _empty(x.shape[1:], x)
        count, kind = self._kind(result, "sum")
        op = self._ops["sum"]
        with self._call("reduce_scatter", x):
            self._comm.reduceScatter(_at(given), _at(result), count, kind, op, stream)
        return given, result

    def _all_gather(self, x: Any, stream: int) -> tuple[Any, Any]:
        given, result = _contiguous(x), _empty((self._size, *x.shape), x)
        with self._call("all_gather", x):
            self._comm.allGather(_at(given), _at(result), given.nbytes, self._bytes, stream)
        return given, result

    def _beside(self) -> int:
        """Return a second stream, which waits for what the current one has to do now."""
        if self._second is None:
            self._second = cupy.cuda.Stream(non_blocking=True)
        self._second.wait_event(_event(cupy.cuda.get_current_stream()))
        pointer: int = self._second.ptr
        return pointer

    def _started_by(self, arrays: tuple[Any, Any]) -> Any:
        """Hold the arrays of a call on the second stream until `wait`; return its result."""
        self._started[_at(arrays[1])] = arrays, _event(self._second)
        return arrays[1]

    def broadcast(self, x: Any, root: int) -> Any:
        given, result = _contiguous(x), _empty(x.shape, x)
        with self._call(f"broadcast(from {root})", x):
            size = given.nbytes
            self._comm.broadcast(_at(given), _at(result), size, self._bytes, root, _stream())
        return result

    def all_to_all(self, x: Any) -> Any:
        given, result = _contiguous(x), _empty(x.shape, x)
        row = given.nbytes // self._size
        with self._call("all_to_all", x), self._together():
            for peer in range(self._size):
                self._comm.send(_at(given) + peer * row, row, self._bytes, peer, _stream())
                self._comm.recv(_at(result) + peer * row, row, self._bytes, peer, _stream())
        return result

    def send(self, x: Any, to: int) -> None:
        """Send an array together with the next call.

        NCCL's sends wait for their receivers, so processes that all send first would wait for ever.
        """
        self._peers.poll()
        self._sends.append((cupy.array(x, order="C"), to))

    def recv(self, like: Any, source: int) -> Any:
        result = _empty(like.shape, like)
        self._peers.poll()
        self._start_sends((result, source))
        return result

    def barrier(self) -> None:
        self.all_reduce(cupy.zeros(1, "float32"), "sum")
        cupy.cuda.get_current_stream().synchronize()

    def group(self, ranks: Sequence[int]) -> NcclCommunicator:
        return NcclCommunicator(self._world, self._nccl, tuple(ranks))

    def close(self) -> None:
        self._start_sends()
        cupy.cuda.Device().synchronize()
        if not self._is_in_graphs:
            self._comm.destroy()

    def _abort(self) -> None:
        """Let kernels end that wait for a process that is lost; their results mean nothing.

        The next call raises an error, and the processes that are left make another communicator.
        NCCL may wait until the last graph with calls of this one is deleted, so a thread aborts it.
        """
        threading.Thread(target=self._comm.abort, name="tapegrad-abort", daemon=True).start()

    def _start_sends(self, received: tuple[Any, int] | None = None) -> None:
        """Start the sends that were delayed, together with what is received from a rank."""
        sends, self._sends = self._sends, []
        if not sends and received is None:
            return
        with self._together():
            for given, to in sends:
                self._comm.send(_at(given), given.nbytes, self._bytes, to, _stream())
            if received is not None:
                result, source = received
                self._comm.recv(_at(result), result.nbytes, self._bytes, source, _stream())

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Start the sends and receives of the block at once."""
        self._nccl.groupStart()
        try:
            yield
        finally:
            self._nccl.groupEnd()

    @contextmanager
    def _call(self, call: str, x: Any) -> Iterator[None]:
        """Let the processes compare their calls; raise if one of them has failed.

        A call in a graph is compared whenever the graph is launched.
        """
        text = None if self._is_group else f"{call} {x.dtype.name}{list(x.shape)}"
        at_each_launch(lambda: self._say(text))
        if not STATE["capturing"]:
            yield
            return
        if not self._is_in_graphs:
            self._is_in_graphs = True
            # Never destroyed: NCCL would wait until the last of the graphs is deleted.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._comm))
        try:
            yield
        except self._nccl.NcclError as error:
            raise NotImplementedError(f"NCCL could not capture {call}: {error}") from error

    def _say(self, call: str | None) -> None:
        self._start_sends()
        self._peers.begin(call)
        self._peers.end()
        try:
            self._comm.check_async_error()
        except self._nccl.NcclError as error:
            raise AbortedError(f"NCCL has failed in an earlier call: {error}") from error

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


def _event(stream: Any) -> Any:
    """Return an event at the end of what a stream has to do now."""
    return stream.record(cupy.cuda.Event(disable_timing=True))


def _stream() -> int:
    pointer: int = cupy.cuda.get_current_stream().ptr
    return pointer
