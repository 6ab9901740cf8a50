"""Collective calls in two parts: one starts a call, and one waits for its result.

Compiled programs use them in place of whole calls, so that they compute while arrays travel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.world import Group
from tapegrad.ops.collective.rehearsal import Collective, communicator_for


def _wait(xp: Any, result: Any, *operands: Any, group: Group = None, **params: Any) -> Any:
    return communicator_for(xp, result, group).wait(result)


wait_p = Primitive("wait", _wait, differentiable=False)
"""The result of a call that was started.

If something else reads the operand of the call, it is given as well, so that it stays as it is.
"""


def starts(name: str, whole: Primitive, forward: Callable[..., Any]) -> Collective:
    """Declare the primitive that starts the calls of another one, and return it."""
    start = Collective(name, forward, differentiable=False)
    start.part_of = whole
    whole.parts = (start, wait_p)
    return start


def start_sum(xp: Any, x: Any, *, group: Group = None, op: str = "sum") -> Any:
    """Start a sum over all processes, in new memory."""
    return communicator_for(xp, x, group).start_all_reduce(x, op)


def start_sum_over(xp: Any, x: Any, *, group: Group = None, op: str = "sum") -> Any:
    """Start a sum over all processes, in the memory of the operand."""
    return communicator_for(xp, x, group).start_all_reduce(x, op, over=True)
