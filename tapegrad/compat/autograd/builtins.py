"""Python's containers and questions about types, for scripts that import them from here.

Lists, tuples and dicts that hold traced values are Python's own, so they need no other form;
`isinstance` and `type` answer for the value behind a traced one.
"""

from __future__ import annotations

import builtins
from typing import Any

from tapegrad.compat.autograd.tracer import container_take
from tapegrad.compat.autograd.values import raw

__all__ = ["container_take", "dict", "isinstance", "list", "make_sequence", "tuple", "type"]

dict: Any = builtins.dict
list: Any = builtins.list
tuple: Any = builtins.tuple


def isinstance(x: Any, class_or_tuple: Any) -> bool:
    """Return whether the value of `x` is of a type.

    >>> isinstance((1.0,), tuple)
    True
    """
    return builtins.isinstance(raw(x), class_or_tuple)


def type(x: Any) -> Any:
    """Return the type of the value of `x`.

    >>> type(1.0) is float
    True
    """
    return builtins.type(raw(x))


def make_sequence(seq_type: Any, *args: Any) -> Any:
    """Return a sequence of the given type.

    >>> make_sequence(tuple, 1, 2)
    (1, 2)
    """
    return seq_type(args)
