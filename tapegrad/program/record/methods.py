"""Bound methods that hold their object by a weak reference."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any


class Method:
    """A function bound to its first argument by a weak reference."""

    def __init__(self, python_function: Callable[..., Any], reference: weakref.ref[Any]) -> None:
        self.function = python_function
        self._reference = reference
        self.__name__ = getattr(python_function, "__name__", "method")
        self.__doc__ = python_function.__doc__

    @property
    def __signature__(self) -> inspect.Signature:
        whole = inspect.signature(self.function)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.owner, *args, **kwargs)

    @property
    def owner(self) -> Any:
        """The object, None after its end."""
        return self._reference()
