"""Sound files."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError


def written(values: np.ndarray, rate: int = 16000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(values.shape[1])
        out.setsampwidth(values.dtype.itemsize)
        out.setframerate(rate)
        out.writeframes(values.tobytes())
    return file.getvalue()


def test_samples_are_read_as_numbers_from_minus_one_to_one() -> None:
    values = np.array([[0, 16384], [-32768, 32767]], "<i2")

    sound, rate = tf.audio.decode_wav(written(values))

    np.testing.assert_array_equal(sound, values / 32768)
    assert (int(rate), sound.dtype) == (16000, tf.float32)


@pytest.mark.parametrize(("channels", "samples", "shape"), [(1, 4, (4, 1)), (3, 1, (1, 3))])
def test_sound_is_cut_and_padded(channels: int, samples: int, shape: tuple[int, int]) -> None:
    values = np.array([[1, 2], [3, 4]], "<i2")

    sound = tf.audio.decode_wav(written(values), channels, samples).audio.numpy() * 32768

    assert sound.shape == shape
    assert sound[0].tolist() == ([1] if channels == 1 else [1, 2, 2])
    assert samples == 1 or sound[2:].tolist() == [[0], [0]]


def test_what_is_written_is_read_again() -> None:
    sound = np.random.default_rng(0).uniform(-1, 1, (50, 2))

    again = tf.audio.decode_wav(tf.audio.encode_wav(sound, 8000))

    np.testing.assert_allclose(again.audio, sound, atol=1 / 32768)
    assert int(again.sample_rate) == 8000


def test_other_files_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no readable WAV file"):
        tf.audio.decode_wav(b"not a file")
    with pytest.raises(ArgumentError, match="Got 8 bits"):
        tf.audio.decode_wav(written(np.zeros((2, 1), "u1")))
    with pytest.raises(ArgumentError, match="takes the bytes of a file"):
        tf.audio.decode_wav(3)
