"""The world of this process: its rank, the number of processes, and their communicators.

A process is alone until `tapegrad.distribute.init` enters a larger world.
"""

from __future__ import annotations

from tapegrad.core.backend.communication import Alone, Communicator, World
from tapegrad.core.backend.registry import capabilities_of, find_backend
from tapegrad.errors import ArgumentTypeError


class _State:
    """The world, and its communicators by the name of their backend."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.alone = Alone()
        self.communicators: dict[str, Communicator] = {}


_state = _State(World())


def current_world() -> World:
    """Return the world of this process.

    >>> current_world().size
    1
    """
    return _state.world


def enter_world(world: World) -> None:
    """Let collective calls reach the processes of `world`."""
    global _state
    _state = _State(world)


def communicator_of(array_type: type) -> Communicator:
    """Return the communicator for arrays of a type; the first call of a larger world makes it.

    >>> import numpy as np
    >>> type(communicator_of(np.ndarray)).__name__
    'Alone'
    """
    state = _state
    if state.world.size == 1:
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


def close_communicators() -> None:
    """Release the communicators at the end of all processes."""
    while _state.communicators:
        _state.communicators.popitem()[1].close()
