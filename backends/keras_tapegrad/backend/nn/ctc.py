"""Connectionist temporal classification: the loss, and two decoders."""

from __future__ import annotations

from typing import Any

from keras_tapegrad.backend.tensors import convert_to_tensor
from tapegrad.keras.ops.alignment import ctc_decode as decode, ctc_loss as loss


def ctc_loss(
    target: Any, output: Any, target_length: Any, output_length: Any, mask_index: int = 0
) -> Any:
    """Return minus the log probability of the targets, summed over all alignments."""
    labels, lengths, steps = (
        convert_to_tensor(one, "int32") for one in (target, target_length, output_length)
    )
    return loss(labels, convert_to_tensor(output), lengths, steps, mask_index)


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
    if strategy not in ("greedy", "beam_search"):
        raise ValueError(f"Invalid strategy {strategy!r}. Use 'greedy' or 'beam_search'.")
    lengths = convert_to_tensor(sequence_lengths, "int32")
    x = convert_to_tensor(inputs)
    return decode(x, lengths, strategy, beam_width, top_paths, merge_repeated, mask_index)
