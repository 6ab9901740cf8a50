"""Variables with the same values in all processes, and values of different sizes joined."""

from __future__ import annotations

import gc
import itertools
import json
import secrets
from collections.abc import Sequence
from typing import Any

from tapegrad.core.backend.communication import Peers
from tapegrad.core.values.variable import Variable, live_variables
from tapegrad.core.world import current_world
from tapegrad.errors import ArgumentError
from tapegrad.ops.collective.functions import all_gather, broadcast
from tapegrad.ops.creation import constant
from tapegrad.ops.random.generator import seed_if_unused
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.padding import pad
from tapegrad.program.record.recording import current_recording


class Mirrored:
    """The variables of a strategy, which are the same on all replicas."""

    def __init__(self) -> None:
        self._last = max((variable.number for variable in live_variables()), default=0)
        # All processes shuffle data and initialize weights in the same way.
        seed_if_unused(int(self_and_others(str(secrets.randbits(31)))[0]))

    def update(self, always: bool) -> None:
        """Compare the variables that were made since the last call, and equalize their values.

        Unless it is done `always`, a process without new variables assumes that there are none.
        """
        if current_recording() is not None:
            return
        new = self._new_variables()
        if new and not current_world().is_alone:
            gc.collect()  # models that one process has dropped earlier than another one
            new = self._new_variables()
        if not new and not always:
            return
        equalize_models(new)
        if new:
            self._last = new[-1].number

    def _new_variables(self) -> list[Variable]:
        return [variable for variable in live_variables() if variable.number > self._last]


def equalize_models(variables: Sequence[Variable]) -> None:
    """Compare the variables of all processes, and give all of them the values of rank 0."""
    if current_world().is_alone:
        return
    described = self_and_others(json.dumps([_described(variable) for variable in variables]))
    _compare([json.loads(text) for text in described])
    for variable in variables:
        if variable.dtype.is_floating:
            variable.assign(broadcast(variable))


def self_and_others(text: str) -> list[str]:
    """Return the texts of all processes, through the control channel."""
    world = current_world()
    peers: Peers = world.peers  # type: ignore[assignment]  # worlds of several have it
    number = next(world.rounds)
    peers.publish(f"text {number} of {world.rank}", text)
    return [peers.look_up(f"text {number} of {rank}") for rank in range(world.size)]


def _described(variable: Variable) -> str:
    return f"{variable.name} {variable.dtype.name}{list(variable.shape)}"


def _compare(described: Sequence[Sequence[str]]) -> None:
    """Raise an error that names the first variable in which processes differ."""
    first = described[0]
    for rank, other in enumerate(described):
        for place, (here, there) in enumerate(itertools.zip_longest(first, other)):
            if here != there:
                raise ArgumentError(
                    f"The processes have made different variables. "
                    f"Variable {place} of rank 0 is {here or 'missing'}, that of rank {rank} is "
                    f"{there or 'missing'}. All processes must make the same model."
                )


def gather_uneven(x: Any, axis: int) -> Any:
    """Return the tensors of all processes joined along an axis, in which their sizes may differ."""
    if current_recording() is not None:
        return all_gather(x, axis)  # a program has fixed shapes
    sizes = [int(size) for size in all_gather(constant([x.shape[axis]])).tolist()]
    longest = max(sizes)
    if min(sizes) == longest:
        return all_gather(x, axis)
    axis %= len(x.shape)
    missing = [[0, longest - size if i == axis else 0] for i, size in enumerate(x.shape)]
    padded = all_gather(pad(x, missing), axis)
    parts = [
        padded[(*[slice(None)] * axis, slice(i * longest, i * longest + size))]
        for i, size in enumerate(sizes)
    ]
    return concat(parts, axis)
