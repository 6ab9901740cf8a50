"""Frozen dataclasses from and to JSON, with a sentence for every value that does not fit.

Nothing here knows what is measured; see results.py.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, Union, get_args, get_origin, get_type_hints

from tapegrad.errors import ArgumentError

_WORDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "a text",
}


def to_plain(value: Any) -> Any:
    """Return `value` as what json.dump accepts; numbers that JSON lacks become null.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     y: float | None = None
    >>> to_plain(Point(1.0))
    {'x': 1.0, 'y': None}
    """
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value


def from_plain(kind: Any, value: Any, where: str, derived: frozenset[str] = frozenset()) -> Any:
    """Return `value`, as json.load gave it, as a `kind`; `where` names it in messages.

    Keys in `derived` are written for other readers and are not read back.

    >>> from_plain(tuple[int, ...], [1, 2], "times")
    (1, 2)
    >>> from_plain(int, "many", "times[0]")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: times[0] must be a whole number. Got 'many'.
    """
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _from_optional(kind, value, where, derived)
    if origin is tuple:
        item = get_args(kind)[0]
        items = _expect(list, "a list", value, where)
        return tuple(
            from_plain(item, entry, f"{where}[{place}]", derived)
            for place, entry in enumerate(items)
        )
    if origin is not None:  # Mapping[str, item]
        item = get_args(kind)[1]
        entries = _expect(dict, "an object", value, where)
        return {key: from_plain(item, entry, f"{where}.{key}") for key, entry in entries.items()}
    if is_dataclass(kind):
        return _from_object(kind, value, where, derived)
    if issubclass(kind, StrEnum):
        return _from_enum(kind, value, where)
    return _from_scalar(kind, value, where)


def _from_optional(kind: Any, value: Any, where: str, derived: frozenset[str]) -> Any:
    if value is None:
        return None
    inner = next(item for item in get_args(kind) if item is not type(None))
    return from_plain(inner, value, where, derived)


def _from_object(kind: Any, value: Any, where: str, derived: frozenset[str]) -> Any:
    entries = _expect(dict, "an object", value, where)
    types_of_fields = get_type_hints(kind)
    known = {field.name: field for field in fields(kind)}
    for name in entries:
        if name not in known and name not in derived:
            raise ArgumentError(
                f"{where} has a key {name!r} that does not exist. Keys: {', '.join(known)}."
            )
    missing = [name for name, field in known.items() if name not in entries and _is_needed(field)]
    if missing:
        raise ArgumentError(f"{where} must have a key {missing[0]!r}. It has none.")
    read = {
        name: from_plain(types_of_fields[name], entries[name], _join(where, name), derived)
        for name in known
        if name in entries
    }
    try:
        return kind(**read)
    except ArgumentError as error:
        raise ArgumentError(f"{where}: {error}") from error


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _is_needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _from_enum(kind: type[StrEnum], value: Any, where: str) -> StrEnum:
    allowed = [member.value for member in kind]
    if value not in allowed:
        raise ArgumentError(f"{where} must be one of {', '.join(allowed)}. Got {value!r}.")
    return kind(value)


def _from_scalar(kind: type, value: Any, where: str) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    is_number = isinstance(value, float) and isfinite(value)
    if type(value) is not kind or (kind is float and not is_number):
        raise ArgumentError(f"{where} must be {_WORDS[kind]}. Got {value!r:.80}.")
    return value


def _expect(kind: type, word: str, value: Any, where: str) -> Any:
    if not isinstance(value, kind):
        raise ArgumentError(f"{where} must be {word}. Got {value!r:.80}.")
    return value
