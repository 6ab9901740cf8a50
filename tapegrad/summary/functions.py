"""The summaries: numbers, histograms, images, sounds and text.

Inside a recorded function they are steps of the program, which write on each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.audio import encode_wav
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.strings import is_text, text_array
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras.callbacks import summaries
from tapegrad.program.record.effects import act
from tapegrad.summary.writers import checked_step, current_writer


def _write(data: Any, step: Any, made: Callable[[np.ndarray], bytes]) -> bool:
    """Write a summary of a tensor, now and in each replay; return whether there is a writer."""
    at, writer = checked_step(step) if current_writer() is not None else 0, current_writer()
    if writer is None:
        return False

    def action(values: Sequence[np.ndarray]) -> None:
        writer.add(made(values[0]), int(values[1]))

    act(action, [_as_tensor(data), _as_tensor(at)], "tapegrad.summary")
    return True


def _as_tensor(value: Any) -> Tensor:
    if isinstance(value, Variable):
        found: Tensor = value.read_value()
        return found
    return to_tensor(np.int64(value) if type(value) is int else value)


def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> bool:
    """Write a number; return whether a writer is there.

    >>> scalar("loss", 0.5, step=0)
    False
    """

    def made(value: np.ndarray) -> bytes:
        if value.size != 1:
            raise ShapeError(f"summary.scalar takes one number. Got shape {value.shape}.")
        return summaries.scalar(name, float(value.item()))

    return _write(data, step, made)


def histogram(
    name: str,
    data: Any,
    step: Any = None,
    buckets: int | None = None,
    description: str | None = None,
) -> bool:
    """Write a histogram of the values of a tensor, with 30 buckets.

    >>> histogram("weights", [0.0, 1.0], step=0)
    False
    """
    count = summaries.BUCKETS if buckets is None else int(buckets)
    return _write(data, step, lambda value: summaries.histogram(name, value, count))


def image(
    name: str,
    data: Any,
    step: Any = None,
    max_outputs: int = 3,
    description: str | None = None,
) -> bool:
    """Write images of shape (count, height, width, channels): uint8, or floats from 0 to 1.

    >>> image("input", np.zeros((1, 2, 2, 3), "uint8"), step=0)
    False
    """

    def made(value: np.ndarray) -> bytes:
        if value.ndim != 4 or value.shape[-1] not in (1, 2, 3, 4):
            raise ShapeError(
                "summary.image takes shape (count, height, width, channels) with 1 to 4 channels. "
                f"Got {value.shape}."
            )
        pixels = value
        if value.dtype.kind == "f":
            pixels = np.clip(np.nan_to_num(value) * 255.5, 0, 255)
        return summaries.images(name, pixels.astype(np.uint8), max_outputs)

    return _write(data, step, made)


def audio(
    name: str,
    data: Any,
    sample_rate: Any,
    step: Any = None,
    max_outputs: int = 3,
    encoding: str | None = None,
    description: str | None = None,
) -> bool:
    """Write sounds of shape (count, samples, channels), floats from -1 to 1, as WAV files.

    >>> audio("voice", np.zeros((1, 80, 1), "float32"), 8000, step=0)
    False
    """
    if encoding not in (None, "wav"):
        raise ArgumentError(f"summary.audio takes encoding 'wav' or None. Got {encoding!r}.")

    def made(value: np.ndarray) -> bytes:
        if value.ndim != 3:
            raise ShapeError(
                f"summary.audio takes shape (count, samples, channels). Got {value.shape}."
            )
        return summaries.sounds(name, [encode_wav(one, sample_rate) for one in value[:max_outputs]])

    return _write(data, step, made)


def text(name: str, data: Any, step: Any = None, description: str | None = None) -> bool:
    """Write text, which TensorBoard shows as Markdown.

    >>> text("note", "some *words*", step=0)
    False
    """
    if not is_text(data):
        raise ArgumentTypeError(f"summary.text takes text. Got {type(data).__name__}.")
    texts = text_array(data)
    # Text is known on the host, so the tensor that the step reads is a placeholder.
    return _write(0, step, lambda _: summaries.text(name, texts.shape, texts.ravel().tolist()))
