"""Convolution, filters and spectra against SciPy, and their derivatives by differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import tapegrad as tf
from tapegrad.scipy import signal
from tests.scipy.test_stats_gradients import check

rng = np.random.default_rng(5)
LONG, SHORT = rng.normal(size=9), rng.normal(size=4)
IMAGE, KERNEL = rng.normal(size=(6, 5)), rng.normal(size=(3, 2))
ROWS = rng.normal(size=(2, 37))

modes = pytest.mark.parametrize("mode", ["full", "same", "valid"])


@modes
@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
@pytest.mark.parametrize(
    ("x", "w"),
    [(LONG, SHORT), (SHORT, LONG), (IMAGE, KERNEL), (KERNEL, IMAGE), (LONG[:5], LONG[:5])],
    ids=["long", "short", "image", "kernel", "equal"],
)
def test_convolutions(name, mode, x, w):
    ours = getattr(signal, name)

    wanted = getattr(scipy.signal, name)(x, w, mode)
    np.testing.assert_allclose(ours(x, w, mode).numpy(), wanted, rtol=1e-10, atol=1e-12)
    check(lambda x, w: ours(x, w, mode), {"x": x, "w": w}, ["x", "w"])


@modes
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_convolutions_of_matrices(name, mode):
    wanted = getattr(scipy.signal, name)(IMAGE, KERNEL, mode)

    np.testing.assert_allclose(
        getattr(signal, name)(IMAGE, KERNEL, mode).numpy(), wanted, atol=1e-12
    )


@modes
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm", "pad", "circular"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_matrices_go_on_beyond_their_edges(name, boundary, mode):
    ours, theirs = getattr(signal, name), getattr(scipy.signal, name)

    for x, w in ((IMAGE, KERNEL), (KERNEL, IMAGE[:, :3])):
        wanted = theirs(x, w, mode, boundary, 0.7)
        np.testing.assert_allclose(ours(x, w, mode, boundary, 0.7), wanted, atol=1e-12)
    check(lambda x, w: ours(x, w, mode, boundary, 0.7), {"x": IMAGE[:4], "w": KERNEL}, ["x", "w"])


@pytest.mark.parametrize("kinds", [("int64", "int64"), ("uint8", "uint8"), ("int8", "uint16")])
def test_whole_numbers_give_whole_numbers(kinds):
    x, w = (rng.integers(0, 120, 7).astype(kind) for kind in kinds)
    image, kernel = x[:6].reshape(2, 3), w[:4].reshape(2, 2)

    for name in ("convolve", "correlate"):
        for pair in ((x, w), (image, kernel), (x[0], w[0])):
            ours, theirs = (getattr(lib, name)(*pair) for lib in (signal, scipy.signal))
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
    for name in ("convolve2d", "correlate2d"):
        ours, theirs = (getattr(lib, name)(image, kernel) for lib in (signal, scipy.signal))
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_complex_sequences():
    x, w = LONG + 1j * LONG[::-1], SHORT - 0.3j

    for name in ("convolve", "correlate", "fftconvolve"):
        wanted = getattr(scipy.signal, name)(x, w)
        np.testing.assert_allclose(getattr(signal, name)(x, w).numpy(), wanted, atol=1e-12)


def test_some_axes_alone():
    x, w = rng.normal(size=(2, 8)), rng.normal(size=(1, 3))
    wanted = scipy.signal.fftconvolve(x, w, "same", axes=1)

    np.testing.assert_allclose(signal.fftconvolve(x, w, "same", axes=1).numpy(), wanted, atol=1e-12)
    np.testing.assert_allclose(
        signal.convolve(LONG, SHORT, method="fft").numpy(), np.convolve(LONG, SHORT), atol=1e-12
    )


FILTERS = [
    ([0.5, 0.2, 0.1], [2.0]),
    ([1.0, 0.3], [1.5, -0.7]),
    *(tuple(np.array(part) for part in scipy.signal.butter(order, 0.3)) for order in (2, 4)),
    ([1.0], np.r_[1.0, np.full(50, 0.01)]),
]


@pytest.mark.parametrize(("b", "a"), FILTERS, ids=["fir", "first", "butter2", "butter4", "long"])
@pytest.mark.parametrize("axis", [0, -1])
def test_recursive_filters(b, a, axis):
    wanted = scipy.signal.lfilter(b, a, ROWS, axis)
    np.testing.assert_allclose(signal.lfilter(b, a, ROWS, axis).numpy(), wanted, atol=1e-12)

    values = {"b": np.array(b), "a": np.array(a), "x": LONG}
    weights = np.arange(9.0)
    check(lambda b, a, x: weights * signal.lfilter(b, a, x), values, list(values))


@pytest.mark.parametrize("n", [1, 3, 37, 1300])
@pytest.mark.parametrize("coefficients", FILTERS[:4], ids=["fir", "first", "butter2", "butter4"])
def test_filters_go_on_where_earlier_ones_ended(coefficients, n):
    b, a = coefficients
    order = max(len(a), len(b)) - 1
    for axis, shape, first in ((1, (2, n), (2, order)), (0, (n, 2), (order, 1))):
        x, zi = rng.normal(size=shape), rng.normal(size=first)

        ours, theirs = (lib.lfilter(b, a, x, axis, zi) for lib in (signal, scipy.signal))

        for mine, wanted in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(mine, wanted, atol=1e-12)


def test_filters_of_long_signals_have_the_values_and_derivatives_of_short_ones():
    b, a = FILTERS[2]
    x = rng.normal(size=1500)
    np.testing.assert_allclose(signal.lfilter(b, a, x), scipy.signal.lfilter(b, a, x), atol=1e-12)

    weights = np.sin(np.arange(1500.0))
    slope = tf.grad(lambda x: tf.reduce_sum(weights * signal.lfilter(b, a, x)))(tf.constant(x))
    # The transpose of a filter at rest runs backwards.
    wanted = scipy.signal.lfilter(b, a, weights[::-1])[::-1]
    np.testing.assert_allclose(slope, wanted, atol=1e-12)


def test_states_of_filters_are_differentiable():
    b, a = FILTERS[2]
    values = {"b": b, "a": a, "x": LONG, "zi": rng.normal(size=2)}
    check(lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi)[0], values, list(values))
    check(lambda b, a, x, zi: signal.lfilter(b, a, x, zi=zi)[1], values, list(values))


def test_a_filter_of_nothing_keeps_its_state():
    y, state = signal.lfilter([1.0], [1.0, 0.5], np.zeros((2, 0)), zi=[[3.0]])

    assert y.shape == signal.lfilter([1.0], [1.0, 0.5], np.zeros((2, 0))).shape == (2, 0)
    assert state.tolist() == [[3.0], [3.0]]


def test_a_number_is_no_sequence_to_correlate_with():
    with pytest.raises(tf.errors.ShapeError, match="correlate needs two non-empty arrays"):
        signal.correlate(1.0, LONG)


@pytest.mark.parametrize("zi", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0])
def test_a_state_of_another_length_is_refused(zi):
    with pytest.raises(tf.errors.ShapeError, match="lfilter needs 2 entries of zi"):
        signal.lfilter([1.0], [1.0, 0.5, 0.2], LONG, zi=zi)


def test_filters_in_vmap_and_in_recorded_functions():
    b, a = FILTERS[2]
    wanted = signal.lfilter(b, a, ROWS).numpy()

    together = tf.vmap(lambda x: signal.lfilter(b, a, x))(tf.constant(ROWS)).numpy()
    np.testing.assert_allclose(together, wanted, atol=1e-12)
    run = tf.function(lambda x: signal.lfilter(b, a, x))
    run(tf.constant(ROWS))
    np.testing.assert_allclose(run(tf.constant(ROWS)).numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("n", [None, 8, 50])
def test_analytic_signals(n):
    np.testing.assert_allclose(
        signal.hilbert(ROWS, n).numpy(), scipy.signal.hilbert(ROWS, n), atol=1e-12
    )
    check(lambda x: tf.abs(signal.hilbert(x)), {"x": LONG}, ["x"])


@pytest.mark.parametrize("kind", ["linear", "constant"])
@pytest.mark.parametrize("axis", [0, 1])
def test_trends(kind, axis):
    data = ROWS + np.arange(37)
    wanted = scipy.signal.detrend(data, axis, kind)

    np.testing.assert_allclose(signal.detrend(data, axis, kind).numpy(), wanted, atol=1e-11)


WINDOWS = [
    "boxcar", "hann", "hamming", "blackman", "nuttall", "blackmanharris", "bartlett",
    ("kaiser", 5.0), ("gaussian", 3.0),
]  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("length", [1, 8, 9])
@pytest.mark.parametrize("periodic", [False, True])
def test_windows(window, length, periodic):
    wanted = scipy.signal.get_window(window, length, periodic)

    np.testing.assert_allclose(
        signal.get_window(window, length, periodic).numpy(), wanted, atol=1e-14
    )


CUTS = [
    {"nperseg": 8},
    {"nperseg": 9, "noverlap": 6, "nfft": 16},
    {"nperseg": 8, "window": "boxcar", "noverlap": 0},
    {"nperseg": 8, "window": ("kaiser", 4.0), "return_onesided": False},
]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    "options", [{}, {"boundary": None, "padded": False}, {"scaling": "psd", "detrend": "constant"}]
)
def test_short_time_transforms(cut, options):
    found = signal.stft(ROWS, 10.0, **cut, **options)
    wanted = scipy.signal.stft(ROWS, 10.0, **cut, **options)

    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-12)


@pytest.mark.parametrize("cut", CUTS[:3])
def test_signals_from_short_time_transforms(cut):
    z = scipy.signal.stft(ROWS[0], 10.0, **cut)[2]
    found = signal.istft(z, 10.0, **cut)
    wanted = scipy.signal.istft(z, 10.0, **cut)

    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-12)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("options", [{}, {"scaling": "spectrum", "detrend": False}, {"axis": 1}])
def test_densities_of_power(cut, options):
    other = ROWS[:, ::-1] + 1.0
    for ours, theirs in [
        (
            signal.welch(ROWS, 10.0, **cut, **options),
            scipy.signal.welch(ROWS, 10.0, **cut, **options),
        ),
        (
            signal.csd(ROWS, other, 10.0, **cut, **options),
            scipy.signal.csd(ROWS, other, 10.0, **cut, **options),
        ),
    ]:
        np.testing.assert_allclose(ours[0].numpy(), theirs[0])
        np.testing.assert_allclose(ours[1].numpy(), theirs[1], atol=1e-12)


def test_the_power_of_a_whole_signal():
    found, wanted = signal.periodogram(ROWS, 3.0), scipy.signal.periodogram(ROWS, 3.0)

    np.testing.assert_allclose(found[1].numpy(), wanted[1], atol=1e-12)


def test_slopes_of_spectra():
    weights = rng.normal(size=(5,))

    check(lambda x: weights * signal.welch(x, nperseg=8)[1], {"x": LONG}, ["x"])
    check(lambda x: tf.abs(signal.stft(x, nperseg=4)[2]), {"x": LONG}, ["x"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: signal.convolve(LONG, KERNEL), "same number of axes"),
        (lambda: signal.convolve(LONG, SHORT, "middle"), "mode of convolve must be"),
        (lambda: signal.convolve(LONG, SHORT, method="slow"), "method must be 'auto'"),
        (lambda: signal.convolve(IMAGE, KERNEL, method="direct"), "needs 1-D arrays"),
        (
            lambda: signal.convolve(IMAGE, KERNEL.T[:, :2].repeat(4, 1), "valid"),
            "at least as large",
        ),
        (lambda: signal.convolve2d(LONG, SHORT), "convolve2d needs matrices"),
        (lambda: signal.lfilter(KERNEL, [1.0], LONG), "vectors b and a"),
        (lambda: signal.detrend(LONG, type="cubic"), "type must be 'linear'"),
        (lambda: signal.get_window("round", 4), "The window must be one of"),
        (lambda: signal.stft(LONG, nperseg=4, noverlap=4), "0 <= noverlap < nperseg"),
        (lambda: signal.stft(LONG, boundary="even"), "boundary must be 'zeros' or None"),
        (lambda: signal.welch(LONG, scaling="loud"), "scaling must be 'density' or 'spectrum'"),
        (lambda: signal.welch(LONG, window=[1.0, 2.0], nperseg=3), "The window needs 3 values"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_every_name_is_scipys():
    assert [name for name in signal.__all__ if not hasattr(scipy.signal, name)] == []


@pytest.mark.parametrize("bp", [0, 5, [5, 20], [20, 5, 5], np.array([1, 36]), 37])
@pytest.mark.parametrize("kind", ["linear", "constant"])
def test_trends_between_breakpoints(bp, kind):
    for axis, data in ((1, ROWS), (0, ROWS.T)):
        wanted = scipy.signal.detrend(data, axis, kind, bp)
        np.testing.assert_allclose(signal.detrend(data, axis, kind, bp), wanted, atol=1e-11)
    check(lambda x: signal.detrend(x, bp=[3, 5]), {"x": LONG}, ["x"])


WINDOWS = [
    *("barthann", "bohman", "exponential", "lanczos", "parzen", "triang", "tukey", "sinc"),
    *(("tukey", alpha) for alpha in (0, 0.25, 0.9, 2.0)),
    *(("exponential", None, 2.5), ("general gaussian", 1.5, 4.0)),
    *(("general_cosine", [0.5, 0.3, 0.2]), ("general_hamming", 0.7), "hann_symmetric"),
]


@pytest.mark.parametrize("length", [1, 2, 5, 8, 31])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows_with_other_shapes(window, length):
    for periodic in (True, False):
        wanted = scipy.signal.get_window(window, length, periodic)
        np.testing.assert_allclose(signal.get_window(window, length, periodic), wanted, atol=1e-14)


@pytest.mark.parametrize("window", ["kaiser", ("hann", 1.0), ("gaussian",), ("tukey", 1.0, 2.0)])
def test_windows_name_their_parameters(window):
    with pytest.raises(tf.errors.ArgumentError, match="takes the parameters"):
        signal.get_window(window, 8)


def test_breakpoints_beyond_the_signal_are_refused():
    with pytest.raises(tf.errors.ArgumentError, match="between 0 and 9"):
        signal.detrend(LONG, bp=[3, 10])
