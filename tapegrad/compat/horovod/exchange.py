"""Horovod's collective functions and its compression."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.world import current_world
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.collective import functions as collective
from tapegrad.ops.creation import constant

Average, Sum, Min, Max = "mean", "sum", "min", "max"
"""The operations of `allreduce`."""


class NoCompression:
    """Exchange tensors as they are.

    >>> NoCompression.compress(constant(1.0))[0].dtype.name
    'float32'
    """

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to exchange, and what `decompress` needs."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """Return the tensor after the exchange."""
        return tensor


class Float16Compression:
    """Exchange floating tensors in half precision.

    >>> Float16Compression.compress(constant(1.0))[0].dtype.name
    'float16'
    """

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to exchange, and its dtype."""
        floating = tensor.dtype.is_floating
        return (cast(tensor, "float16") if floating else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, context: Any) -> Any:
        """Return the tensor in its own dtype."""
        return cast(tensor, context)


class Compression:
    """The compressions that can be chosen.

    >>> Compression.none is NoCompression
    True
    """

    none = NoCompression
    fp16 = Float16Compression


def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: Any = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
) -> Any:
    """Return the mean of a tensor over all processes, or what `op` says.

    >>> allreduce([1.0, 2.0]).tolist()  # of one process
    [1.0, 2.0]
    """
    if op is not None and average is not None:
        raise ArgumentError("allreduce takes either average or op, not both.")
    op = (Sum if average is False else Average) if op is None else op
    x, context = compression.compress(as_operand(tensor))
    x = x if prescale_factor == 1 else x * prescale_factor
    found = compression.decompress(collective.all_reduce(x, op), context)
    return found if postscale_factor == 1 else found * postscale_factor


def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: Any = None,
) -> list[Any]:
    """Return the means of several tensors over all processes, or what `op` says.

    >>> [one.tolist() for one in grouped_allreduce([1.0, [2.0]])]  # of one process
    [1.0, [2.0]]
    """
    return [allreduce(one, average, compression=compression, op=op) for one in tensors]


def allgather(tensor: Any, name: str | None = None) -> Any:
    """Return the tensors of all processes, joined along the first axis.

    >>> allgather([1.0, 2.0]).tolist()  # of one process
    [1.0, 2.0]
    """
    return collective.all_gather(tensor)


def alltoall(tensor: Any, splits: Any = None, name: str | None = None) -> Any:
    """Send equal parts of the first axis to all processes, and join what arrives.

    >>> alltoall([1.0, 2.0]).tolist()  # of one process
    [1.0, 2.0]
    """
    if splits is not None:
        raise ArgumentError("alltoall sends equal parts: splits must be None.")
    return collective.all_to_all(tensor)


def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> Any:
    """Return the tensor of the process with rank `root_rank`.

    >>> float(broadcast(3.0, root_rank=0))
    3.0
    """
    return collective.broadcast(tensor, root_rank)


def broadcast_variables(variables: Iterable[Any], root_rank: int) -> None:
    """Give variables the values that they have in the process with rank `root_rank`.

    >>> import tapegrad
    >>> broadcast_variables([tapegrad.Variable(1.0)], root_rank=0)
    """
    for variable in variables:
        variable.assign(collective.broadcast(variable, root_rank))


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """Return the Python object of the process with rank `root_rank`, through `pickle`.

    >>> broadcast_object({"epoch": 3})
    {'epoch': 3}
    """
    world = current_world()
    data = pickle.dumps(obj) if world.rank == root_rank else b""
    size = int(collective.broadcast(constant(np.array(len(data), np.int64)), root_rank))
    given = np.frombuffer(data, np.uint8) if data else np.zeros(size, np.uint8)
    return pickle.loads(collective.broadcast(constant(given), root_rank).numpy().tobytes())


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Return the Python objects of all processes, in the order of ranks.

    >>> allgather_object({"epoch": 3})
    [{'epoch': 3}]
    """
    return [broadcast_object(obj, root) for root in range(current_world().size)]
