"""Reject complex arguments of functions that are implemented for real numbers only."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops.kinds import kind_of

Function = Callable[..., Any]


def real_arguments_only(function: Function) -> Function:
    """Wrap a function so that it raises for complex arguments.

    >>> real_arguments_only(abs)(-2.0)
    2.0
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if _is_complex(value):
                raise ArgumentTypeError(
                    f"{function.__name__} accepts real arguments only. Got a complex one. "
                    "Pass its real part, imaginary part or absolute value."
                )
        return function(*args, **kwargs)

    return call


def _is_complex(value: Any) -> bool:
    if type(value) is Tensor:
        return kind_of(value) == "c"
    if type(value) in NUMBERS or value is None:
        return type(value) is complex
    if isinstance(value, list | tuple):
        return any(_is_complex(part) for part in value)
    return isinstance(value, np.ndarray | np.generic) and value.dtype.kind == "c"
