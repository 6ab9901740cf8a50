"""Primitives in which all processes of a world take part, with their transposes.

Together the processes compute one function, from all operands to all results. The rules are those
of this function: what process `i` gets as its gradient is the derivative of the sum of the targets
of all processes. So the transpose of a sum is the sum of the cotangents, and every process has to
compute the gradient.

The calls have effects: a recorded program keeps all of them in their order, because a process that
leaves one out would make the others wait.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import linear
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.world import current_world
from tapegrad.ops.casting.cast import cast_like
from tapegrad.ops.collective.rehearsal import Collective, communicator_for
from tapegrad.ops.collective.started import start_sum, start_sum_over, starts
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.comparison import equal
from tapegrad.ops.shape.functions import swapaxes
from tapegrad.ops.shape.primitives import broadcast_p


def _all_reduce(xp: Any, x: Any, *, op: str = "sum") -> Any:
    return communicator_for(xp, x).all_reduce(x, op)


def _reduce_scatter(xp: Any, x: Any) -> Any:
    return communicator_for(xp, x).reduce_scatter(x)


def _all_gather(xp: Any, x: Any) -> Any:
    return communicator_for(xp, x).all_gather(x)


def _start_reduce_scatter(xp: Any, x: Any) -> Any:
    return communicator_for(xp, x).start_reduce_scatter(x)


def _start_all_gather(xp: Any, x: Any) -> Any:
    return communicator_for(xp, x).start_all_gather(x)


def _all_to_all(xp: Any, x: Any) -> Any:
    return communicator_for(xp, x).all_to_all(x)


def _broadcast(xp: Any, x: Any, *, root: int) -> Any:
    return communicator_for(xp, x).broadcast(x, root)


def _send(xp: Any, x: Any, *, to: int) -> Any:
    communicator_for(xp, x).send(x, to)
    return xp.zeros((), dtype=x.dtype, device=x.device)


def _recv(xp: Any, x: Any, *, source: int) -> Any:
    return communicator_for(xp, x).recv(x, source)


def _gathered_at(t: Any, *, root: int) -> Any:
    """Return the sum of all cotangents at `root`, and zeros elsewhere."""
    total = all_reduce_p(t)
    return total if current_world().rank == root else zeros_like(total)


def _return_to(t: Any, *, source: int) -> Any:
    """Send the cotangent of a received array back; the array `like` has no influence."""
    return zeros_like(t) + send_p(t, to=source)


def _second_axis(primitive: Primitive) -> Any:
    """Return the batching rule of a primitive whose operand has one row per process."""

    def batch(size: int, batched: Any, x: Any) -> Any:
        return swapaxes(primitive(swapaxes(x, 0, 1)), 0, 1)

    return batch


all_reduce_p: Primitive = linear(
    "all_reduce",
    _all_reduce,
    transpose=lambda t: all_reduce_p(t),
    batch=lambda size, batched, x: all_reduce_p(x),
    kind=Collective,
)
reduce_scatter_p: Primitive = linear(
    "reduce_scatter",
    _reduce_scatter,
    transpose=lambda t: all_gather_p(t),
    batch=lambda size, batched, x: reduce_scatter_p(swapaxes(x, 0, 1)),
    kind=Collective,
)
all_gather_p: Primitive = linear(
    "all_gather",
    _all_gather,
    transpose=lambda t: reduce_scatter_p(t),
    batch=lambda size, batched, x: swapaxes(all_gather_p(x), 0, 1),
    kind=Collective,
)
all_to_all_p: Primitive = linear(
    "all_to_all", _all_to_all, transpose=lambda t: all_to_all_p(t), kind=Collective
)
all_to_all_p.batch_rule = _second_axis(all_to_all_p)
broadcast_from_p: Primitive = linear(
    "broadcast_from",
    _broadcast,
    transpose=_gathered_at,
    batch=lambda size, batched, x, *, root: broadcast_from_p(x, root=root),
    selects=True,
    kind=Collective,
)
recv_p: Primitive = linear(
    "recv",
    _recv,
    transpose=_return_to,
    batch=lambda size, batched, x, *, source: recv_p(x, source=source),
    selects=True,
    kind=Collective,
)
send_p = Collective("send", _send)
"""Returns a receipt, a zero, whose gradient is what the receiver sends back."""
send_p.needs_host = recv_p.needs_host = True  # a send may wait on the host for the next call


start_all_reduce_p = starts("start_all_reduce", all_reduce_p, start_sum)
start_all_reduce_p.overwriting = start_sum_over
start_reduce_scatter_p = starts("start_reduce_scatter", reduce_scatter_p, _start_reduce_scatter)
start_all_gather_p = starts("start_all_gather", all_gather_p, _start_all_gather)


def _receive_back(t: Any, x_shape: Any, *, to: int) -> Any:
    # An array made of `t`: higher derivatives go back to the receiver through it.
    return recv_p(broadcast_p(t, shape=tuple(x_shape)), source=to)


send_p.vjps(_receive_back)
send_p.jvps(lambda t, *, to: send_p(t, to=to))


@send_p.batch
def _send_batch(size: int, batched: Any, x: Any, *, to: int) -> Any:
    return broadcast_p(send_p(x, to=to), shape=(size,))


extreme_p = Collective("all_reduce_extreme", _all_reduce)
"""The maximum or minimum over all processes. Processes with equal values share the gradient."""


def _share(x: Any, y: Any) -> Any:
    """Return 1 / k for each element where this is one of k processes that have the extreme."""
    has_it = cast_like(equal(x, y), y.dtype)
    return has_it / all_reduce_p(has_it)


extreme_p.vjps(lambda t, x, y: all_reduce_p(t) * _share(x, y))
extreme_p.jvps(lambda t, x, y: all_reduce_p(t * _share(x, y)))
extreme_p.batch(lambda size, batched, x, *, op: extreme_p(x, op=op))
