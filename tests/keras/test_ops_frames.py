"""keras.ops: frames, short-time Fourier transforms, windows as columns, distances, LU, layouts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg, signal
from scipy.spatial import distance

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras import Input, Model, ops

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 50))
IMAGES = RNG.normal(size=(2, 3, 5, 6))


def check_gradient(function, x):
    """Compare the gradient along a direction with a central difference."""
    step = 1e-6 * RNG.normal(size=x.shape)
    weights = RNG.normal(size=np.shape(function(tf.constant(x))))
    value, slope = tf.jvp(lambda a: tf.reduce_sum(weights * function(a)), [x], [step])
    with tf.GradientTape() as tape:
        data = tf.constant(x)
        tape.watch(data)
        loss = tf.reduce_sum(weights * function(data))
    back = np.sum(tape.gradient(loss, data).numpy() * step)
    ends = [float(tf.reduce_sum(weights * function(tf.constant(x + s)))) for s in (step, -step)]
    assert float(value) == pytest.approx(float(loss))
    assert float(slope) == pytest.approx((ends[0] - ends[1]) / 2, rel=1e-5)
    assert back == pytest.approx(float(slope), rel=1e-9)


def test_sequences_are_the_windows_of_numpy():
    expected = np.lib.stride_tricks.sliding_window_view(X, 8, axis=-1)[:, ::3]
    np.testing.assert_array_equal(ops.extract_sequences(X, 8, 3), expected)


@pytest.mark.parametrize("window", ["hann", "hamming", None, np.linspace(0.1, 1.0, 8)])
@pytest.mark.parametrize("center", [True, False])
def test_stft_transforms_each_windowed_frame(window, center):
    real, imag = ops.stft(X, 8, 4, 12, window, center)

    x = np.pad(X, ((0, 0), (6, 6)), mode="reflect") if center else X
    taper = signal.get_window(window, 8) if isinstance(window, str) else window
    taper = np.ones(12) if taper is None else np.pad(taper, 2)
    frames = np.lib.stride_tricks.sliding_window_view(x, 12, axis=-1)[:, ::4]
    expected = np.fft.rfft(frames * taper)
    np.testing.assert_allclose(real, expected.real, atol=1e-12)
    np.testing.assert_allclose(imag, expected.imag, atol=1e-12)


@pytest.mark.parametrize("window", ["hann", np.linspace(0.5, 1.0, 16)])
def test_istft_returns_the_signal(window):
    x = X[:, :48]
    parts = ops.stft(x, 16, 4, 16, window)

    found = ops.istft(parts, 16, 4, 16, window=window)
    short = ops.istft(parts, 16, 4, 16, length=20, window=window)
    # Fewer windows overlap at the ends.
    np.testing.assert_allclose(found[:, 8:-8], x[:, 8:-8], atol=1e-12)
    np.testing.assert_array_equal(short, found[:, :20])


def test_gradients_of_transforms_reach_signals_and_windows():
    window = np.linspace(0.2, 1.0, 8)
    check_gradient(lambda x: tf.stack(ops.stft(x, 8, 4, 8)), X)
    check_gradient(lambda w: ops.stft(X, 8, 4, 8, w)[1], window)
    parts = tuple(ops.stft(X, 8, 4, 8))
    check_gradient(lambda w: ops.istft(parts, 8, 4, 8, window=w), window)


def test_transforms_run_in_functions_and_functional_models():
    start = Input((50,))
    model = Model(start, ops.stft(start, 8, 4, 8)[0])
    x = X.astype("float32")

    found = tf.function(lambda a: ops.istft(ops.stft(a, 8, 4, 8), 8, 4, 8))(x)

    np.testing.assert_allclose(model(x), ops.stft(x, 8, 4, 8)[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found, x[:, :48], atol=1e-5)


def test_wrong_transforms_are_refused():
    with pytest.raises(ArgumentError, match="must equal or exceed the 8 samples"):
        ops.stft(X, 8, 4, 6)
    with pytest.raises(ArgumentError, match=r"it is 'hann' or 'hamming'. Got 'flat'"):
        ops.stft(X, 8, 4, 8, "flat")
    with pytest.raises(ShapeError, match=r"must be equal to \(8,\). Got \(3,\)"):
        ops.stft(X, 8, 4, 8, np.ones(3))
    with pytest.raises(ArgumentTypeError, match=r"signals of `float32` or `float64`. Got int"):
        ops.stft(np.arange(50), 8, 4, 8)


# Windows as columns


@pytest.mark.parametrize("arguments", [(2, 1, 0, 1), ((2, 3), 1, (1, 0), (2, 1)), (2, 2, 1, 2)])
def test_unfold_takes_windows_and_fold_is_its_transpose(arguments):
    size, gap, edge, step = (np.broadcast_to(one, 2) for one in arguments)
    padded = np.pad(IMAGES, ((0, 0), (0, 0), (edge[0], edge[0]), (edge[1], edge[1])))
    reach = (size - 1) * gap + 1
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(2, 3))
    views = views[:, :, :: step[0], :: step[1], :: gap[0], :: gap[1]]
    expected = views.transpose(0, 1, 4, 5, 2, 3).reshape(2, 3 * size.prod(), -1)

    columns = ops.unfold(IMAGES, *arguments)
    weights = RNG.normal(size=expected.shape)
    back = ops.fold(weights, (5, 6), *arguments)

    np.testing.assert_array_equal(columns, expected)
    assert np.sum(back.numpy() * IMAGES) == pytest.approx(np.sum(weights * expected))
    check_gradient(lambda x: ops.unfold(x, *arguments), IMAGES)
    check_gradient(lambda x: ops.fold(x, (5, 6), *arguments), weights)


def test_windows_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="needs planes as large as a window"):
        ops.unfold(IMAGES, 9)
    with pytest.raises(ShapeError, match=r"fold takes columns \[batch, channels \* 4, 20\]"):
        ops.fold(np.ones((1, 4, 3)), (5, 6), 2)
    with pytest.raises(ArgumentError, match="takes stride as an integer of 1 or more"):
        ops.unfold(IMAGES, 2, stride=0)
    with pytest.raises(ArgumentError, match="takes output_size as an integer of 1 or more"):
        ops.adaptive_max_pool(IMAGES, (1, 2, 3))


# Matrices


def test_distances_of_all_pairs():
    x, y = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))

    np.testing.assert_allclose(ops.cdist(x, y), distance.cdist(x, y))
    check_gradient(lambda a: ops.cdist(a, y), x)
    with pytest.raises(ShapeError, match="match in their number of coordinates"):
        ops.cdist(x, y[:, :2])


@pytest.mark.parametrize("shape", [(2, 4, 4), (5, 3), (3, 5)])
def test_lu_factor_returns_what_scipy_returns(shape):
    matrices = RNG.normal(size=shape)

    packed, swaps = ops.lu_factor(matrices)

    packed = packed.numpy().reshape(-1, *shape[-2:])
    swaps = swaps.numpy().reshape(len(packed), -1)
    for x, one, row in zip(matrices.reshape(packed.shape), packed, swaps, strict=True):
        expected = linalg.lu_factor(x)
        np.testing.assert_allclose(one, expected[0], atol=1e-12)
        np.testing.assert_array_equal(row, expected[1])


def test_logdet_and_jvp():
    x = RNG.normal(size=(3, 3))
    value, change, other = ops.jvp(lambda a: (a * a, "kept"), (3.0,), (2.0,), has_aux=True)

    assert float(ops.logdet(x)) == pytest.approx(np.linalg.slogdet(x)[1])
    assert (float(value), float(change), other) == (9.0, 12.0, "kept")
    with pytest.raises(ArgumentError, match="returns a pair"):
        ops.jvp(lambda a: a, (3.0,), (2.0,), has_aux=True)


# Layouts


def test_rearrange_splits_permutes_and_joins_axes():
    found = ops.rearrange(IMAGES, "b c h (w1 w2) -> (b w1) (h c) w2", w2=2)

    expected = IMAGES.reshape(2, 3, 5, 3, 2).transpose(0, 3, 2, 1, 4).reshape(6, 15, 2)
    np.testing.assert_array_equal(found, expected)
    start = Input((3, 4))
    assert Model(start, ops.rearrange(start, "b x y -> b (x y)")).output_shape == (None, 12)


@pytest.mark.parametrize(
    ("pattern", "lengths", "message"),
    [
        ("b c h", {}, "takes a pattern such as"),
        ("b c h w -> b c h", {}, "each axis once on either side"),
        ("b c h -> h c b", {}, "has 3 axes on its left"),
        ("b c h (x y) -> b c h x y", {}, "needs the lengths of"),
        ("b c h (x y) -> b c h x y", {"x": 4}, "cannot split an axis of 6 elements"),
        ("b c h w -> w b c h", {"z": 4}, "a length for 'z'"),
    ],
)
def test_wrong_patterns_are_refused(pattern, lengths, message):
    with pytest.raises((ArgumentError, ShapeError), match=message):
        ops.rearrange(IMAGES, pattern, **lengths)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float64", "float32"])
def test_views_have_the_same_bytes(dtype):
    x = IMAGES.astype("float32")

    found = ops.view(x, dtype)

    assert found.dtype.name == dtype
    np.testing.assert_array_equal(found, x.view(dtype))
    with pytest.raises(ShapeError, match="whole elements of float64"):
        ops.view(np.ones(3, "float32"), "float64")
