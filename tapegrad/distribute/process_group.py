"""Join the processes that a launcher has started: `init`, `rank`, `size`, `local_rank`."""

from __future__ import annotations

import atexit
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from tapegrad.core.backend.communication import World
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.values.device import (
    default_device,
    device,
    list_devices,
    reset_default_device,
)
from tapegrad.core.world import close_communicators, communicator_of, current_world, enter_world
from tapegrad.distribute.environment import Address, Place, find_place
from tapegrad.errors import AbortedError, ArgumentError, BackendUnavailableError
from tapegrad.ops.creation import zeros
from tapegrad.program.record.effects import act

TIMEOUT = 600.0
"""Seconds that a process waits in a collective call before it asks who is late."""


def init(timeout: float | None = None, elastic: bool = False) -> None:
    """Join the other processes of this program; without a launcher, this process is alone.

    The ranks come from `tapegrad run`, torchrun, mpiexec, srun or TF_CONFIG. A process on a machine
    with several GPUs gets the one of its local rank. `timeout` are the seconds for which it waits
    in a collective call before the program ends with the names of the processes that are late.
    With `elastic`, the other processes go on if one fails: see `run_elastic`. Further calls do
    nothing.

    >>> init()
    >>> rank(), size()
    (0, 1)
    """
    if timeout is not None and not timeout > 0:
        raise ArgumentError(f"timeout must be a positive number of seconds. Got {timeout!r}.")
    if current_world().peers is None:
        enter(find_place(os.environ), timeout, elastic)


def enter(place: Place, timeout: float | None = None, elastic: bool = False) -> None:
    """Join the other processes as the one at a place; a process that is alone does nothing."""
    if place.size > 1:
        seconds = float(os.environ.get("TAPEGRAD_TIMEOUT", TIMEOUT)) if timeout is None else timeout
        _join(place, seconds, bool(elastic))


def rank() -> int:
    """Return the number of this process, from 0 to `size() - 1`.

    >>> rank()
    0
    """
    return current_world().rank


def size() -> int:
    """Return the number of processes.

    >>> size()
    1
    """
    return current_world().size


def local_rank() -> int:
    """Return the number of this process among those of its machine.

    >>> local_rank()
    0
    """
    return current_world().local_rank


def barrier() -> None:
    """Wait until all processes have called it; a recorded function waits on each call.

    >>> barrier()
    """
    act(_wait, [], "barrier()")


def _wait(values: Sequence[Any]) -> None:
    if current_world().is_alone:
        return
    # On the device that computes, so that processes with GPUs need no MPI.
    with device(default_device()):
        array = zeros([1]).array
    communicator_of(type(array)).barrier()


def _join(place: Place, timeout: float, is_elastic: bool) -> None:
    # A process that is alone needs no control channel.
    from tapegrad.control.hub import start_process  # imports asyncio
    from tapegrad.control.member import Control, connect  # likewise

    port = None
    if place.rank == 0 and not place.hub_is_running:
        port = start_process(place.size, place.hub[1] if place.hub else 0)
    address = place.hub or _announced(place, port)
    if not place.has_mpi:
        # MPI reads these when it is imported. The connection stays open for it.
        connection = connect(address).detach()
        os.environ.update(
            PMI_FD=str(connection), PMI_RANK=str(place.rank), PMI_SIZE=str(place.size)
        )
    control = Control(address, place.rank, timeout)
    own = place.rank, place.size, place.local_rank, place.local_size
    enter_world(World(*own, control, is_elastic))
    _choose_device(place)
    atexit.register(_leave, control)
    if is_elastic:
        barrier()  # libraries can connect only while all processes are there
        control.say_ready()


def _announced(place: Place, port: int | None) -> Address:
    """Return the address of the hub that rank 0 has started; MPI tells it to the others."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise BackendUnavailableError(
            f"A program that {place.launcher} starts needs mpi4py, which could not be imported: "
            f"{error}. Run: pip install mpi4py; or start the program with `tapegrad run` or "
            "torchrun."
        ) from error
    host, found = MPI.COMM_WORLD.bcast((socket.gethostname(), port), 0)
    return ("127.0.0.1" if host == socket.gethostname() else host), found


def _choose_device(place: Place) -> None:
    """Let each process of a machine use another GPU by default, unless the user has chosen one."""
    gpu = f"cuda:{place.local_rank}"
    if "TAPEGRAD_DEVICE" not in os.environ and gpu in list_devices():
        os.environ["TAPEGRAD_DEVICE"] = gpu
        reset_default_device()
    chosen = default_device()
    with device(chosen):
        communication = capabilities_of(type(zeros([1]).array)).communication
    if communication is not None:
        communication.use(chosen)


def _leave(control: Any) -> None:
    """End communication at the exit of the process, which waits for the others."""
    from tapegrad.control.member import ProcessLostError  # imports asyncio

    if not control.has_failed:
        try:
            control.wait_for_end()
            close_communicators()
        except ProcessLostError:
            pass  # the others end alike
        except AbortedError as error:
            sys.stderr.write(f"tapegrad: {error}\n")
    control.leave()
    enter_world(World())
