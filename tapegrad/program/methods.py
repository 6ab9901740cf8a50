"""Methods that can be recorded without keeping their object alive."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any


class Method:
    """A function with its first argument, which it does not keep alive."""

    def __init__(self, python_function: Callable[..., Any], reference: weakref.ref[Any]) -> None:
        self._function = python_function
        self._reference = reference
        self.__name__ = getattr(python_function, "__name__", "method")
        self.__doc__ = python_function.__doc__

    @property
    def __signature__(self) -> inspect.Signature:
        whole = inspect.signature(self._function)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self._reference(), *args, **kwargs)
