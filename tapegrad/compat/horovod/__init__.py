"""Horovod's interface for TensorFlow and Keras: only the import line changes.

    import tapegrad.compat.horovod as hvd

Start the program with `tapegrad run -n 4 train.py` or `mpiexec`. `horovodrun` is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.compat.horovod import callbacks
from tapegrad.compat.horovod.exchange import (
    Average,
    Compression,
    Max,
    Min,
    Sum,
    allgather,
    allgather_object,
    allreduce,
    alltoall,
    broadcast,
    broadcast_object,
    broadcast_variables,
    grouped_allreduce,
)
from tapegrad.compat.horovod.training import DistributedGradientTape, DistributedOptimizer
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.world import current_world
from tapegrad.distribute.process_group import barrier, init, local_rank, rank, size

__all__ = [
    "Average", "Compression", "DistributedGradientTape", "DistributedOptimizer", "Max", "Min",
    "Sum", "allgather", "allgather_object", "allreduce", "alltoall", "barrier", "broadcast",
    "broadcast_object", "broadcast_variables", "callbacks", "cross_rank", "cross_size",
    "grouped_allreduce", "init", "is_initialized", "local_rank", "local_size", "mpi_built",
    "nccl_built", "rank", "shutdown", "size",
]  # fmt: skip


def local_size() -> int:
    """Return the number of processes of this machine.

    >>> local_size()
    1
    """
    return current_world().local_size


def cross_rank() -> int:
    """Return the number of this machine, if all machines have as many processes.

    >>> cross_rank()
    0
    """
    return rank() // local_size()


def cross_size() -> int:
    """Return the number of machines, if all have as many processes.

    >>> cross_size()
    1
    """
    return size() // local_size()


def is_initialized() -> bool:
    """Return True: a process that has not called `init` is alone.

    >>> is_initialized()
    True
    """
    return True


def shutdown() -> None:
    """Do nothing: communication ends with the program.

    >>> shutdown()
    """


def mpi_built(verbose: bool = False) -> bool:
    """Return True: arrays on the CPU are exchanged through MPI.

    >>> mpi_built()
    True
    """
    return True


def nccl_built(verbose: bool = False) -> bool:
    """Return True: arrays on GPUs are exchanged through NCCL.

    >>> nccl_built()
    True
    """
    return True


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("compat.horovod", name)


_check_calls(globals(), __all__)
