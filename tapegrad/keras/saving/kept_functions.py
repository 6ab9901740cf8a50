"""Functions without a name that a file could refer to: files hold a number for them, and no code.

The functions are kept in this process, so that a model that was saved here can be loaded here.
"""

from __future__ import annotations

from collections.abc import Callable
from secrets import token_hex
from typing import Any

_PROCESS = token_hex(8)
"""Files of other processes have other numbers, even if they count alike."""
_functions: list[Callable[..., Any]] = []


def kept_number(function: Callable[..., Any]) -> str:
    """Keep a function and return the number under which this process finds it again.

    >>> kept_function(kept_number(len)) is len
    True
    """
    for position, known in enumerate(_functions):
        if known is function:
            return f"{_PROCESS}-{position}"
    _functions.append(function)
    return f"{_PROCESS}-{len(_functions) - 1}"


def kept_function(number: Any) -> Callable[..., Any] | None:
    """Return the function that this process kept under a number, or None.

    >>> kept_function("of another process") is None
    True
    """
    process, _, position = str(number).partition("-")
    if process != _PROCESS or not position.isdigit() or int(position) >= len(_functions):
        return None
    return _functions[int(position)]
