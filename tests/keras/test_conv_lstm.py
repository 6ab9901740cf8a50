"""ConvLSTM layers, against loops in NumPy and against central differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers import (
    Bidirectional,
    ConvLSTM1D,
    ConvLSTM2D,
    ConvLSTM3D,
    Dense,
    Flatten,
    Input,
)
from tapegrad.keras.layers.recurrent.conv_lstm_cell import ConvLSTMCell
from tapegrad.keras.models import Sequential
from tests.keras.layer_checks import check_function_equals_eager, slope_and_rise

BATCH, STEPS, CHANNELS, FILTERS = 2, 4, 3, 2
RANKS = {1: ConvLSTM1D, 2: ConvLSTM2D, 3: ConvLSTM3D}
SIZES = (6, 5, 4)
MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0]], bool)


def inputs(rank: int) -> Any:
    shape = (BATCH, STEPS, *SIZES[:rank], CHANNELS)
    return np.random.default_rng(0).normal(size=shape)


def with_weights(layer: Any, x: Any) -> Any:
    """Build a layer and give it weights that are all different from 0."""
    layer(x)
    draw = np.random.default_rng(1)
    layer.set_weights([draw.normal(size=w.shape) * 0.4 for w in layer.get_weights()])
    return layer


def numpy_conv(x: Any, kernel: Any, strides: Any, padding: str, dilation: Any) -> Any:
    """A convolution by its definition: one sum for each window."""
    rank = x.ndim - 2
    reach = [(n - 1) * d + 1 for n, d in zip(kernel.shape, dilation)]
    if padding == "same":
        counts = [-(-n // s) for n, s in zip(x.shape[1:], strides)]
        missing = [max((c - 1) * s + r - n, 0)
                   for c, s, r, n in zip(counts, strides, reach, x.shape[1:])]  # fmt: skip
        edges = [(m // 2, m - m // 2) for m in missing]
        x = np.pad(x, [(0, 0), *edges, (0, 0)])
    else:
        counts = [(n - r) // s + 1 for n, r, s in zip(x.shape[1:], reach, strides)]
    y = np.zeros((len(x), *counts, kernel.shape[-1]))
    for place in itertools.product(*map(range, counts)):
        part = tuple(slice(p * s, p * s + r, d)
                     for p, s, r, d in zip(place, strides, reach, dilation))  # fmt: skip
        axes = tuple(range(1, rank + 2)), tuple(range(rank + 1))
        y[(slice(None), *place)] = np.tensordot(x[(slice(None), *part)], kernel, axes)
    return y


def numpy_walk(layer: Any, x: Any, mask: Any = None) -> tuple[Any, list[Any]]:
    """All outputs and the last states, for inputs with the channels last."""
    cell = layer.cell
    kernel, recurrent, *rest = layer.get_weights()
    bias = rest[0] if rest else 0.0
    ones = (1,) * cell.rank
    h = c = output = None
    outputs = []
    for t in range(x.shape[1]):
        z = numpy_conv(x[:, t], kernel, cell.strides, cell.padding, cell.dilation_rate) + bias
        if h is None:
            h = c = output = np.zeros((*z.shape[:-1], FILTERS))
        i, f, g, o = np.split(z + numpy_conv(h, recurrent, ones, "same", ones), 4, axis=-1)
        new_c = expit(f) * c + expit(i) * np.tanh(g)
        new_h = expit(o) * np.tanh(new_c)
        keep = np.ones(len(x), bool) if mask is None else mask[:, t]
        keep = keep.reshape(-1, *(1,) * (new_h.ndim - 1))
        h, c, output = [np.where(keep, a, b) for a, b in ((new_h, h), (new_c, c), (new_h, output))]
        outputs.append(output)
    return np.stack(outputs, 1), [h, c]


def assert_close(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("rank", "options"),
    [
        (1, {"kernel_size": 3}),
        (1, {"kernel_size": 2, "dilation_rate": 2, "use_bias": False}),
        (2, {"kernel_size": 3, "padding": "same"}),
        (2, {"kernel_size": (2, 3), "strides": 2}),
        (2, {"kernel_size": (3, 2), "strides": (1, 2), "padding": "same"}),
        (3, {"kernel_size": 2}),
    ],
)
def test_outputs_and_states_are_those_of_the_formula(rank, options):
    x = inputs(rank)
    layer = RANKS[rank](
        FILTERS, return_sequences=True, return_state=True, dtype="float64", **options
    )
    with_weights(layer, x)

    outputs, h, c = layer(x)

    wanted, states = numpy_walk(layer, x)
    assert_close(outputs, wanted)
    for got, state in zip((h, c), states):
        assert_close(got, state)
    assert layer.compute_output_shape(x.shape) == (outputs.shape, h.shape, c.shape)


def test_the_last_output_a_mask_and_the_other_direction():
    x = inputs(2)
    layer = with_weights(ConvLSTM2D(FILTERS, 3, padding="same", dtype="float64"), x)

    assert_close(layer(x), numpy_walk(layer, x)[0][:, -1])
    assert_close(layer(x, mask=MASK), numpy_walk(layer, x, MASK)[0][:, -1])

    backwards = ConvLSTM2D(FILTERS, 3, padding="same", go_backwards=True, dtype="float64")
    backwards.build(x.shape)
    backwards.set_weights(layer.get_weights())
    assert_close(backwards(x), numpy_walk(layer, x[:, ::-1])[0][:, -1])


def test_channels_first_is_channels_last_with_other_axes():
    x = inputs(2)
    options = {"kernel_size": 3, "strides": 2, "return_sequences": True, "dtype": "float64"}
    last = with_weights(ConvLSTM2D(FILTERS, **options), x)
    first = ConvLSTM2D(FILTERS, data_format="channels_first", **options)
    moved = np.moveaxis(x, -1, 2)
    first.build(moved.shape)
    first.set_weights(last.get_weights())

    assert_close(first(moved), np.moveaxis(last(x).numpy(), -1, 2))
    assert first.compute_output_shape(moved.shape) == first(moved).shape


@pytest.mark.parametrize("rank", RANKS)
def test_the_gradient_of_the_input_is_the_slope(rank):
    x = inputs(rank)
    layer = RANKS[rank](FILTERS, 2, return_sequences=True, dtype="float64")
    with_weights(layer, x)
    step = 1e-6 * np.random.default_rng(2).normal(size=x.shape)

    slope, rise = slope_and_rise(layer, x, step)

    assert slope == pytest.approx(rise, rel=1e-6)


def test_the_gradients_of_the_weights_are_slopes():
    x = inputs(2)
    layer = with_weights(ConvLSTM2D(FILTERS, 3, padding="same", dtype="float64"), x)
    draw, size = np.random.default_rng(3), 1e-6
    g = draw.normal(size=layer(x).shape)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(g * layer(x))
    gradients = tape.gradient(loss, layer.trainable_variables)

    for place, gradient in enumerate(gradients):
        weights = layer.get_weights()
        step = draw.normal(size=weights[place].shape)

        def moved(by: float, place: int = place, step: Any = step, weights: Any = weights) -> float:
            layer.set_weights([w + by * step if k == place else w for k, w in enumerate(weights)])
            return float(np.sum(g * layer(x).numpy()))

        rise = (moved(size) - moved(-size)) / (2 * size)
        layer.set_weights(weights)
        assert float(np.sum(gradient.numpy() * step)) == pytest.approx(rise, rel=1e-6)


def test_a_recorded_loop_of_many_steps_equals_eager_steps():
    x = np.random.default_rng(4).normal(size=(2, 40, 5, 5, 1))
    layer = with_weights(ConvLSTM2D(FILTERS, 3, padding="same", dtype="float64"), x)

    check_function_equals_eager(layer, tf.constant(x))


def test_a_stateful_layer_continues_where_it_ended():
    x = inputs(2)
    whole = with_weights(ConvLSTM2D(FILTERS, 3, dtype="float64"), x)
    parts = ConvLSTM2D(FILTERS, 3, stateful=True, dtype="float64")
    parts.build(x[:, :2].shape)
    parts.set_weights(whole.get_weights())

    parts(x[:, :2])
    assert_close(parts(x[:, 2:]), whole(x).numpy())
    parts.reset_state()
    assert_close(parts(x), whole(x).numpy())


def test_dropout_uses_one_mask_for_all_steps():
    x = np.ones((1, 3, 4, 4, 1))
    layer = ConvLSTM2D(1, 1, dropout=0.5, seed=1, dtype="float64", return_sequences=True,
                       kernel_initializer="ones", recurrent_initializer="zeros")  # fmt: skip

    y = layer(x, training=True).numpy()[0, :, :, :, 0]

    # Without an input the cell stays 0.
    assert 0 < np.count_nonzero(y[0]) < 16
    assert ((y == 0) == (y[0] == 0)).all()
    assert np.count_nonzero(layer(x).numpy()) == y.size


def test_dropout_of_the_state_changes_later_steps_only():
    x = inputs(2)
    layer = with_weights(ConvLSTM2D(FILTERS, 3, padding="same", recurrent_dropout=0.5, seed=2,
                                    return_sequences=True, dtype="float64"), x)  # fmt: skip
    plain, dropped = layer(x).numpy(), layer(x, training=True).numpy()

    np.testing.assert_array_equal(plain[:, 0], dropped[:, 0])
    assert np.abs(plain[:, 1] - dropped[:, 1]).max() > 1e-3


def test_both_directions_and_a_configuration():
    x = inputs(2)
    layer = Bidirectional(ConvLSTM2D(FILTERS, 3, padding="same", activation="relu"))

    assert layer(x).shape == (BATCH, *SIZES[:2], 2 * FILTERS)
    assert layer.compute_output_shape(x.shape) == (BATCH, *SIZES[:2], 2 * FILTERS)
    config = ConvLSTM2D(4, (3, 2), strides=2, recurrent_dropout=0.25).get_config()
    again = ConvLSTM2D.from_config(config)
    assert (again.filters, again.kernel_size, again.strides) == (4, (3, 2), (2, 2))
    assert again.recurrent_dropout == 0.25


def test_a_model_with_unknown_sizes_learns_and_is_loaded_again(tmp_path):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(32, 5, 6, 6, 1)).astype("float32")
    y = x[:, -1].mean(axis=(1, 2)) + x[:, 0].mean(axis=(1, 2))
    model = Sequential([Input((None, 6, 6, 1)), ConvLSTM2D(3, 3), Flatten(), Dense(1)])
    model.compile("adam", "mse")
    losses = model.fit(x, y, epochs=15, verbose=0).history["loss"]
    model.save(tmp_path / "model.keras")

    loaded = tf.keras.models.load_model(tmp_path / "model.keras")

    assert model.output_shape == (None, 1)
    assert losses[-1] < 0.7 * losses[0]
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


def test_weights_have_the_shapes_of_keras():
    layer = ConvLSTM2D(4, (3, 2))
    layer.build((None, None, 8, 8, 3))

    assert [tuple(w.shape) for w in layer.weights] == [(3, 2, 3, 16), (3, 2, 4, 16), (16,)]
    assert layer.get_weights()[2].tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8


def test_wrong_arguments_are_refused():
    with pytest.raises(ShapeError, match="takes inputs of 5 dimensions: batch, steps"):
        ConvLSTM2D(2, 3)(np.ones((2, 4, 8, 8)))
    with pytest.raises(ArgumentError, match="takes filters as an integer of 1 or more"):
        ConvLSTM2D(0, 3)
    with pytest.raises(ArgumentError, match="takes padding 'valid' or 'same'"):
        ConvLSTM2D(2, 3, padding="causal")
    with pytest.raises(ShapeError, match="windows of 3 elements along a dimension of size 2"):
        ConvLSTM2D(2, 3)(np.ones((1, 4, 2, 2, 1)))
    layer = ConvLSTM2D(2, 3)
    layer(np.ones((1, 4, 5, 5, 2)))
    with pytest.raises(ShapeError, match="was built for 2 channels"):
        layer(np.ones((1, 4, 5, 5, 3)))
    cell = ConvLSTMCell(2, 3, 2)
    with pytest.raises(ShapeError, match="needs known sizes for its state"):
        cell.zero_state((1, None, 4, 1))
