"""Calls on symbolic values, which have a shape and no array.

A function that fails on such a value asks here: the value's class records the call and returns a
symbolic result. Calls on arrays never come here, so they cost nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """The result of a call on symbolic values, which may be None."""

    value: Any


def symbolic_answer(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Answer | None:
    """Return the symbolic result of a call, or None if no argument is a symbolic value.

    >>> class Symbol:
    ...     def called_later(self, function, args, kwargs):
    ...         return f"{function.__name__} of {len(args)}"
    >>> symbolic_answer(abs, [Symbol()], {}), symbolic_answer(abs, [2], {})
    (Answer(value='abs of 1'), None)
    """
    values = [*args, *kwargs.values()]
    values += [item for value in values if isinstance(value, list | tuple) for item in value]
    for value in values:
        call = getattr(type(value), "called_later", None)
        if call is not None:
            return Answer(call(value, function, args, kwargs))
    return None
