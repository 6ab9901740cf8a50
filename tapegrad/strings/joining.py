"""Functions that join texts: join, reduce_join, format and ngrams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_count
from tapegrad.core.primitive.operand import normalize_axes
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.strings import is_text, text_array
from tapegrad.errors import ArgumentError
from tapegrad.ragged.tensor import elementwise
from tapegrad.strings.ragged import Ragged, as_tensor


def join(inputs: Any, separator: str = "", name: str | None = None) -> Any:
    """Join the texts at the same place of several tensors, which broadcast.

    >>> join(["some", ["word", "words"]], separator=" ").tolist()
    [b'some word', b'some words']
    """
    if any(isinstance(one, Ragged) for one in inputs):
        return elementwise(lambda *parts: join(parts, separator), *inputs)
    columns = np.broadcast_arrays(*[text_array(one) for one in inputs])
    between = text_array(separator).item()
    found = np.empty(columns[0].shape, object)
    found.ravel()[:] = [between.join(row) for row in zip(*[c.ravel().tolist() for c in columns])]
    return as_tensor(found)


def unsorted_segment_join(
    inputs: Any,
    segment_ids: Any,
    num_segments: int,
    separator: str = "",
    name: str | None = None,
) -> Any:
    """Join the texts of each segment, in their order.

    >>> unsorted_segment_join(["this", "a", "test"], [0, 1, 0], 2, ":").tolist()
    [b'this:test', b'a']
    """
    texts, between = text_array(inputs), text_array(separator).item()
    ids = np.asarray(read_on_host(segment_ids, "unsorted_segment_join"))
    count = check_count("num_segments", num_segments, "unsorted_segment_join")
    if ids.dtype.kind not in "iu" or texts.shape[: ids.ndim] != ids.shape:
        raise ArgumentError(
            "unsorted_segment_join needs a whole number for each text, or for each row of them. "
            f"Got {ids.dtype} of shape {ids.shape} for texts of shape {texts.shape}."
        )
    if (ids >= count).any():
        raise ArgumentError(
            f"The segment_ids of unsorted_segment_join must be below num_segments, {count}. "
            f"Got {ids.max()}."
        )
    rest = texts.shape[ids.ndim :]
    columns = int(np.prod(rest, dtype=np.int64))
    rows: list[list[list[bytes]]] = [[[] for _ in range(columns)] for _ in range(count)]
    for place, row in zip(ids.ravel().tolist(), texts.reshape(-1, columns).tolist(), strict=True):
        if place >= 0:  # a text with a negative number belongs to no segment
            for column, text in zip(rows[place], row, strict=True):
                column.append(text)
    flat = [between.join(column) for row in rows for column in row]
    return as_tensor(_array(flat).reshape(count, *rest))


def reduce_join(
    inputs: Any,
    axis: Any = None,
    keepdims: bool = False,
    separator: str = "",
    name: str | None = None,
) -> Any:
    """Join all texts along axes; without `axis`, all texts of the tensor.

    >>> reduce_join([["a", "b"], ["c", "d"]], axis=-1).tolist()
    [b'ab', b'cd']
    """
    between = text_array(separator).item()
    if isinstance(inputs, Ragged):
        if axis not in (-1, 1):
            raise ArgumentError(f"reduce_join of ragged rows takes axis=-1. Got {axis}.")
        return as_tensor(_array([between.join(row) for row in inputs.to_list()]))
    texts = text_array(inputs)
    axes = normalize_axes(axis, texts.ndim, "reduce_join")
    kept = [k for k in range(texts.ndim) if k not in axes]
    moved = texts.transpose([*kept, *axes])
    shape = tuple(texts.shape[k] for k in kept)
    rows = moved.reshape(int(np.prod(shape, dtype=np.int64)), -1)
    found = _array([between.join(row) for row in rows.tolist()]).reshape(shape)
    if keepdims:
        found = found.reshape([1 if k in axes else n for k, n in enumerate(texts.shape)])
    return as_tensor(found)


def _array(texts: Sequence[bytes]) -> np.ndarray:
    found = np.empty(len(texts), object)
    found[:] = texts
    return found


def format(
    template: str,
    inputs: Any,
    placeholder: str = "{}",
    summarize: int = 3,
    name: str | None = None,
) -> Any:
    """Return a text with tensors in place of `{}`; of long axes, `summarize` items at each end.

    >>> format("got {} and {}", ([1, 2], "x")).numpy()
    b'got [1 2] and "x"'
    """
    values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    pieces = template.split(placeholder)
    if len(pieces) != len(values) + 1:
        raise ArgumentError(
            f"format needs one tensor per {placeholder!r}. Got {len(pieces) - 1} places and "
            f"{len(values)} tensors."
        )
    texts = [_shown(_host(value), summarize) for value in values]
    filled = "".join(piece + text for piece, text in zip(pieces, [*texts, ""]))
    return as_tensor(text_array(filled))


def _host(value: Any) -> np.ndarray:
    return text_array(value) if is_text(value) else np.asarray(read_on_host(value, "format"))


def _shown(array: np.ndarray, most: int) -> str:
    if not array.ndim:
        one = array.item()
        if isinstance(one, bytes):
            return f'"{one.decode("utf-8", "replace")}"'
        return str(one) if isinstance(one, bool | complex) else f"{one:.6g}" if isinstance(
            one, float) else str(one)  # fmt: skip
    rows = list(array)
    shown = [_shown(np.asarray(row, array.dtype), most) for row in rows]
    if most >= 0 and len(shown) > 2 * most:
        shown = [*shown[:most], "...", *shown[-most:]]
    return f"[{' '.join(shown)}]"


def ngrams(
    data: Any,
    ngram_width: Any,
    separator: str = " ",
    pad_values: Any = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Return the joined runs of `ngram_width` texts of each row; several widths follow each other.

    Rows of a tensor give a tensor, and ragged rows give ragged rows.

    >>> ngrams(["A", "B", "C"], 2).tolist()
    [b'A B', b'B C']
    """
    widths = [int(ngram_width)] if np.ndim(ngram_width) == 0 else [int(n) for n in ngram_width]
    if min(widths) < 1:
        raise ArgumentError(f"ngram_width must be at least 1. Got {ngram_width}.")
    pads = None
    if pad_values is not None:
        pair = pad_values if isinstance(pad_values, tuple) else (pad_values, pad_values)
        pads = (text_array(pair[0]).item(), text_array(pair[1]).item())
    between = text_array(separator).item()

    def of_row(row: list[bytes]) -> list[bytes]:
        found: list[bytes] = []
        for width in widths:
            found += _runs(_padded(row, pads, width, padding_width), width, between)
        if not found and preserve_short_sequences and row:
            found = [between.join(row)]
        return found

    if isinstance(data, Ragged):
        return Ragged.from_rows([of_row(row) for row in data.to_list()])
    texts = text_array(data)
    rows = [of_row(row) for row in texts.reshape(-1, texts.shape[-1]).tolist()]
    flat = [one for row in rows for one in row]
    return as_tensor(_array(flat).reshape(*texts.shape[:-1], -1 if flat else 0))


def _padded(row: list[bytes], pads: Any, width: int, most: int | None) -> list[bytes]:
    if pads is None:
        return row
    count = width - 1 if most is None else min(most, width - 1)
    return [pads[0]] * count + row + [pads[1]] * count


def _runs(row: list[bytes], width: int, between: bytes) -> list[bytes]:
    return [between.join(row[k : k + width]) for k in range(len(row) - width + 1)]
