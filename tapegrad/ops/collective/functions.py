"""Collective functions: sums, gathers and exchanges among all processes of a world."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.world import current_world
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.collective.primitives import (
    all_gather_p,
    all_reduce_p,
    all_to_all_p,
    broadcast_from_p,
    extreme_p,
    recv_p,
    reduce_scatter_p,
    send_p,
)
from tapegrad.ops.shape.functions import moveaxis
from tapegrad.ops.shape.primitives import reshape_p

OPS = ("sum", "mean", "max", "min")


def all_reduce(x: Any, op: str = "sum") -> Any:
    """Return the sum, mean, maximum or minimum of a tensor over all processes.

    All processes call it with tensors of one shape and dtype, and all get the result. The gradient
    is that of the sum of the targets of all processes, which all have to compute it.

    >>> all_reduce([1.0, 2.0], "mean").tolist()  # of one process
    [1.0, 2.0]
    """
    x = as_operand(x)
    if op not in OPS:
        raise ArgumentError(f"op must be 'sum', 'mean', 'max' or 'min'. Got {op!r}.")
    if op in ("max", "min"):
        return extreme_p(x, op=op)
    total = all_reduce_p(x)
    return total / current_world().size if op == "mean" else total


def reduce_scatter(x: Any, axis: int = 0) -> Any:
    """Return one part of the sum of a tensor over all processes.

    The axis is cut into as many parts as there are processes, and each gets the part of its rank.

    >>> reduce_scatter([1.0, 2.0]).tolist()  # of one process
    [1.0, 2.0]
    """
    x = as_operand(x)
    axis = normalize_axis(axis, len(x.shape), "reduce_scatter")
    return moveaxis(reduce_scatter_p(_rows(x, axis, "reduce_scatter")), 0, axis)


def all_gather(x: Any, axis: int = 0) -> Any:
    """Return the tensors of all processes, joined along an axis in the order of ranks.

    >>> all_gather([1.0, 2.0]).tolist()  # of one process
    [1.0, 2.0]
    """
    x = as_operand(x)
    axis = normalize_axis(axis, len(x.shape), "all_gather")
    return _joined(all_gather_p(moveaxis(x, axis, 0)), axis)


def broadcast(x: Any, root: int = 0) -> Any:
    """Return the tensor of the process with rank `root`; the others give its shape and dtype.

    >>> broadcast([1.0, 2.0]).tolist()  # of one process
    [1.0, 2.0]
    """
    return broadcast_from_p(as_operand(x), root=_checked_rank(root, "root"))


def all_to_all(x: Any, split_axis: int = 0, concat_axis: int = 0) -> Any:
    """Cut a tensor into one part per process, exchange the parts, and join what arrives.

    Part `i` goes to process `i`. What comes from process `i` is part `i` of the result.

    >>> all_to_all([1.0, 2.0]).tolist()  # of one process
    [1.0, 2.0]
    """
    x = as_operand(x)
    rank = len(x.shape)
    split = normalize_axis(split_axis, rank, "all_to_all")
    concat = normalize_axis(concat_axis, rank, "all_to_all")
    rows = all_to_all_p(_rows(x, split, "all_to_all"))  # axes: process, part, others
    return _joined(moveaxis(moveaxis(rows, 1, split + 1), concat + 1, 1), concat)


def send(x: Any, to: int) -> Any:
    """Send a tensor to the process with rank `to`, which calls `recv`; return a receipt.

    The receipt is a zero. To get the gradient that the receiver sends back, add it to the target.

    >>> receipt = send([1.0, 2.0], to=0)  # one process can only send to itself
    >>> recv([0.0, 0.0], source=0).tolist()
    [1.0, 2.0]
    """
    return send_p(as_operand(x), to=_checked_rank(to, "to"))


def recv(like: Any, source: int) -> Any:
    """Return the tensor that the process with rank `source` sends.

    `like` is a tensor of its shape and dtype. A tape sends the gradient back to the sender if it
    watches `like`.

    >>> receipt = send([1.0, 2.0], to=0)  # one process can only send to itself
    >>> recv([0.0, 0.0], source=0).tolist()
    [1.0, 2.0]
    """
    return recv_p(as_operand(like), source=_checked_rank(source, "source"))


def _checked_rank(rank: Any, name: str) -> int:
    size = current_world().size
    if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < size:
        raise ArgumentError(
            f"{name} must be the rank of a process, from 0 to {size - 1}. Got {rank!r}."
        )
    return rank


def _rows(x: Any, axis: int, what: str) -> Any:
    """Return a tensor with one row per process: the parts of `x` along an axis, which is moved."""
    size = current_world().size
    x = moveaxis(x, axis, 0)
    length, *others = x.shape
    if length % size:
        raise ShapeError(
            f"{what} cuts axis {axis} into {size} equal parts, one per process. "
            f"It has length {length}, which {size} does not divide."
        )
    return reshape_p(x, shape=(size, length // size, *others))


def _joined(rows: Any, axis: int) -> Any:
    """Return the rows of all processes, each with the axis first, joined along that axis."""
    count, length, *others = rows.shape
    return moveaxis(reshape_p(rows, shape=(count * length, *others)), 0, axis)
