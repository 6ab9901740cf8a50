"""Collective calls on NumPy arrays through MPI (mpi4py).

Each call is non-blocking and is tested until it is done. A process that waits for another one can
therefore still be stopped by the control channel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad.core.backend.communication import Peers, World
from tapegrad.errors import BackendUnavailableError, DTypeError

SPINS = 50
"""How often a request is tested before the process sleeps between two tests."""

LONGEST_NAP = 2e-4
"""The most seconds between two tests of a request."""

WIDER = {"float16": np.float32, "bfloat16": np.float32}
"""Dtypes that MPI cannot add, and those in which it adds them instead."""


class Mpi:
    """Communication of NumPy arrays; a capability of the backend."""

    def use(self, device: str) -> None:
        """Do nothing: there is one CPU."""

    def connect(self, world: World) -> MpiCommunicator:
        mpi = _import_mpi(world)
        if world.members is None:
            return MpiCommunicator(world, mpi, mpi.COMM_WORLD.Dup())
        peers = world.peers
        assert peers is not None  # how the loss was noticed
        # They meet here first, because MPI would wait for ever for one that is lost by now.
        peers.publish(f"connects {world.rank}", "")
        for rank in range(world.size):
            peers.look_up(f"connects {rank}")
        group = mpi.COMM_WORLD.Get_group().Incl(world.members)
        return MpiCommunicator(world, mpi, mpi.COMM_WORLD.Create_group(group))


def _import_mpi(world: World) -> Any:
    """Import mpi4py, which joins the processes, and check that it has found all of them."""
    try:
        if world.is_elastic:
            import mpi4py

            mpi4py.rc.finalize = False  # it would wait for processes that are lost
        from mpi4py import MPI  # joins the processes when it is imported
    except (ImportError, RuntimeError) as error:
        raise BackendUnavailableError(
            "Arrays on the CPU are exchanged through MPI, which needs mpi4py and an MPI library. "
            f"Run: pip install mpi4py mpich. The import failed with: {error}"
        ) from error
    found = MPI.COMM_WORLD.Get_size()
    if found != world.size and world.members is None:
        library = MPI.Get_library_version().split("\n")[0].strip()
        raise BackendUnavailableError(
            f"There are {world.size} processes, but MPI ({library}) has found {found}. "
            f"Start them with its own launcher: mpiexec -n {world.size} python train.py; or "
            "install mpich, which needs none."
        )
    return MPI


@dataclass(frozen=True)
class _Started:
    """A call that goes on while this process computes."""

    call: str
    request: Any
    given: np.ndarray
    result: np.ndarray
    """What MPI writes, perhaps in another dtype."""
    target: np.ndarray


class MpiCommunicator:
    """Collective calls of all processes of a world, or of a group of them."""

    def __init__(self, world: World, mpi: Any, comm: Any, is_group: bool = False) -> None:
        self._mpi = mpi
        self._world = world
        self._comm = comm
        self._is_group = is_group
        self._ops = {"sum": mpi.SUM, "max": mpi.MAX, "min": mpi.MIN}
        self._abandoned: list[Any] = []
        """Buffers of calls that did not end: MPI may still write to them."""
        self._started: dict[int, _Started] = {}
        """Calls for which this process has not waited yet, by the addresses of their results."""

    def all_reduce(self, x: Any, op: str) -> Any:
        return self.wait(self.start_all_reduce(x, op))

    def reduce_scatter(self, x: Any) -> Any:
        return self.wait(self.start_reduce_scatter(x))

    def all_gather(self, x: Any) -> Any:
        return self.wait(self.start_all_gather(x))

    def start_all_reduce(self, x: Any, op: str, over: bool = False) -> Any:
        given = _to_reduce(x, op)
        # In place if nothing else reads the memory.
        is_free = (over and x.flags.writeable) or not np.may_share_memory(given, x)
        result = given if is_free else np.empty_like(given)
        sent = self._mpi.IN_PLACE if is_free else given

        def post() -> Any:
            return self._comm.Iallreduce(sent, result, self._ops[op])

        return self._start(f"all_reduce({op})", x, post, given, result)

    def start_reduce_scatter(self, x: Any) -> Any:
        given = _to_reduce(x, "sum")
        result = np.empty(given.shape[1:], given.dtype)

        def post() -> Any:
            return self._comm.Ireduce_scatter_block(given, result, self._mpi.SUM)

        return self._start("reduce_scatter", x, post, given, result)

    def start_all_gather(self, x: Any) -> Any:
        given = _contiguous(x)
        result = np.empty((self._comm.Get_size(), *given.shape), given.dtype)

        def post() -> Any:
            return self._comm.Iallgather(_bytes(given), _bytes(result))

        return self._start("all_gather", x, post, given, result)

    def wait(self, result: Any) -> Any:
        started = self._started.pop(_at(result), None)
        if started is None:
            return result
        self._finish(
            started.call, None, [started.request], started.given, started.result, is_new=False
        )
        if started.target is not started.result:
            started.target[...] = started.result
        return result

    def _start(
        self, call: str, x: Any, post: Callable[[], Any], given: np.ndarray, result: np.ndarray
    ) -> np.ndarray:
        """Post a request; return the array that has its result, in the dtype of `x`, at the end."""
        call += _described(x)
        self._note(call)
        for started in self._started.values():
            started.request.Test()  # MPI goes on with calls only while it is called
        target = result if given.dtype == x.dtype else np.empty(result.shape, x.dtype)
        self._started[_at(target)] = _Started(call, post(), given, result, target)
        return target

    def broadcast(self, x: Any, root: int) -> Any:
        result = np.array(x, order="C", copy=True)
        request = self._comm.Ibcast(_bytes(result), root)
        self._finish(f"broadcast(from {root})", x, [request], result)
        return result

    def all_to_all(self, x: Any) -> Any:
        given = _contiguous(x)
        result = np.empty_like(given)
        request = self._comm.Ialltoall(_bytes(given), _bytes(result))
        self._finish("all_to_all", x, [request], given, result)
        return result

    def send(self, x: Any, to: int) -> None:
        given = np.array(x, order="C", copy=True)
        # Not waited for: the receiver may first send something to this process.
        self._abandoned = [held for held in self._abandoned if not held[0].Test()]
        self._abandoned.append((self._comm.Isend(_bytes(given), to), given))

    def recv(self, like: Any, source: int) -> Any:
        result = np.empty(like.shape, like.dtype)
        self._finish(None, like, [self._comm.Irecv(_bytes(result), source)], result)
        return result

    def barrier(self) -> None:
        self._finish("barrier", None, [self._comm.Ibarrier()])

    def group(self, ranks: Sequence[int]) -> MpiCommunicator:
        members = self._comm.Get_group().Incl(ranks)
        return MpiCommunicator(self._world, self._mpi, self._comm.Create_group(members), True)

    def close(self) -> None:
        self._comm.Free()
        if self._is_group or self._world.members is not None:
            return
        # Now, because the control channel, which MPI may need for it, ends with the interpreter.
        self._mpi.Finalize()

    def _note(self, call: str) -> None:
        """Let the processes compare a call for which this one does not wait yet."""
        peers: Peers = self._world.peers  # type: ignore[assignment]  # worlds of several have it
        peers.begin(None if self._is_group else call)
        peers.end()

    def _finish(
        self,
        call: str | None,
        x: Any,
        requests: Sequence[Any],
        *buffers: Any,
        is_new: bool = True,
    ) -> None:
        """Wait until requests are done, or raise if a process fails meanwhile.

        Calls of all processes have a name, so that the processes can compare them. Those of a group
        have none.
        """
        peers: Peers = self._world.peers  # type: ignore[assignment]  # worlds of several have it
        is_compared = call is not None and not self._is_group
        peers.begin(f"{call}{_described(x)}" if is_compared else None, is_new)
        tests, nap = 0, 2e-5
        try:
            while not self._mpi.Request.Testall(requests):
                tests += 1
                if tests > SPINS:
                    peers.poll()
                    time.sleep(nap)
                    nap = min(2 * nap, LONGEST_NAP)
        except BaseException:
            self._abandoned.extend((request, buffers) for request in requests)
            raise
        finally:
            peers.end()


def _contiguous(x: Any) -> np.ndarray:
    """Return an array in C order; unlike `ascontiguousarray`, this keeps arrays without axes."""
    return np.asarray(x, order="C")


def _at(array: np.ndarray) -> int:
    """Return the address of the first element of an array."""
    address: int = array.__array_interface__["data"][0]
    return address


def _bytes(array: np.ndarray) -> np.ndarray:
    """Return the memory of an array, for calls that only move it."""
    return array.reshape(-1).view(np.uint8)


def _to_reduce(x: Any, op: str) -> np.ndarray:
    """Return an array of a dtype that MPI can add or compare."""
    name, kind = x.dtype.name, x.dtype.kind
    if name in WIDER:
        return np.asarray(x, order="C").astype(WIDER[name])
    if kind == "b" and op != "sum":
        return _contiguous(x).astype(np.uint8)
    if kind not in ("iufc" if op == "sum" else "iuf"):
        raise DTypeError(f"all_reduce cannot compute the {op} of {name} arrays. Cast them first.")
    return _contiguous(x)


def _described(x: Any) -> str:
    return "" if x is None else f" {x.dtype.name}{list(x.shape)}"
