"""Functions that split texts into parts, and texts as numbers of characters.

One text gives a vector; a vector gives `Ragged` rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.strings import text_array
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.strings.ragged import Ragged, as_tensor

_ENCODINGS = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}
_POLICIES = {"strict": "strict", "replace": "replace", "ignore": "ignore"}


def _rows(
    name: str, function: Callable[[bytes], list[Any]], value: Any, dtype: Any = object
) -> Any:
    texts = text_array(value)
    if texts.ndim > 1:
        raise ShapeError(
            f"strings.{name} takes one text or a vector of them. Got shape {texts.shape}; "
            "reshape it with tapegrad.reshape(x, [-1])."
        )
    found = Ragged.from_rows([function(text) for text in texts.ravel().tolist()], dtype)
    return found if texts.ndim else found.flat_values


def split(input: Any, sep: Any = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """Split texts at a separator, or at white space.

    >>> split("some words").tolist(), split(["a b", "c"]).to_list()
    ([b'some', b'words'], [[b'a', b'b'], [b'c']])
    """
    at = None if sep is None else text_array(sep).item() or None
    return _rows("split", lambda text: text.split(at, maxsplit), input)


def bytes_split(input: Any, name: str | None = None) -> Any:
    """Split texts into their bytes.

    >>> bytes_split("ab").tolist()
    [b'a', b'b']
    """
    return _rows("bytes_split", lambda text: [text[k : k + 1] for k in range(len(text))], input)


def unicode_split(
    input: Any, input_encoding: str, errors: str = "replace", name: str | None = None
) -> Any:
    """Split texts into their characters, each as a separate text.

    >>> [one.decode() for one in unicode_split("\\u00e9t", "UTF-8").tolist()]
    ['é', 't']
    """
    encoding, policy = _coding(input_encoding, errors)
    return _rows(
        "unicode_split",
        lambda text: [c.encode(encoding, "replace") for c in text.decode(encoding, policy)],
        input,
    )


def unicode_decode(
    input: Any, input_encoding: str, errors: str = "replace", name: str | None = None
) -> Any:
    """Return the code points of texts.

    >>> unicode_decode("\\u00e9t", "UTF-8").tolist()
    [233, 116]
    """
    encoding, policy = _coding(input_encoding, errors)
    points = lambda text: [ord(c) for c in text.decode(encoding, policy)]  # noqa: E731
    return _rows("unicode_decode", points, input, np.int32)


def unicode_split_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Split texts into their characters, and return the byte at which each one begins.

    >>> parts, offsets = unicode_split_with_offsets("\\u00e9t", "UTF-8")
    >>> [one.decode() for one in parts.tolist()], offsets.tolist()
    (['é', 't'], [0, 2])
    """
    encoding, policy = _coding(input_encoding, errors)

    def parts(text: bytes) -> list[Any]:
        found = _characters(text, encoding, policy, replacement_char)
        return [c.encode(encoding, "replace") for c, _ in found]

    return (
        _rows("unicode_split_with_offsets", parts, input),
        _offsets(input, encoding, policy, replacement_char),
    )


def unicode_decode_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the code points of texts, and the byte at which each character begins.

    >>> points, offsets = unicode_decode_with_offsets("\\u00e9t", "UTF-8")
    >>> points.tolist(), offsets.tolist()
    ([233, 116], [0, 2])
    """
    encoding, policy = _coding(input_encoding, errors)

    def points(text: bytes) -> list[int]:
        found = [ord(c) for c, _ in _characters(text, encoding, policy, replacement_char)]
        if not replace_control_characters:
            return found
        return [replacement_char if point < 32 or point == 127 else point for point in found]

    return (
        _rows("unicode_decode_with_offsets", points, input, np.int32),
        _offsets(input, encoding, policy, replacement_char),
    )


def _offsets(input: Any, encoding: str, policy: str, replacement: int) -> Any:
    def begins(text: bytes) -> list[int]:
        return [place for _, place in _characters(text, encoding, policy, replacement)]

    return _rows("unicode_split_with_offsets", begins, input, np.int64)


def _characters(text: bytes, encoding: str, policy: str, replacement: int) -> list[tuple[str, int]]:
    """Return the characters of a text, each with the number of its first byte."""
    found: list[tuple[str, int]] = []
    begin = 0
    while begin < len(text):
        try:
            rest, bad, end = text[begin:].decode(encoding), len(text), len(text)
        except UnicodeDecodeError as error:
            if policy == "strict":
                raise ArgumentError(f"The text {text!r} is not {encoding}: {error}.") from error
            bad, end = begin + error.start, begin + error.end
            rest = text[begin:bad].decode(encoding)
        for character in rest:
            found.append((character, begin))
            begin += len(character.encode(encoding))
        if bad < len(text):
            if policy == "replace":
                found.append((chr(replacement), bad))
            begin = end
    return found


def unicode_encode(
    input: Any, output_encoding: str, errors: str = "replace", name: str | None = None
) -> Any:
    """Return texts of code points: of a vector one text, of rows one each.

    >>> unicode_encode([233, 116], "UTF-8").numpy().decode()
    'ét'
    """
    encoding, _ = _coding(output_encoding, errors)
    if isinstance(input, Ragged):
        rows, shape = input.to_list(), (len(input),)
    else:
        points = np.asarray(read_on_host(input, "unicode_encode"))
        rows, shape = points.reshape(-1, points.shape[-1]).tolist(), points.shape[:-1]
    found = np.empty(len(rows), object)
    found[:] = ["".join(map(chr, row)).encode(encoding) for row in rows]
    return as_tensor(found.reshape(shape))


def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    name: str | None = None,
) -> Any:
    """Return texts in another encoding.

    >>> unicode_transcode("a", "UTF-8", "UTF-16-BE").numpy()
    b'\\x00a'
    """
    source, policy = _coding(input_encoding, errors)
    target, _ = _coding(output_encoding, errors)
    texts = text_array(input)
    found = np.empty(texts.shape, object)
    found.ravel()[:] = [
        text.decode(source, policy).encode(target) for text in texts.ravel().tolist()
    ]
    return as_tensor(found)


def _coding(encoding: str, errors: str) -> tuple[str, str]:
    check_choice("errors", errors, tuple(_POLICIES))
    known = _ENCODINGS.get(encoding.upper().replace("UTF8", "UTF-8"))
    if known is None:
        raise ArgumentError(
            f"The encoding must be one of {', '.join(_ENCODINGS)}. Got {encoding!r}."
        )
    return known, _POLICIES[errors]
