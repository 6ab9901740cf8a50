"""The order of arguments of Keras 2, where the name of a weight came first."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])


def name_first(method: _Method) -> _Method:
    """Let a method take its argument `name` also as the first one, if that is text.

    >>> class Layer:
    ...     @name_first
    ...     def add_weight(self, shape=None, name=None):
    ...         return name, shape
    >>> Layer().add_weight("kernel", shape=(2, 3)), Layer().add_weight((4,))
    (('kernel', (2, 3)), (None, (4,)))
    """

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], str):
            return method(self, *args[1:], **{**kwargs, "name": args[0]})
        return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]
