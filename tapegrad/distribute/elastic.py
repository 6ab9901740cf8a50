"""Training that goes on when processes are lost: a smaller world, and the last checkpoint."""

from __future__ import annotations

import itertools
import secrets
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tapegrad.core.world import current_world, enter_world
from tapegrad.distribute.mirrored import self_and_others
from tapegrad.errors import ArgumentError
from tapegrad.keras.naming import reset_names, used_names
from tapegrad.ops.collective.replicas import set_replicas
from tapegrad.ops.random.generator import get_global_generator, seed_if_unused


def run_elastic(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in all processes; call it again in the others if some are lost meanwhile.

    The program has called `init(elastic=True)`. The function makes the model, the optimizer and
    recorded functions, restores the last checkpoint and trains. When a process fails or hangs, the
    calls of the others are interrupted. They form a smaller world with a new `rank` and `size`, and
    call the function again, with the random state and the automatic names of layers of the first
    call. The result is that of the last call.

    >>> init_and_train = lambda steps: steps + 1
    >>> run_elastic(init_and_train, 2)  # of one process
    3
    """
    first = current_world()
    if first.size == 1:
        return fn(*args, **kwargs)
    if not first.is_elastic:
        raise ArgumentError("run_elastic needs distribute.init(elastic=True) before.")
    control: Any = first.peers
    # All processes draw alike, also after a loss.
    seed_if_unused(int(self_and_others(str(secrets.randbits(31)))[0]))
    state, names = get_global_generator().state.numpy().copy(), used_names()
    while True:
        try:
            result = fn(*args, **kwargs)
            _wait_for_all(control)
            return result
        except Exception:
            if not control.has_lost:
                raise
        _shrink(control, first.rank)
        get_global_generator().state.assign(state)
        reset_names(names)


def _wait_for_all(control: Any) -> None:
    """Wait until the function has ended in all processes: they need each other if one is lost."""
    world = current_world()
    control.publish(f"result of {world.rank}", "")
    for rank in range(world.size):
        control.look_up(f"result of {rank}")


def _shrink(control: Any, first_rank: int) -> None:
    """Enter the world of the processes that are left."""
    members = control.go_on()
    place, size = members.index(first_rank), len(members)
    rounds = itertools.count()
    enter_world(replace(current_world(), rank=place, size=size, members=members, rounds=rounds))
    set_replicas(1, None)
    if place == 0:
        sys.stderr.write(f"tapegrad: {control.loss}\ntapegrad: {size} processes go on.\n")
        sys.stderr.flush()
