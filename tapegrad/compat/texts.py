"""TensorFlow's conversions between text and bytes: `tf.compat.as_text` and the like."""

from __future__ import annotations

import codecs
from typing import Any

from tapegrad.errors import ArgumentError, ArgumentTypeError


def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Return text as str.

    >>> as_text(b"a")
    'a'
    """
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes | bytearray):
        _check(encoding)
        return bytes_or_text.decode(encoding)
    raise ArgumentTypeError(f"Expected text or bytes. Got {type(bytes_or_text).__name__}.")


def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Return text as bytes.

    >>> as_bytes("a")
    b'a'
    """
    if isinstance(bytes_or_text, bytes | bytearray):
        return bytes(bytes_or_text)
    _check(encoding)
    return as_text(bytes_or_text).encode(encoding)


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Return bytes as text, and other values as `str(value)`.

    >>> as_str_any(b"a"), as_str_any(1)
    ('a', '1')
    """
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def _check(encoding: str) -> None:
    try:
        codecs.lookup(encoding)
    except LookupError as error:
        raise ArgumentError(f"Python has no encoding named {encoding!r}.") from error
