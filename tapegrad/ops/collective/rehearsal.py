"""Collective calls while a function is recorded: right shapes, and no communication.

Processes may record at different calls, e.g. because their batches have different sizes. They
therefore communicate only when programs run. The first call of a function with collective calls
returns the result of its program, not that of the recording.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.backend.communication import Alone, Communicator
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.world import Group, current_world, group_communicator, rank_in, size_of
from tapegrad.ops.control.loops import active_recording, is_recording


class Rehearsal(Alone):
    """A communicator that assumes that all processes have the operand of this one."""

    def __init__(self, xp: Any, group: Group) -> None:
        super().__init__()
        self._xp, self._group = xp, group

    def all_reduce(self, x: Any, op: str) -> Any:
        return self._new(x)

    def reduce_scatter(self, x: Any) -> Any:
        return self._new(x[rank_in(self._group), ...])

    def all_gather(self, x: Any) -> Any:
        return self._xp.stack([x] * size_of(self._group))

    def recv(self, like: Any, source: int) -> Any:
        return like

    def _new(self, x: Any) -> Any:
        """Return a copy, so that programs know that a result shares no memory with the operand.

        In a group of one process it does.
        """
        is_shared = self._group is not None and size_of(self._group) == 1
        return x if is_shared else self._xp.asarray(x, copy=True)


def communicator_for(xp: Any, x: Any, group: Group = None) -> Communicator:
    """Return the communicator for an array; inside a recording, one that does nothing."""
    if not current_world().is_alone and is_recording():
        return Rehearsal(xp, group)
    return group_communicator(type(x), group)


class Collective(Primitive):
    """A primitive in which all processes take part.

    A recorded function contains all of its calls. Operations on constants are usually computed
    while a function is recorded, but what other processes have is known only when programs run.
    """

    effects = communicates = True
    needs_host = False

    def __call__(self, *args: Any, **params: Any) -> Any:
        recording = active_recording()
        if recording is not None:
            args = tuple([_adopted(arg, recording) for arg in args])
        return super().__call__(*args, **params)


def _adopted(value: Any, recording: Any) -> Any:
    """Return a tensor or an array from outside of a recording as a constant of its program."""
    if type(value) is Tensor:
        return wrap(recording.adopted(value.array), value.node)
    return recording.adopted(value)
