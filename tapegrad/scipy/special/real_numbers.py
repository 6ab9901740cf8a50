"""Functions that are written for real numbers refuse complex ones, where these would go wrong."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.convert import NUMBERS
from tapegrad.core.tensor import Tensor
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops.kinds import kind_of

Function = Callable[..., Any]


def of_real_numbers(function: Function) -> Function:
    """Return the function with a look at its arguments before.

    >>> of_real_numbers(abs)(-2.0)
    2.0
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if _is_complex(value):
                raise ArgumentTypeError(
                    f"{function.__name__} takes real numbers. Got complex ones: give it their real "
                    "or imaginary parts, or their absolute values."
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
