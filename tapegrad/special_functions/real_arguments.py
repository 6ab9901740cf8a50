"""Reject complex arguments of functions that are implemented for real numbers only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tapegrad.core.primitive.real_operands import require_real

Function = Callable[..., Any]


def real_arguments_only(function: Function) -> Function:
    """Wrap a function so that it raises for complex arguments.

    >>> real_arguments_only(abs)(-2.0)
    2.0
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            _require_real(function.__name__, value)
        return function(*args, **kwargs)

    return call


def _require_real(name: str, value: Any) -> None:
    if isinstance(value, list | tuple):
        for part in value:
            _require_real(name, part)
    else:
        require_real(name, value)
