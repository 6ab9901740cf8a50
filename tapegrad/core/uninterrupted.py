"""Functions whose start no signal interrupts, for the exits of `with` blocks.

CPython runs signal handlers at the start of a Python function, after calls of functions in C, and
at jumps backwards. An interrupt at the start of `__exit__` would leave the block without its exit,
and no block around it can know. The instruction `RESUME` at the start of each function looks for
signals unless its argument says that the function continues after `yield from` or `await`.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

_RESUME = dis.opmap.get("RESUME")  # other implementations of Python may lack it
_AT_START, _AFTER_YIELD_FROM = 0, 2


def starts_uninterrupted(function: Function) -> Function:
    """Let a function reach its first call in C before any signal handler runs.

    >>> @starts_uninterrupted
    ... def leave(values):
    ...     values.clear()
    >>> values = [1]
    >>> leave(values)
    >>> values
    []
    """
    inner = cast(FunctionType, function)
    code = bytearray(inner.__code__.co_code)
    for place in range(0, len(code), 2):
        if code[place] == _RESUME:
            if code[place + 1] == _AT_START:
                code[place + 1] = _AFTER_YIELD_FROM
                inner.__code__ = inner.__code__.replace(co_code=bytes(code))
            break
    return function


def is_interrupted_at_start(code: Any) -> bool:
    """Return whether signal handlers may run at the start of a function with this code."""
    steps = dis.get_instructions(code)
    arg = next((step.arg for step in steps if step.opcode == _RESUME), _AT_START)
    return arg != _AFTER_YIELD_FROM
