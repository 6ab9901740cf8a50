"""The optional part of a backend that exchanges arrays with other processes.

A *world* is a set of processes that run the same program. Each has a number, its rank. A backend
that implements `Communication` makes one communicator per world, such as one on MPI or NCCL.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tapegrad.errors import ArgumentError

Array = Any
"""A raw array of some backend."""


class Peers(Protocol):
    """What a communicator knows about the other processes besides their arrays."""

    def begin(self, call: str | None, is_new: bool = True) -> None:
        """Note that this process starts to wait in a call, such as "all_reduce(sum) float32[3]".

        The call is None if only two processes make it. The others make all equal calls in the same
        order. One that is not new has been noted when it started.
        """

    def poll(self) -> None:
        """Raise an error if a process has failed, or if the present call has waited too long."""

    def end(self) -> None:
        """Note that the call has ended."""

    def publish(self, key: str, value: str) -> None:
        """Store a short text, such as the identifier of a communicator, for all processes."""

    def look_up(self, key: str) -> str:
        """Return a text that some process publishes; wait for it."""

    def on_loss(self, call: Callable[[], None]) -> None:
        """Call a function in another thread, once, when an elastic world loses a process.

        It lets calls of this process end that wait for the lost one.
        """


@dataclass(frozen=True)
class World:
    """The processes that run one program, as seen by one of them."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """The number of this process among those of its machine, which selects its device."""
    local_size: int = 1
    peers: Peers | None = None
    is_elastic: bool = False
    """Whether the other processes go on if some are lost."""
    members: tuple[int, ...] | None = None
    """The ranks that the processes had at first, if some have been lost since."""
    calls_alone: bool = False
    """Whether one process that is alone also calls MPI or NCCL, e.g. to check them."""
    rounds: Iterator[int] = field(default_factory=itertools.count, compare=False)
    """Numbers of what all processes do in the same order."""

    @property
    def is_alone(self) -> bool:
        """Whether collective calls return their operands without a library."""
        return self.size == 1 and not self.calls_alone


class Communicator(Protocol):
    """Collective calls on raw arrays. All processes make the same calls in the same order.

    Operands are not changed. Results may be the operand itself if nothing differs.
    """

    def all_reduce(self, x: Array, op: str) -> Array:
        """Return the sum, maximum or minimum ("sum", "max", "min") of the operands."""

    def start_all_reduce(self, x: Array, op: str, over: bool = False) -> Array:
        """Start an `all_reduce`; return the array in which `wait` will find the result.

        With `over`, this may be the operand, which is then overwritten.
        """

    def start_reduce_scatter(self, x: Array) -> Array:
        """Start a `reduce_scatter`; `wait` finds the result in the array that is returned."""

    def start_all_gather(self, x: Array) -> Array:
        """Start an `all_gather`; `wait` finds the result in the array that is returned."""

    def wait(self, result: Array) -> Array:
        """Return the result of a call that was started, as soon as it is there.

        It is the array that the call returned, or a view that begins where that array does.
        """

    def reduce_scatter(self, x: Array) -> Array:
        """Return the sum over all processes of row `rank` of the operand, which has `size` rows."""

    def all_gather(self, x: Array) -> Array:
        """Return an array whose row `i` is the operand of process `i`."""

    def broadcast(self, x: Array, root: int) -> Array:
        """Return the operand of process `root`."""

    def all_to_all(self, x: Array) -> Array:
        """Return an array whose row `i` is row `rank` of the operand of process `i`."""

    def send(self, x: Array, to: int) -> None:
        """Send an array to a process that calls `recv`."""

    def recv(self, like: Array, source: int) -> Array:
        """Return the array that a process sends; it has the shape and dtype of `like`."""

    def barrier(self) -> None:
        """Wait until all processes have called it."""

    def group(self, ranks: Sequence[int]) -> Communicator:
        """Return a communicator of some of the processes, which all call this; it has this one."""

    def close(self) -> None:
        """Release the communicator at the end of all processes."""


class Communication(Protocol):
    """Makes communicators for the arrays of a backend."""

    def use(self, device: str) -> None:
        """Compute on a device from now on in this thread; each process of a machine has another."""

    def connect(self, world: World) -> Communicator:
        """Return the communicator of a world of several processes. All of them call it."""


class Alone:
    """The communicator of one process, for arrays of any backend; it needs no library."""

    def __init__(self) -> None:
        self._sent: list[Array] = []

    def all_reduce(self, x: Array, op: str) -> Array:
        return x

    def start_all_reduce(self, x: Array, op: str, over: bool = False) -> Array:
        return x

    def start_reduce_scatter(self, x: Array) -> Array:
        return x[0, ...]

    def start_all_gather(self, x: Array) -> Array:
        return x[None, ...]

    def wait(self, result: Array) -> Array:
        return result

    def reduce_scatter(self, x: Array) -> Array:
        return x[0, ...]

    def all_gather(self, x: Array) -> Array:
        return x[None, ...]

    def broadcast(self, x: Array, root: int) -> Array:
        return x

    def all_to_all(self, x: Array) -> Array:
        return x

    def send(self, x: Array, to: int) -> None:
        self._sent.append(x)

    def recv(self, like: Array, source: int) -> Array:
        if not self._sent:
            raise ArgumentError("recv needs an earlier send: this process has sent itself nothing.")
        return self._sent.pop(0)

    def barrier(self) -> None:
        """Return at once: there is no other process."""

    def group(self, ranks: Sequence[int]) -> Communicator:
        return self

    def close(self) -> None:
        """Do nothing: nothing is held."""
