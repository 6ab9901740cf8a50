"""The kinds of arguments: what each kind accepts, and the error for what it does not.

Every check reads Python values, dtypes and shapes only. None reads a value from a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tapegrad.errors import ArgumentError, ArgumentKindError, OutOfRangeError, ShapeError

LARGEST = 2**63 - 1
"""The largest size, axis or count: they are 64-bit integers in every library below."""

MOST_ELEMENTS = 2**57
"""No address space holds more elements. Counts of bytes up to here fit into 64 bits."""

_TEXT = (str, bytes, bytearray)
_FRACTIONAL = (float, complex, np.floating, np.complexfloating)


class Kind(NamedTuple):
    """A kind of argument: whether it accepts a value, and its name in sentences."""

    accepts: Callable[[Any], bool]
    words: str


def is_whole(value: Any) -> bool:
    """Return whether a value is one integer; 0-d integer arrays and tensors are.

    >>> is_whole(3), is_whole(np.int8(3)), is_whole(3.0), is_whole("3")
    (True, True, False, False)
    """
    kind = type(value)
    if kind is int or kind is bool:
        return True
    if isinstance(value, (*_FRACTIONAL, *_TEXT)):
        return False
    if _is_array(value):
        return _is_integer_dtype(value.dtype) and tuple(value.shape) == ()
    return hasattr(kind, "__index__")


def are_whole(value: Any) -> bool:
    """Return whether a value is an integer, an integer array, or a nest of these and None.

    >>> are_whole((2, None)), are_whole([2.9]), are_whole("32")
    (True, False, False)
    """
    kind = type(value)
    if kind is int or value is None:
        return True
    if kind is tuple or isinstance(value, list | tuple | range):
        return all([are_whole(item) for item in value])
    if isinstance(value, _TEXT):
        return False
    if _is_array(value):
        # An empty list becomes an array of floats; it holds no fraction.
        return _is_integer_dtype(value.dtype) or 0 in tuple(value.shape)
    return is_whole(value) or (
        hasattr(value, "__iter__") and not isinstance(value, dict | set | type)
    )


def is_flag(value: Any) -> bool:
    """Return whether a value is true or false without doubt.

    >>> is_flag(True), is_flag(0), is_flag("no"), is_flag([])
    (True, True, False, False)
    """
    if isinstance(value, bool | np.bool_):
        return True
    if _is_array(value):
        return tuple(value.shape) == ()
    return isinstance(value, int) and value in (0, 1)


def is_real(value: Any) -> bool:
    """Return whether a value can stand for a number: a number, or a tensor or array of them.

    >>> is_real(2), is_real(np.float32(1.5)), is_real("1.5"), is_real(None)
    (True, True, False, False)
    """
    if isinstance(value, int | float | np.number | np.bool_):
        return True
    if isinstance(value, _TEXT) or value is None or isinstance(value, dict | set | type):
        return False
    if _is_array(value):
        return getattr(value.dtype, "kind", "f") not in "OSU"
    kind = type(value)
    return (
        hasattr(kind, "__float__") or hasattr(kind, "__index__") or isinstance(value, list | tuple)
    )


def _is_array(value: Any) -> bool:
    """Whether a value is an array or a tensor.

    Layers have a dtype and no shape; modules and classes of arrays have functions of these names.
    """
    return hasattr(value, "dtype") and isinstance(getattr(value, "shape", None), tuple)


def _is_integral(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _is_integer_dtype(dtype: Any) -> bool:
    return getattr(dtype, "kind", "") in "biu" or str(getattr(dtype, "name", dtype)).startswith(
        ("int", "uint", "bool")
    )


INTEGER = Kind(is_whole, "an integer")
INTEGRAL = Kind(lambda value: is_whole(value) or _is_integral(value), "an integer")
INTEGERS = Kind(are_whole, "an integer or several")
FLAG = Kind(is_flag, "True or False")
NUMBER = Kind(is_real, "a number")
TEXT = Kind(lambda value: isinstance(value, str), "a string")
NOTHING = Kind(lambda value: value is None, "None")


def described(value: Any) -> str:
    """Return a few words about a value for an error message, without reading from a device.

    >>> described(1.5), described(np.zeros((2, 3)))
    ('1.5', 'an array of float64 and shape (2, 3)')
    """
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and isinstance(shape, tuple):
        noun = "an array" if isinstance(value, np.ndarray | np.generic) else "a tensor"
        return f"{noun} of {getattr(dtype, 'name', dtype)} and shape {tuple(shape)}"
    if value is None or isinstance(value, (int, float, complex, *_TEXT)):
        text = (
            repr(value) if not isinstance(value, int) or abs(value) <= LARGEST else "2**63 or more"
        )
    elif isinstance(value, list | tuple | dict | set):
        text = (
            repr(value) if _is_plain(value) else f"a {type(value).__name__} of {len(value)} items"
        )
    else:
        name = getattr(value, "__name__", None)
        text = (
            f"{type(value).__name__} {name!r}" if name else f"an object of {type(value).__name__}"
        )
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_plain(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return len(value) <= 8 and all(
        item is None or isinstance(item, int | float | complex | str) for item in items
    )


def refuse(function: str, name: str, value: Any, words: str) -> NoReturn:
    """Raise the error for an argument that is not what `words` say."""
    start = f"{function} needs {words} for the argument {name}" if function else ""
    start = start or f"The argument {name} must be {words}"
    raise ArgumentKindError(f"{start}. Got {described(value)}.")


def check_whole(name: str, value: Any, function: str = "") -> int:
    """Return an integer as a Python int; fractions and text raise instead of being converted.

    >>> check_whole("axis", np.int64(2))
    2
    """
    if type(value) is int:
        found = value
    elif is_whole(value):
        found = int(value)
    else:
        refuse(function, name, value, INTEGER.words)
    if not -LARGEST <= found <= LARGEST:
        raise OutOfRangeError(
            f"The argument {name}{f' of {function}' if function else ''} must fit into 64 bits. "
            f"Got {described(found)}."
        )
    return found


def check_wholes(name: str, value: Any, function: str = "") -> tuple[int, ...]:
    """Return a size or several as a tuple of Python ints.

    >>> check_wholes("shape", [2, np.int32(3)]), check_wholes("shape", 4)
    ((2, 3), (4,))
    """
    if isinstance(value, int) or getattr(value, "shape", None) == ():
        return (check_whole(name, value, function),)
    if isinstance(value, str | bytes | dict | set) or not hasattr(value, "__iter__"):
        refuse(function, name, value, INTEGERS.words)
    if _is_array(value) and not are_whole(value):
        refuse(function, name, value, INTEGERS.words)
    return tuple([check_whole(name, n, function) for n in value])


def check_count(name: str, value: Any, function: str = "", least: int = 0) -> int:
    """Return an integer that is at least `least`.

    >>> check_count("depth", 3)
    3
    """
    found = check_whole(name, value, function)
    if found < least:
        place = f" of {function}" if function else ""
        raise ArgumentError(f"The argument {name}{place} must be at least {least}. Got {found}.")
    return found


def check_elements(function: str, shape: Sequence[int]) -> None:
    """Raise an error, before anything is allocated, if no memory can hold a result of this shape.

    Some libraries compute sizes in 64 bits without a check, so that a huge array appears small.

    >>> check_elements("zeros", (2**20, 2**20))
    """
    if math.prod(shape) > MOST_ELEMENTS:
        raise ShapeError(
            f"{function} cannot make a result of shape {tuple(shape)}. No memory holds more than "
            f"2**{MOST_ELEMENTS.bit_length() - 1} elements."
        )


_MOST_ROUNDS = 100_000


def check_rounds(name: str, value: int, function: str, most: int = _MOST_ROUNDS) -> None:
    """Raise an error if a function would repeat its work more often than anyone can wait for.

    >>> check_rounds("m", 3, "polyint")
    """
    if value > most:
        raise ArgumentError(
            f"The argument {name} of {function} must be at most {most:,}. Got {value}."
        )


def check_flag(name: str, value: Any, function: str = "") -> None:
    """Raise an error unless `value` is true or false without doubt.

    >>> check_flag("keepdims", True)
    """
    if not is_flag(value):
        refuse(function, name, value, FLAG.words)


def check_probability(name: str, value: Any, function: str = "") -> None:
    """Raise an error unless `value` is a number from 0 to 1; tensors are not read.

    >>> check_probability("rate", 0.5)
    """
    if not is_real(value):
        refuse(function, name, value, "a number from 0 to 1")
    if isinstance(value, int | float) and not 0 <= value <= 1:
        place = f" of {function}" if function else ""
        raise ArgumentError(
            f"The argument {name}{place} must be a number from 0 to 1. Got {value!r}."
        )


def check_choice(name: str, value: Any, known: Collection[Any]) -> None:
    """Raise ArgumentError, with all allowed values, unless `value` is one of them.

    >>> check_choice("side", "left", ("left", "right"))
    """
    # Arrays and tensors compare by element, and some values have no hash.
    if value is None or isinstance(value, str | int | float | bytes | tuple | type):
        if value in known:
            return
    elif any(value is choice for choice in known):
        return
    *others, last = [repr(word) for word in known]
    ways = f"{', '.join(others)} or {last}" if others else last
    if len(known) > 3:
        ways = f"one of {', '.join(map(str, known))}"
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    got = repr(value) if is_text or value is None else described(value)
    raise ArgumentError(f"{name} must be {ways}. Got {got}.")
