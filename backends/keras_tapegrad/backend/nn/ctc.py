"""Connectionist temporal classification: the loss, and two decoders."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tg
import tapegrad.numpy as tnp
from keras_tapegrad.backend.nn.activations import log_softmax
from keras_tapegrad.backend.promotion import result_type
from keras_tapegrad.backend.tensors import convert_to_tensor
from tapegrad.keras import ops

_NEVER = -1e5
"""The logarithm of a probability that stands for 0, with finite gradients."""
_BLANK = -1


def ctc_loss(
    target: Any, output: Any, target_length: Any, output_length: Any, mask_index: int = 0
) -> Any:
    """Return minus the log probability of the targets, summed over all alignments.

    The states of an alignment are a blank before each label, the label, and a blank at the end.
    """
    labels = convert_to_tensor(target, "int32")
    logits = convert_to_tensor(output)
    logits = tg.cast(logits, result_type(logits.dtype, "float32"))
    lengths, steps = (convert_to_tensor(n, "int32") for n in (target_length, output_length))
    batch, size = labels.shape
    logs = log_softmax(logits)
    states = tnp.reshape(
        tnp.stack([tnp.full_like(labels, mask_index), labels], axis=2), (batch, 2 * size)
    )
    states = tnp.concatenate([states, tnp.full((batch, 1), mask_index, "int32")], axis=1)
    emitted = tnp.take_along_axis(logs, tnp.repeat(states[:, None], logs.shape[1], axis=1), axis=2)
    # A label may follow another label without a blank in between, unless they are equal.
    is_new = tnp.concatenate(
        [tnp.ones((batch, 1), "bool"), labels[:, 1:] != labels[:, :-1]], axis=1
    )
    skips = tnp.stack([tnp.zeros((batch, size), "bool"), is_new], axis=2)
    skips = tnp.concatenate(
        [tnp.reshape(skips, (batch, 2 * size)), tnp.zeros((batch, 1), "bool")], axis=1
    )

    def shifted(x: Any, n: int) -> Any:
        before = tnp.full((batch, n), _NEVER, x.dtype)
        return tnp.concatenate([before, x[:, :-n]], axis=1)

    def step(alpha: Any, x: Any) -> Any:
        emitted_now, is_over = x
        two_before = tnp.where(skips, shifted(alpha, 2), _NEVER)
        joined = tnp.logaddexp(tnp.logaddexp(alpha, shifted(alpha, 1)), two_before)
        following = tnp.where(is_over[:, None], alpha, joined + emitted_now)
        return following, None

    first = tnp.concatenate(
        [emitted[:, 0, :2], tnp.full((batch, 2 * size - 1), _NEVER, emitted.dtype)], axis=1
    )
    times = tnp.arange(1, logs.shape[1])
    is_over = times[:, None] >= steps[None, :]
    alpha, _ = ops.scan(step, first, (tnp.swapaxes(emitted[:, 1:], 0, 1), is_over))
    last = lengths[:, None] * 2
    at_blank = tnp.take_along_axis(alpha, last, axis=1)[:, 0]
    at_label = tnp.take_along_axis(alpha, tnp.maximum(last - 1, 0), axis=1)[:, 0]
    at_label = tnp.where(lengths > 0, at_label, _NEVER)
    return -tnp.logaddexp(at_blank, at_label)


def ctc_decode(
    inputs: Any,
    sequence_lengths: Any,
    strategy: str = "greedy",
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
    mask_index: int = 0,
) -> Any:
    """Return the most probable label sequences, ended by -1, and their scores."""
    x = convert_to_tensor(inputs)
    x = tg.cast(x, result_type(x.dtype, "float32"))
    lengths = convert_to_tensor(sequence_lengths, "int32")
    if strategy == "greedy":
        return _greedy(x, lengths, merge_repeated, mask_index)
    if strategy == "beam_search":
        return _beam_search(x, lengths, beam_width, top_paths, mask_index)
    raise ValueError(f"Invalid strategy {strategy!r}. Use 'greedy' or 'beam_search'.")


def _greedy(x: Any, lengths: Any, merge_repeated: bool, mask_index: int | None) -> Any:
    batch, size, classes = x.shape
    blank = classes - 1 if mask_index is None else mask_index
    labels, scores = tg.cast(tnp.argmax(x, axis=-1), "int32"), tnp.max(x, axis=-1)
    is_over = tnp.arange(size)[None] >= lengths[:, None]
    labels, scores = tnp.where(is_over, blank, labels), tnp.where(is_over, 0.0, scores)
    if merge_repeated:
        repeats = labels[:, 1:] == labels[:, :-1]
        repeats = tnp.concatenate([tnp.zeros((batch, 1), "bool"), repeats], axis=1)
        labels = tnp.where(repeats, blank, labels)
    is_blank = labels == blank
    labels = tg.cast(tnp.where(is_blank, _BLANK, labels), "int32")
    order = tnp.argsort(tnp.where(is_blank, size, tnp.arange(size)[None]), axis=-1)
    labels = tnp.take_along_axis(labels, order, axis=-1)
    return labels[None], -tnp.sum(scores, axis=1)[:, None]


def _beam_search(x: Any, lengths: Any, width: int, top: int, mask_index: int | None) -> Any:
    """Search on the host: prefixes are kept as tuples."""
    logs = np.asarray(log_softmax(x).numpy(), "float64")
    batch, size, classes = logs.shape
    blank = classes - 1 if mask_index is None else mask_index
    paths = np.full((top, batch, size), _BLANK, "int32")
    scores = np.zeros((batch, top), "float32")
    for row, steps in enumerate(lengths.numpy()):
        found = _prefixes(logs[row, : int(steps)], blank, width)
        for place, (prefix, score) in enumerate(found[:top]):
            paths[place, row, : len(prefix)] = prefix
            scores[row, place] = score
    return convert_to_tensor(paths), convert_to_tensor(scores, x.dtype)


def _prefixes(logs: Any, blank: int, width: int) -> list[tuple[tuple[int, ...], float]]:
    """Return label sequences and log probabilities, the most probable first."""
    none = -np.inf
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, none)}
    # The log probabilities of ending in a blank, and in a label
    for now in logs:
        following: dict[tuple[int, ...], list[float]] = {}

        def add(prefix: tuple[int, ...], kind: int, value: float) -> None:
            ends = following.setdefault(prefix, [none, none])  # noqa: B023
            ends[kind] = float(np.logaddexp(ends[kind], value))

        for prefix, (in_blank, in_label) in beams.items():
            total = float(np.logaddexp(in_blank, in_label))
            add(prefix, 0, total + now[blank])
            for label, value in enumerate(now):
                if label == blank:
                    continue
                if prefix and prefix[-1] == label:
                    add(prefix, 1, in_label + value)
                    add((*prefix, label), 1, in_blank + value)
                else:
                    add((*prefix, label), 1, total + value)
        ranked = sorted(following.items(), key=lambda one: -np.logaddexp(one[1][0], one[1][1]))
        beams = {prefix: (ends[0], ends[1]) for prefix, ends in ranked[:width]}
    scored = [(prefix, float(np.logaddexp(*ends))) for prefix, ends in beams.items()]
    return sorted(scored, key=lambda one: -one[1])
