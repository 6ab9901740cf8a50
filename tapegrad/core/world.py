"""The world of this process: its rank, the number of processes, and their communicators.

A process is alone until `tapegrad.distribute.init` enters a larger world.
"""

from __future__ import annotations

from tapegrad.core.backend.communication import Alone, Communicator, World
from tapegrad.core.backend.registry import capabilities_of, find_backend
from tapegrad.errors import ArgumentTypeError

Group = tuple[int, ...] | None
"""The ranks of some of the processes, in order; None for all of them."""


class _State:
    """The world, and its communicators by the name of their backend."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.alone = Alone()
        self.communicators: dict[str, Communicator] = {}
        self.groups: dict[tuple[type, Group], Communicator] = {}


_state = _State(World())
_former: list[_State] = []
"""Worlds that have lost processes: libraries may still write to the buffers of their calls."""


def current_world() -> World:
    """Return the world of this process.

    >>> current_world().size
    1
    """
    return _state.world


def enter_world(world: World) -> None:
    """Let collective calls reach the processes of `world`."""
    global _state
    if world.members is not None:
        _former.append(_state)
    _state = _State(world)


def communicator_of(array_type: type) -> Communicator:
    """Return the communicator for arrays of a type; the first call of a larger world makes it.

    >>> import numpy as np
    >>> type(communicator_of(np.ndarray)).__name__
    'Alone'
    """
    state = _state
    if state.world.is_alone:
        return state.alone
    backend = find_backend(array_type)
    name = array_type.__name__ if backend is None else backend.name
    found = state.communicators.get(name)
    if found is None:
        communication = capabilities_of(array_type).communication
        if communication is None:
            raise ArgumentTypeError(
                f"Backend {name!r} cannot exchange arrays with other processes. "
                "NumPy arrays and CuPy arrays can be exchanged."
            )
        found = state.communicators[name] = communication.connect(state.world)
    return found


def group_communicator(array_type: type, group: Group) -> Communicator:
    """Return the communicator of a group that this process belongs to.

    >>> import numpy as np
    >>> type(group_communicator(np.ndarray, None)).__name__
    'Alone'
    """
    if group is None:
        return communicator_of(array_type)
    if len(group) == 1:
        return _state.alone
    groups, key = _state.groups, (array_type, group)
    if key not in groups:
        groups[key] = communicator_of(array_type).group(group)
    return groups[key]


def size_of(group: Group) -> int:
    """Return the number of processes of a group.

    >>> size_of((0, 2)), size_of(None)
    (2, 1)
    """
    return current_world().size if group is None else len(group)


def rank_in(group: Group) -> int:
    """Return the position of this process in a group.

    >>> rank_in(None)
    0
    """
    rank = current_world().rank
    return rank if group is None else group.index(rank)


def close_communicators() -> None:
    """Release the communicators at the end of all processes."""
    while _state.groups:
        _state.groups.popitem()[1].close()
    while _state.communicators:
        _state.communicators.popitem()[1].close()
