"""Explain an error of an inner line in terms of the arguments of the public function.

A call that fails inside has usually got an argument of the wrong kind. The argument is found by
the parameters' annotations and by the types that the error message quotes. Without such an
argument, an internal error (a KeyError, an AssertionError, ...) is left as it is.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import described
from tapegrad.core.tracebacks import has_lines_of_users, shorten
from tapegrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    IndexOutOfRangeError,
    NotFoundError,
    OutOfMemoryError,
    OutOfRangeError,
    PermissionDeniedError,
    ShapeError,
    TapegradError,
    ZeroDivisorError,
)

_OTHERS = (AttributeError, LookupError, AssertionError, NameError, StopIteration)
_CONVERSIONS = ("Expected numbers.", "Cannot turn ", "Got text, not numbers")
"""How errors begin of values that no tensor can hold; they do not know the argument."""
# Compiled at the first use, which saves import time.
_OF_A_PRIMITIVE = r"\w+ cannot (take \w+\[|make a result of shape)"
_UNKNOWN_KEYWORD = r"got an unexpected keyword argument '(\w+)'"
_WRONG_CALL = r"\S+\(\) (takes|missing)"
_OPTIONS = frozenset({"dtype", "out_type", "output_type", "name", "device"})
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ABOUT_SHAPES = ("shape", "broadcast", "dimension", "ndim", "reshape", "axes", "unpack")


def explained(
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Exception,
    title: str | None = None,
) -> Exception | None:
    """Return the error to raise instead of one that an inner line raised, or None to keep it.

    A kept error of tapegrad, or of the user's code, gets a short traceback.
    """
    other = _explained(function, args, kwargs, error, title)
    if other is not None:
        other.__cause__ = error
        shorten(other)
    else:
        shorten(error)
    return other


def _explained(
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Exception,
    title: str | None,
) -> Exception | None:
    text = str(error)
    missing = _of_files(error)
    if missing is not None:
        return missing
    is_refused = isinstance(error, ArgumentTypeError)
    is_conversion = is_refused and any(part in text for part in _CONVERSIONS)
    is_inner = type(error) is ShapeError and re.match(_OF_A_PRIMITIVE, text) is not None
    if not is_conversion and not is_inner and not _is_of_a_library(error):
        return None
    if has_lines_of_users(error.__traceback__):
        return None
    arguments = _named(function, args, kwargs)
    if isinstance(error, MemoryError):
        title, got = title or _title(function, args), _listed(arguments)
        return OutOfMemoryError(f"{title} found no room on the host for {got}: {text}.")
    if is_inner:
        title = title or _title(function, args)
        return None if text.startswith(f"{title} ") else _of_shapes(title, arguments, text)
    if is_conversion:  # an option such as dtype="float32" is no value
        arguments = {name: x for name, x in arguments.items() if name not in _OPTIONS}
    suspect = _suspect(arguments, text)
    if is_conversion:
        if suspect is None:
            return None
        text = text[max(text.find(part) for part in _CONVERSIONS) :]  # without inner arguments
    if isinstance(error, IndexError) and text == "tuple index out of range":
        flattest = _with_fewest_axes(arguments)
        if flattest is not None:
            return _too_few_axes(title or _title(function, args), *flattest)
    found = _class_for(error, suspect is not None)
    if found is None:
        return None
    unknown = re.search(_UNKNOWN_KEYWORD, text)
    if unknown is not None and unknown[1] in kwargs:
        return _of_unknown_keyword(function, args, unknown[1])
    title = title or _title(function, args)
    if suspect is None and not arguments and args:  # a method that takes nothing
        return found(f"{title} cannot work on {described(args[0])}: {text}.")
    if suspect is None and re.match(_WRONG_CALL, text) and function.__qualname__ not in text:
        return found(f"{text}. It was called with {_listed(arguments)}.")  # a user's function
    if suspect is None:
        got = _listed(arguments)
        return found(f"{title} cannot take these arguments together: {text}. Got {got}.")
    name, value = suspect
    return found(f"{title} cannot take {described(value)} as the argument {name}: {text}")


def _of_files(error: Exception) -> TapegradError | None:
    """Return the error for a file of the user that Python could not open, or None."""
    path = getattr(error, "filename", None)
    if path is None or has_lines_of_users(error.__traceback__):
        return None
    if type(error) is FileNotFoundError:
        return NotFoundError(f"There is no file or folder {path!r}.")
    if type(error) is PermissionError:
        return PermissionDeniedError(f"There is no permission for {path!r}.")
    return None


def _listed(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={described(value)}" for name, value in arguments.items())


def _of_shapes(title: str, arguments: Mapping[str, Any], text: str) -> ShapeError:
    """Return the error of a primitive inside a function, with the arguments of the function."""
    return ShapeError(f"{title} got {_listed(arguments)}: {text}")


def _of_unknown_keyword(function: Any, args: Sequence[Any], keyword: str) -> ArgumentTypeError:
    """Return the error for a keyword that a function passed on, and that nothing accepted."""
    title = _title(function, args)
    if function.__name__ == "__init__" and args:  # the user has named the class, not its base
        title, function = type(args[0]).__name__, type(args[0]).__init__
    known = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self" and parameter.kind in _BY_KEYWORD
    ]
    offered = f" Its arguments are {', '.join(known)}." if known else ""
    return ArgumentTypeError(f"{title} has no argument {keyword!r}.{offered}")


def _is_of_a_library(error: Exception) -> bool:
    """Whether an error is one of Python's or NumPy's, and not one that users have defined."""
    if isinstance(error, np.linalg.LinAlgError | FloatingPointError | UnicodeError):
        return False
    return type(error).__module__.partition(".")[0] in ("builtins", "numpy")


def _class_for(error: Exception, has_suspect: bool) -> type[TapegradError] | None:
    text = str(error)
    if isinstance(error, TypeError | RecursionError):
        return ArgumentTypeError
    if isinstance(error, IndexError):
        return IndexOutOfRangeError
    if isinstance(error, OverflowError):
        return OutOfRangeError
    if isinstance(error, ZeroDivisionError):
        return ZeroDivisorError
    is_about_shapes = any(word in text for word in _ABOUT_SHAPES)
    if isinstance(error, ValueError):
        return ShapeError if is_about_shapes else ArgumentError
    if type(error) is RuntimeError and is_about_shapes:  # NumPy's, for more than 32 dimensions
        return ShapeError
    if isinstance(error, _OTHERS) and has_suspect:
        return ArgumentTypeError
    return None


def _title(function: Any, args: Sequence[Any]) -> str:
    owner, _, name = function.__qualname__.rpartition(".")
    if args and name in ("__init__", "__call__"):
        kind = type(args[0]).__name__ if name == "__call__" else owner.rpartition(".")[2]
        return str(getattr(args[0], "__name__", None) or kind)
    return str(function.__name__)


def _named(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by the names of their parameters."""
    try:
        bound = inspect.signature(function).bind_partial(*args, **kwargs)
    except TypeError:
        return dict(kwargs)
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        kind = parameter.kind
        if value is parameter.default:
            continue
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            found.update({f"{name}[{i}]": item for i, item in enumerate(value)})
        elif name != "self":
            found[name] = value
    return found


def _with_fewest_axes(arguments: Mapping[str, Any]) -> tuple[str, Any] | None:
    arrays = {name: x for name, x in arguments.items() if isinstance(getattr(x, "shape", 0), tuple)}
    return min(arrays.items(), key=lambda pair: len(pair[1].shape), default=None)


def _too_few_axes(title: str, name: str, value: Any) -> ShapeError:
    return ShapeError(f"{title} needs more dimensions of {name}. Got {described(value)}.")


def _suspect(arguments: Mapping[str, Any], text: str) -> tuple[str, Any] | None:
    """Return the argument that an error is about, if there is one."""
    words = re.findall(r"'([\w.]+)'|\b(\w+) object|Cannot turn (\w+)|^(\w+) has no attribute", text)
    quoted = {word.rpartition(".")[2] for found in words for word in found if word}
    quoted |= {"NoneType"} if "Got None" in text else set()
    quoted |= {"str", "bytes"} if "Got text" in text or "Got the text" in text else set()
    by_type = [
        (name, value)
        for name, value in arguments.items()
        if type(value).__name__ in quoted or _is_quoted_in(value, quoted)
    ]
    if len(by_type) == 1:
        return by_type[0]
    strange = [(name, value) for name, value in arguments.items() if _is_strange(name, value)]
    both = [pair for pair in strange if any(pair[1] is value for _, value in by_type)]
    return (both or strange or by_type or [None])[0]  # type: ignore[list-item]


def _is_quoted_in(value: Any, quoted: set[str]) -> bool:
    """Whether a message quotes a text, a class or module, or the type of an item of a list."""
    if isinstance(value, list | tuple):
        return any(type(item).__name__ in quoted for item in value)
    if isinstance(value, type | ModuleType):
        return value.__name__ in quoted
    return isinstance(value, str) and value in quoted


def _is_strange(name: str, value: Any) -> bool:
    """Whether a value is of no use as a tensor, a number, a name or a function."""
    if type(value) is object or isinstance(value, dict | set):
        return True
    if getattr(getattr(value, "dtype", None), "name", "") == "string":
        return True
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "OSUV"
    if isinstance(value, list | tuple):
        return any(isinstance(item, str) or type(item) is object for item in value)
    if isinstance(value, int):
        return abs(value) >= 2**63
    return False
