"""Decoders of CTC: the most probable labels, found on the host."""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.nn.softmax import log_softmax
from tapegrad.sparse.tensor import SparseTensor, as_tensor


def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Any]:
    """Take the most probable class of each step; return the labels, and minus the sum of logits.

    `inputs` are (steps, batch, classes). The blank is the last class unless `blank_index` says
    otherwise.

    >>> labels, score = ctc_greedy_decoder([[[3.0, 0.0]], [[2.0, 0.0]], [[0.0, 1.0]]], [3])
    >>> labels[0].values.tolist(), score.tolist()
    ([0], [[-6.0]])
    """
    logits, steps = _inputs("ctc_greedy_decoder", inputs, sequence_length)
    blank = _blank(blank_index, logits.shape[2])
    best = logits.argmax(axis=2)
    rows = []
    scores = np.zeros((logits.shape[1], 1), logits.dtype)
    for row, count in enumerate(steps):
        classes = best[:count, row]
        scores[row] = -logits[np.arange(count), row, classes].sum()
        is_kept = classes != blank
        if merge_repeated and count:
            is_kept[1:] &= classes[1:] != classes[:-1]
        rows.append(classes[is_kept].tolist())
    return [sparse_rows(rows)], as_tensor(scores)


def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Any]:
    """Search for the most probable labels; return them, the best first, and log probabilities.

    `inputs` are (steps, batch, classes); the last class is the blank.

    >>> inputs = [[[0.0, 1.0]], [[0.0, 1.0]]]
    >>> labels, scores = ctc_beam_search_decoder(inputs, [2], top_paths=2)
    >>> [one.values.tolist() for one in labels], [f"{one:.3f}" for one in scores[0].tolist()]
    ([[], [0]], ['-0.627', '-0.765'])
    """
    logits, steps = _inputs("ctc_beam_search_decoder", inputs, sequence_length)
    if not 1 <= top_paths <= beam_width:
        raise ArgumentError(
            f"ctc_beam_search_decoder needs top_paths between 1 and beam_width={beam_width}. Got "
            f"{top_paths}."
        )
    logs = np.asarray(log_softmax(as_tensor(logits)))
    found = [
        most_probable(logs[:count, row], logs.shape[2] - 1, beam_width)[:top_paths]
        for row, count in enumerate(steps)
    ]
    scores = np.full((len(found), top_paths), -np.inf, logs.dtype)
    paths: list[list[list[int]]] = [[[] for _ in found] for _ in range(top_paths)]
    for row, beams in enumerate(found):
        for place, (labels, score) in enumerate(beams):
            paths[place][row], scores[row, place] = list(labels), score
    return [sparse_rows(rows) for rows in paths], as_tensor(scores)


def merge_repeated_labels(labels: SparseTensor) -> SparseTensor:
    """Return the labels of each row with equal neighbours merged.

    >>> labels = SparseTensor([[0, 0], [0, 1], [1, 0]], [5, 5, 5], [2, 2])
    >>> merge_repeated_labels(labels).values.tolist()
    [5, 5]
    """
    rows: list[list[int]] = [[] for _ in range(labels.shape[0])]
    for (row, _), label in zip(labels.places().tolist(), np.asarray(labels.values).tolist()):
        if not rows[row] or rows[row][-1] != label:
            rows[row].append(label)
    return sparse_rows(rows, np.asarray(labels.values).dtype)


def most_probable(logs: np.ndarray, blank: int, width: int) -> list[tuple[tuple[int, ...], float]]:
    """Return label sequences with log probabilities, the best first, by a search in prefixes.

    `logs` are (steps, classes). Of all prefixes, `width` are kept after each step.

    >>> import numpy as np
    >>> labels, score = most_probable(np.log([[0.6, 0.4], [0.6, 0.4]]), 1, 10)[0]
    >>> labels, f"{np.exp(score):.2f}"
    ((0,), '0.84')
    """
    labels = [k for k in range(logs.shape[1]) if k != blank]
    # The log probabilities of ending in a blank, and in a label, of each prefix.
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}
    for now in logs.tolist():
        following: dict[tuple[int, ...], tuple[float, float]] = {}
        for prefix, (in_blank, in_label) in beams.items():
            total = _add(in_blank, in_label)
            last = prefix[-1] if prefix else None
            stays = in_label + now[last] if last is not None else -math.inf
            ends = following.get(prefix, (-math.inf, -math.inf))
            following[prefix] = _add(ends[0], total + now[blank]), _add(ends[1], stays)
            for label in labels:
                grown = (*prefix, label)
                ends = following.get(grown, (-math.inf, -math.inf))
                before = in_blank if label == last else total
                following[grown] = ends[0], _add(ends[1], before + now[label])
        beams = dict(heapq.nlargest(width, following.items(), key=lambda one: _add(*one[1])))
    scored = [(prefix, _add(*ends)) for prefix, ends in beams.items()]
    return sorted(scored, key=lambda one: -one[1])


def _add(x: float, y: float) -> float:
    """Return log(exp(x) + exp(y))."""
    larger, smaller = (x, y) if x > y else (y, x)
    return larger if smaller == -math.inf else larger + math.log1p(math.exp(smaller - larger))


def sparse_rows(rows: list[list[int]], dtype: Any = np.int64) -> SparseTensor:
    """Return lists of integers as a sparse matrix, as wide as the longest of them.

    >>> sparse_rows([[5, 6], [], [7]]).indices.tolist()
    [[0, 0], [0, 1], [2, 0]]
    """
    places = [(row, k) for row, labels in enumerate(rows) for k in range(len(labels))]
    values = np.array([label for labels in rows for label in labels], dtype)
    shape = (len(rows), max((len(labels) for labels in rows), default=0))
    return SparseTensor(np.array(places, np.int64).reshape(-1, 2), as_tensor(values), shape)


def _inputs(name: str, inputs: Any, sequence_length: Any) -> tuple[np.ndarray, list[int]]:
    logits = np.asarray(as_operand(inputs))
    steps = np.asarray(as_operand(sequence_length))
    if logits.ndim != 3 or steps.shape != (logits.shape[1],):
        raise ShapeError(
            f"{name} takes inputs of shape (steps, batch, classes) and sequence_length of shape "
            f"(batch,). Got {logits.shape} and {steps.shape}."
        )
    if steps.size and int(steps.max()) > logits.shape[0]:
        raise ArgumentError(
            f"{name} got inputs of {logits.shape[0]} steps. sequence_length asks for "
            f"{int(steps.max())}."
        )
    return logits, steps.tolist()


def _blank(blank_index: int | None, classes: int) -> int:
    wanted = -1 if blank_index is None else blank_index
    if not -classes <= wanted < classes:
        raise ArgumentError(f"blank_index must be one of {classes} classes. Got {blank_index}.")
    return wanted % classes
