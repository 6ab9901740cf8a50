"""The tensors that a function takes from its surroundings instead of its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

from tapegrad.autodiff import batching
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable


def captured_tensors(function: Callable[..., Any]) -> list[Any]:
    """Return the tensors, each once, that `function` finds in closures, defaults and globals.

    The attributes of the object of a method count, and so do the functions that it calls by name.

    >>> import tapegrad
    >>> x = tapegrad.constant([2.0])
    >>> captured_tensors(lambda y: x * y)[0] is x
    True
    """
    found: dict[int, Any] = {}
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if _is_tensor(value):
            found[id(value)] = value
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        else:
            waiting.extend(_parts(value))
    return list(found.values())


def _is_tensor(value: Any) -> bool:
    inside = batching.unwrap(value)[0] if batching.is_batched(value) else value
    return isinstance(inside, Tensor) and not isinstance(value, Variable)


def _parts(value: Any) -> Iterator[Any]:
    """Yield what a function may read."""
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield value.__func__
        yield list(getattr(value.__self__, "__dict__", {}).values())
    elif isinstance(value, FunctionType):
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # assigned later
                continue
        for name in _names(value.__code__):
            known = value.__globals__.get(name)
            if _is_tensor(known):
                yield known
    elif callable(value) and hasattr(value, "__wrapped__"):
        yield value.__wrapped__


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
