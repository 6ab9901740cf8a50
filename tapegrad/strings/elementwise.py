"""Functions of each text on its own: case, length, parts, patterns, hashes and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.dtypes import as_dtype, numpy_dtype
from tapegrad.core.values.strings import is_text, text_array
from tapegrad.errors import ArgumentError, ArgumentTypeError, OutOfRangeError
from tapegrad.fingerprints import farm_hash, legacy_hash, sip_hash
from tapegrad.ragged.tensor import elementwise
from tapegrad.strings.ragged import Ragged, as_tensor, mapped

UNITS = ("BYTE", "UTF8_CHAR")


def each(name: str, function: Callable[[bytes], Any], value: Any, dtype: Any = object) -> Any:
    """Apply a function to each text of a tensor, a list or ragged rows.

    >>> each("length", len, ["a", "bc"], np.int32).tolist()
    [1, 2]
    """
    if not isinstance(value, Ragged) and not is_text(value) and np.size(value):
        raise ArgumentTypeError(
            f"strings.{name} takes text. Got {type(value).__name__} of numbers; "
            "tapegrad.strings.as_string writes numbers."
        )

    def run(texts: np.ndarray) -> np.ndarray:
        found = np.empty(texts.shape, dtype)
        found.ravel()[:] = [function(text) for text in texts.ravel().tolist()]
        return found

    return mapped(run, value)


def _in_unicode(function: Callable[[str], str], encoding: str) -> Callable[[bytes], bytes] | None:
    check_choice("encoding", encoding.lower(), ("", "utf-8"))
    return (lambda text: function(text.decode("utf-8", "surrogateescape")).encode(
        "utf-8", "surrogateescape")) if encoding else None  # fmt: skip


def lower(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Return texts in lower case; without an encoding only A to Z change.

    >>> lower(["Some", "WORDS"]).tolist()
    [b'some', b'words']
    """
    return each("lower", _in_unicode(str.lower, encoding) or bytes.lower, input)


def upper(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Return texts in upper case; without an encoding only a to z change.

    >>> upper("words").numpy()
    b'WORDS'
    """
    return each("upper", _in_unicode(str.upper, encoding) or bytes.upper, input)


def strip(input: Any, name: str | None = None) -> Any:
    """Return texts without white space at their ends.

    >>> strip(["  some words "]).tolist()
    [b'some words']
    """
    return each("strip", bytes.strip, input)


def length(input: Any, unit: str = "BYTE", name: str | None = None) -> Any:
    """Return the lengths of texts in bytes, or in characters with `unit="UTF8_CHAR"`.

    >>> length(["some", "mots"]).tolist(), int(length("\\u00e9", unit="UTF8_CHAR"))
    ([4, 4], 1)
    """
    check_choice("unit", unit, UNITS)
    count = len if unit == "BYTE" else lambda text: len(text.decode("utf-8", "replace"))
    return each("length", count, input, np.int32)


def substr(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: str | None = None) -> Any:
    """Return `len` bytes or characters of each text, from `pos` on; -1 is the last one.

    >>> substr(["some", "words"], 1, 2).tolist()
    [b'om', b'or']
    """
    check_choice("unit", unit, UNITS)
    if isinstance(input, Ragged):
        return elementwise(lambda texts: substr(texts, pos, len, unit), input)
    texts = text_array(input)
    starts, counts = read_on_host(pos, "substr"), read_on_host(len, "substr")
    texts, starts, counts = np.broadcast_arrays(texts, starts, counts)
    found = np.empty(texts.shape, object)
    items = zip(texts.ravel().tolist(), starts.ravel().tolist(), counts.ravel().tolist())
    found.ravel()[:] = [_part(text, start, count, unit) for text, start, count in items]
    return as_tensor(found)


def _part(text: bytes, start: int, count: int, unit: str) -> bytes:
    whole: Any = text if unit == "BYTE" else text.decode("utf-8", "replace")
    size = len(whole)
    first = start + size if start < 0 else start
    if not 0 <= first <= size:
        raise OutOfRangeError(f"substr: position {start} is outside of {text!r:.60}.")
    part = whole[first : first + max(count, 0)]
    return part if isinstance(part, bytes) else part.encode()


# Patterns

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


def compiled_pattern(pattern: Any) -> re.Pattern[str]:
    """Return a regular expression of RE2, which TensorFlow uses, as one of Python.

    >>> compiled_pattern("[[:digit:]]+").fullmatch("12") is not None
    True
    """
    text = text_array(pattern).item().decode()
    for name, members in _CLASSES.items():
        text = text.replace(f"[:{name}:]", members)
    try:
        return re.compile(text, re.ASCII)
    except re.error as error:
        raise ArgumentError(f"{pattern!r} is not a regular expression: {error}.") from error


def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Any:
    """Replace what matches a pattern; in the replacement, \\1 stands for the first group.

    >>> regex_replace("some  words", r"\\s+", "-").numpy()
    b'some-words'
    """
    matcher = compiled_pattern(pattern)
    template = text_array(rewrite).item().decode()

    def filled(match: re.Match[str]) -> str:
        def one(escape: re.Match[str]) -> str:
            key = escape[1]
            return (match[int(key)] or "") if key.isdigit() else key

        return re.sub(r"\\(.)", one, template)

    def replaced(text: bytes) -> bytes:
        found = matcher.sub(filled, _decoded(text), count=0 if replace_global else 1)
        return found.encode("utf-8", "surrogateescape")

    return each("regex_replace", replaced, input)


def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Any:
    """Return whether texts match a pattern from their beginning to their end.

    >>> regex_full_match(["12", "1a"], "[0-9]+").tolist()
    [True, False]
    """
    matcher = compiled_pattern(pattern)
    matches = lambda text: matcher.fullmatch(_decoded(text)) is not None  # noqa: E731
    return each("regex_full_match", matches, input, np.bool_)


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


# Numbers and hashes


def to_number(input: Any, out_type: Any = "float32", name: str | None = None) -> Any:
    """Return the numbers that texts spell.

    >>> to_number(["1.5", "-2"]).tolist()
    [1.5, -2.0]
    """
    dtype = as_dtype(out_type)
    read = int if dtype.is_integer else float

    def number(text: bytes) -> Any:
        try:
            return read(text.decode())
        except ValueError as error:
            raise ArgumentError(
                f"to_number: {text!r:.60} does not spell a number of {dtype.name}."
            ) from error

    return each("to_number", number, input, numpy_dtype(dtype))


def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Any:
    """Return numbers as text: integers in full, others with 6 digits or `precision` of them.

    >>> as_string([3, 2]).tolist(), as_string(3.14159, precision=2).numpy()
    ([b'3', b'2'], b'3.14')
    """
    if scientific and shortest:
        raise ArgumentError("as_string takes scientific or shortest, not both.")
    array = np.asarray(read_on_host(input, "as_string"))
    if array.dtype.kind == "b":
        written = [b"true" if one else b"false" for one in array.ravel()]
    else:
        kind = "d" if array.dtype.kind in "iu" else "e" if scientific else "g" if shortest else "f"
        digits = f".{precision}" if precision >= 0 and kind != "d" else ""
        pattern = f"%{fill}{width if width >= 0 else ''}{digits}{kind}"
        written = [(pattern % one).encode() for one in array.ravel().tolist()]
    found = np.empty(array.shape, object)
    found.ravel()[:] = written
    return as_tensor(found)


def to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """Return a hash of each text, modulo `num_buckets`; it is that of TensorFlow.

    >>> to_hash_bucket_fast(["Hello", "TensorFlow", "2.x"], 3).tolist()
    [0, 2, 2]
    """
    return _hashed(farm_hash, input, num_buckets)


def to_hash_bucket(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """Return an older hash of each text, modulo `num_buckets`; it is that of TensorFlow.

    >>> to_hash_bucket(["Hello", "TensorFlow", "2.x"], 3).tolist()
    [2, 0, 1]
    """
    return _hashed(legacy_hash, input, num_buckets)


def to_hash_bucket_strong(input: Any, num_buckets: int, key: Any, name: str | None = None) -> Any:
    """Return a hash of each text that depends on a key of two integers, modulo `num_buckets`.

    >>> to_hash_bucket_strong(["Hello", "TF"], 3, [1, 2]).tolist()
    [2, 0]
    """
    pair = (int(key[0]), int(key[1]))
    return _hashed(lambda texts: sip_hash(texts, pair), input, num_buckets)


def _hashed(function: Callable[[list[bytes]], np.ndarray], value: Any, buckets: int) -> Any:
    if buckets < 1:
        raise ArgumentError(f"num_buckets must be at least 1. Got {buckets}.")

    def run(texts: np.ndarray) -> np.ndarray:
        hashes = function(texts.ravel().tolist()) % np.uint64(buckets)
        return hashes.astype(np.int64).reshape(texts.shape)

    return mapped(run, value)
