"""Replacements for Python's containers, `isinstance` and `type`, for traced values.

Lists, tuples and dicts that hold traced values are plain Python containers. `isinstance` and
`type` refer to the value behind a traced value.
"""

from __future__ import annotations

import builtins
from typing import Any

from tapegrad.compat.autograd.tracer import container_take
from tapegrad.compat.autograd.values import is_traced, raw
from tapegrad.core.values import nest

__all__ = [
    "DictBox",
    "SequenceBox",
    "container_take",
    "dict",
    "isinstance",
    "list",
    "make_sequence",
    "tuple",
    "type",
]

dict: Any = builtins.dict
list: Any = builtins.list
tuple: Any = builtins.tuple


class _HoldsTraced(builtins.type):
    """Makes `isinstance(x, DictBox)` check whether `x` is a dict that holds traced values."""

    containers: Any = ()

    def __instancecheck__(cls, instance: Any) -> bool:
        if not builtins.isinstance(instance, cls.containers):
            return False
        return any([is_traced(leaf) for leaf in nest.flatten(instance)])


class DictBox(metaclass=_HoldsTraced):
    """The class of dicts that hold traced values, for `isinstance`; they are plain dicts.

    >>> builtins.isinstance({"a": 1.0}, DictBox)
    False
    """

    containers = builtins.dict


class SequenceBox(metaclass=_HoldsTraced):
    """The class of lists and tuples that hold traced values, for `isinstance`; they are plain.

    >>> builtins.isinstance([1.0], SequenceBox)
    False
    """

    containers = (builtins.list, builtins.tuple)


def isinstance(x: Any, class_or_tuple: Any) -> bool:
    """Return whether the value of `x` is an instance of a type.

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
