"""Labels without alignment to a longer sequence: the CTC loss, and decoders."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.ctc.decoding import most_probable
from tapegrad.ctc.recursion import negative_log_probability
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant, full_like, range as numbers, zeros_like
from tapegrad.ops.elementwise.comparison import equal, greater_equal
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.indexing.sorting import argsort
from tapegrad.ops.nn.softmax import log_softmax
from tapegrad.ops.reduction.functions import argmax, reduce_max, reduce_sum
from tapegrad.ops.shape.functions import expand_dims
from tapegrad.ops.shape.joining import concat

_END = -1


def ctc_loss(
    target: Any, output: Any, target_length: Any, output_length: Any, mask_index: int = 0
) -> Any:
    """Return minus the log probability of the targets over all alignments.

    `output` are logits (batch, steps, classes); class `mask_index` is the blank.

    >>> loss = ctc_loss([[1, 0]], [[[0.0, 0.0], [0.0, 0.0]]], [1], [2])
    >>> f"{float(loss[0]):.4f}"
    '0.2877'
    """
    logs = log_softmax(_float(output))
    lengths, steps = as_operand(target_length), as_operand(output_length)
    return negative_log_probability(logs, as_operand(target), lengths, steps, mask_index)


def ctc_decode(
    inputs: Any,
    sequence_lengths: Any,
    strategy: str = "greedy",
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
    mask_index: int | None = 0,
) -> tuple[Any, Any]:
    """Return the most probable labels, ended by -1, and their scores.

    `inputs` are logits (batch, steps, classes). The labels are (paths, batch, steps).

    >>> labels, _ = ctc_decode([[[0.0, 2.0], [0.0, 1.0], [3.0, 0.0]]], [3])
    >>> labels.tolist()
    [[[1, -1, -1]]]
    """
    x, lengths = _float(inputs), cast(as_operand(sequence_lengths), "int32")
    blank = x.shape[2] - 1 if mask_index is None else mask_index
    if strategy == "greedy":
        return _greedy(x, lengths, merge_repeated, blank)
    if strategy == "beam_search":
        return _beam_search(x, lengths, beam_width, top_paths, blank)
    raise ArgumentError(f"strategy must be 'greedy' or 'beam_search'. Got {strategy!r}.")


def _float(x: Any) -> Any:
    values = as_operand(x)
    return values if as_dtype(values.dtype).name == "float64" else cast(values, "float32")


def _greedy(x: Any, lengths: Any, merge_repeated: bool, blank: int) -> tuple[Any, Any]:
    labels, scores = cast(argmax(x, axis=-1), "int32"), reduce_max(x, axis=-1)
    steps = numbers(x.shape[1], dtype="int32")
    is_over = greater_equal(expand_dims(steps, 0), expand_dims(lengths, -1))
    labels, scores = where(is_over, blank, labels), where(is_over, zeros_like(scores), scores)
    if merge_repeated:
        is_equal = equal(labels[:, 1:], labels[:, :-1])
        merged = where(is_equal, blank, labels[:, 1:])
        labels = concat([labels[:, :1], merged], axis=1)
    is_blank = equal(labels, blank)
    labels = where(is_blank, full_like(labels, _END), labels)
    order = argsort(where(is_blank, x.shape[1], expand_dims(steps, 0)), axis=-1, stable=True)
    labels = gather(labels, order, axis=1, batch_dims=1)
    return expand_dims(labels, 0), expand_dims(-reduce_sum(scores, axis=1), -1)


def _beam_search(x: Any, lengths: Any, width: int, top: int, blank: int) -> tuple[Any, Any]:
    logs = np.asarray(log_softmax(x))
    paths = np.full((top, len(logs), logs.shape[1]), _END, np.int32)
    scores = np.zeros((len(logs), top), logs.dtype)
    for row, steps in enumerate(np.asarray(lengths).tolist()):
        found = most_probable(logs[row, :steps], blank, width)
        for place, (labels, score) in enumerate(found[:top]):
            paths[place, row, : len(labels)] = labels
            scores[row, place] = score
    return constant(paths), constant(scores)
