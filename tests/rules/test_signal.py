"""Signals beyond the table of samples: windows, lengths, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tapegrad import signal
from tapegrad.errors import ArgumentError, ShapeError


@pytest.mark.parametrize("length", [2, 6, 8])
@pytest.mark.parametrize("name", ["hann", "hamming"])
def test_windows_of_even_length_are_periodic_unless_asked_otherwise(name, length):
    windows = pytest.importorskip("scipy.signal.windows")
    window, expected = getattr(signal, f"{name}_window"), getattr(windows, name)

    np.testing.assert_allclose(window(length, dtype="float64"), expected(length, sym=False))
    np.testing.assert_allclose(window(length, False, "float64"), expected(length), atol=1e-15)


def test_windows_of_odd_length_are_symmetric_as_in_tensorflow():
    window = signal.hann_window(5).numpy()

    np.testing.assert_allclose(window, [0, 0.5, 1, 0.5, 0], atol=1e-7)


def test_a_window_of_one_entry_is_one():
    windows = [signal.hann_window(1), signal.hamming_window(1), signal.kaiser_window(1)]

    assert [window.numpy().tolist() for window in windows] == [[1.0]] * 3


def test_the_squares_of_the_vorbis_window_add_up_with_their_shift():
    squares = signal.vorbis_window(8, "float64").numpy() ** 2

    np.testing.assert_allclose(squares[:4] + squares[4:], 1.0)


def test_a_kaiser_window_with_a_large_beta_does_not_overflow():
    window = signal.kaiser_window(3, 500.0).numpy()

    np.testing.assert_allclose(window, [0, 1, 0], atol=1e-6)


def test_a_signal_that_is_shorter_than_a_frame_has_none_or_one_that_is_padded():
    short = [1.0, 2.0]

    assert signal.frame(short, 3, 3).shape == (0, 3)
    assert signal.frame(short, 3, 3, pad_end=True).numpy().tolist() == [[1.0, 2.0, 0.0]]


def test_frames_of_whole_numbers_stay_whole():
    assert signal.frame([1, 2, 3], 2, 1).numpy().tolist() == [[1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: signal.frame([1.0], 0, 1), ArgumentError, "frame_length. Got 0"),
        (lambda: signal.frame([1.0], 1, 1.5), ArgumentError, "frame_step. Got 1.5"),
        (lambda: signal.frame(1.0, 1, 1), ShapeError, "at least one dimension"),
        (lambda: signal.overlap_and_add([1.0], 1), ShapeError, r"Got shape \(1,\)"),
        (lambda: signal.hann_window(0), ArgumentError, "window_length. Got 0"),
        (lambda: signal.convolve([1.0], [[1.0]]), ShapeError, "two one-dimensional sequences"),
        (lambda: signal.correlate([1.0], []), ShapeError, "at least one entry"),
        (lambda: signal.convolve([1.0], [1.0], "half"), ArgumentError, "Got 'half'"),
        (
            lambda: signal.linear_to_mel_weight_matrix(upper_edge_hertz=5000.0),
            ArgumentError,
            "half the sample rate",
        ),
    ],
)
def test_what_cannot_be_done_is_said(call, error, words):
    with pytest.raises(error, match=words):
        call()
