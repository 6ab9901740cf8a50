"""CTC functions of earlier Keras versions: of probabilities, whose last class is the blank."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.ctc.decoding import (
    ctc_beam_search_decoder,
    ctc_greedy_decoder,
    merge_repeated_labels,
)
from tapegrad.ctc.recursion import cut_at_blank, negative_log_probability
from tapegrad.keras.config import epsilon
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.nn.softmax import log_softmax
from tapegrad.ops.shape.functions import expand_dims, reshape, transpose
from tapegrad.sparse.tensor import SparseTensor, as_tensor


def ctc_batch_cost(y_true: Any, y_pred: Any, input_length: Any, label_length: Any) -> Any:
    """Return the CTC loss of each row, of shape (batch, 1).

    `y_pred` are probabilities (batch, steps, classes), the lengths are (batch, 1). A label that is
    no class, or the last class, ends its row.

    >>> cost = ctc_batch_cost([[0, 0]], [[[0.5, 0.5], [0.5, 0.5]]], [[2]], [[1]])
    >>> f"{float(cost[0, 0]):.4f}"
    '0.2877'
    """
    scores = as_operand(y_pred)
    logs = log_softmax(log(scores + epsilon()))
    steps, lengths = (reshape(as_operand(one), (-1,)) for one in (input_length, label_length))
    blank = scores.shape[-1] - 1
    labels, lengths = cut_at_blank(y_true, lengths, blank)
    return expand_dims(negative_log_probability(logs, labels, lengths, steps, blank), 1)


def ctc_decode(
    y_pred: Any, input_length: Any, greedy: bool = True, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[Any], Any]:
    """Return the most probable labels, padded with -1 to the number of steps, and scores.

    >>> labels, _ = ctc_decode([[[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]]], [3])
    >>> labels[0].tolist()
    [[0, 0, -1]]
    """
    scores = as_operand(y_pred)
    inputs = log(transpose(scores, (1, 0, 2)) + epsilon())
    if greedy:
        found, measure = ctc_greedy_decoder(inputs, input_length)
    else:
        found, measure = ctc_beam_search_decoder(inputs, input_length, beam_width, top_paths)
        found = [merge_repeated_labels(one) for one in found]
    return [_padded(one, tuple(scores.shape)[:2]) for one in found], measure


def ctc_label_dense_to_sparse(labels: Any, label_lengths: Any) -> SparseTensor:
    """Return the first labels of each row as a sparse tensor.

    >>> ctc_label_dense_to_sparse([[1, 2], [3, 0]], [2, 1]).values.tolist()
    [1, 2, 3]
    """
    rows, lengths = np.asarray(as_operand(labels)), np.asarray(as_operand(label_lengths)).ravel()
    places = np.argwhere(np.arange(rows.shape[1]) < lengths[:, None])
    return SparseTensor(places, as_tensor(rows[tuple(places.T)]), rows.shape)


def _padded(labels: SparseTensor, shape: tuple[int, ...]) -> Any:
    rows = np.full(shape, -1, np.int64)
    rows[tuple(labels.places().T)] = np.asarray(labels.values)
    return as_tensor(rows)
