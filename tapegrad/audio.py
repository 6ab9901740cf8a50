"""TensorFlow's `tf.audio`: sound in WAV format, as tensors."""

from __future__ import annotations

import io as _io
import wave as _wave
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, FileFormatError, ShapeError
from tapegrad.ops.creation import as_constant

_LARGEST = 32768.0


class DecodedWav(NamedTuple):
    """Sound as float32 `[samples, channels]` from -1 to 1, and its samples per second."""

    audio: Tensor
    sample_rate: Tensor


def decode_wav(
    contents: Any, desired_channels: int = -1, desired_samples: int = -1, name: str | None = None
) -> DecodedWav:
    """Return the samples of a WAV file of 16 bits per sample, and its sample rate.

    `contents` are the bytes of the file. With `desired_samples` the sound is cut, or padded with
    zeros; with `desired_channels` the last channel is repeated, or channels are left out.

    >>> data = encode_wav([[0.5], [-0.5]], 8000)
    >>> sound, rate = decode_wav(data)
    >>> sound.tolist(), int(rate)
    ([[0.5], [-0.5]], 8000)
    """
    data = _bytes_of(contents)
    try:
        with _wave.open(_io.BytesIO(data)) as file:
            channels, width, rate, count = file.getparams()[:4]
            frames = file.readframes(count)
    except (_wave.Error, EOFError, RuntimeError) as error:  # the last: a chunk that is cut off
        reason = str(error) or "it ends too early"
        raise FileFormatError(f"decode_wav got no readable WAV file: {reason}.") from error
    if width != 2:
        raise ArgumentError(f"decode_wav reads 16 bits per sample. Got {8 * width} bits.")
    sound = np.frombuffer(frames, "<i2").reshape(-1, channels).astype("float32") / _LARGEST
    if desired_channels > channels:
        sound = np.concatenate([sound, *[sound[:, -1:]] * (desired_channels - channels)], axis=1)
    elif desired_channels >= 0:
        sound = sound[:, :desired_channels]
    if desired_samples >= 0:
        sound = sound[:desired_samples]
        sound = np.pad(sound, ((0, desired_samples - len(sound)), (0, 0)))
    return DecodedWav(as_constant(sound), as_constant(np.asarray(rate, "int32")))


def encode_wav(audio: Any, sample_rate: Any, name: str | None = None) -> bytes:
    """Return sound `[samples, channels]` from -1 to 1 as the bytes of a WAV file of 16 bits.

    >>> len(encode_wav([[0.5], [-0.5]], 8000))
    48
    """
    sound = np.asarray(audio, "float32")
    if sound.ndim != 2:
        raise ShapeError(f"encode_wav takes sound [samples, channels]. Got shape {sound.shape}.")
    rate = np.asarray(sample_rate)
    if rate.ndim or rate.dtype.kind not in "iu" or not 0 < rate < 2**32:
        raise ArgumentError(f"sample_rate must be an integer from 1 on. Got {sample_rate!r:.80}.")
    values = np.clip(np.rint(sound * _LARGEST), -_LARGEST, _LARGEST - 1).astype("<i2")
    file = _io.BytesIO()
    with _wave.open(file, "wb") as out:
        out.setnchannels(sound.shape[1])
        out.setsampwidth(2)
        out.setframerate(int(rate))
        out.writeframes(values.tobytes())
    return file.getvalue()


def _bytes_of(contents: Any) -> bytes:
    value = contents.numpy() if hasattr(contents, "numpy") else contents
    if isinstance(value, np.ndarray):
        value = value.item()
    if not isinstance(value, bytes):
        raise ArgumentError(
            "decode_wav takes the bytes of a file, as from tapegrad.io.read_file. "
            f"Got {type(value).__name__}."
        )
    return value


__all__ = ["decode_wav", "encode_wav"]

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absence("audio", name)
