"""Pooling layers against maxima and means of single windows in NumPy."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers import adaptive_pooling, pooling
from tapegrad.keras.layers.core import Masking
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.models import Model
from tests.keras.layer_checks import check_function_equals_eager, slope_and_rise

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

SHAPES = {1: (2, 7, 3), 2: (2, 5, 6, 3), 3: (1, 4, 5, 3, 2)}
REDUCTIONS = {"Max": np.max, "Average": np.mean}
KINDS = list(itertools.product(REDUCTIONS, (1, 2, 3)))
WINDOWS = [(2, None, "valid"), (2, None, "same"), (3, 1, "valid"), (3, 2, "same"), (2, 3, "valid")]

# One of each layer, with the number of its spatial dimensions.
ROWS = [
    *[(getattr(pooling, f"{word}Pooling{rank}D"), {"pool_size": 2}, rank) for word, rank in KINDS],
    *[(getattr(pooling, f"Global{word}Pooling{rank}D"), {}, rank) for word, rank in KINDS],
    *[
        (getattr(adaptive_pooling, f"Adaptive{word}Pooling{rank}D"), {"output_size": 2}, rank)
        for word, rank in KINDS
    ],
]
IDS = [row[0].__name__ for row in ROWS]


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


def data_of(rank, seed=0):
    return np.random.default_rng(seed).normal(size=SHAPES[rank])


def places(size, extent, stride, padding):
    """The part of a dimension that each window covers; what is padded is left out."""
    low, count = 0, (size - extent) // stride + 1
    if padding == "same":
        count = -(-size // stride)
        low = max((count - 1) * stride + extent - size, 0) // 2
    starts = [k * stride - low for k in range(count)]
    return [slice(max(start, 0), start + extent) for start in starts]


def pooled(x, extent, stride, padding, reduction):
    along = [places(n, extent, stride, padding) for n in x.shape[1:-1]]
    axes = tuple(range(1, x.ndim - 1))
    each = [reduction(x[(slice(None), *index)], axes) for index in itertools.product(*along)]
    counts = [len(found) for found in along]
    return np.stack(each, 1).reshape(x.shape[0], *counts, x.shape[-1])


@pytest.mark.parametrize(("extent", "stride", "padding"), WINDOWS)
@pytest.mark.parametrize(("word", "rank"), KINDS)
def test_pooling_takes_each_window_by_itself(word, rank, extent, stride, padding):
    x = data_of(rank)
    layer = getattr(pooling, f"{word}Pooling{rank}D")(extent, stride, padding, dtype="float64")

    y = layer(x).numpy()

    expected = pooled(x, extent, stride or extent, padding, REDUCTIONS[word])
    np.testing.assert_allclose(y, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(("word", "rank"), KINDS)
def test_adaptive_windows_divide_each_dimension(word, rank, count):
    x = data_of(rank)
    layer = getattr(adaptive_pooling, f"Adaptive{word}Pooling{rank}D")(count, dtype="float64")

    y = layer(x).numpy()

    along = [
        [slice(k * n // count, -(-(k + 1) * n // count)) for k in range(count)]
        for n in x.shape[1:-1]
    ]
    axes = tuple(range(1, rank + 1))
    each = [REDUCTIONS[word](x[(slice(None), *at)], axes) for at in itertools.product(*along)]
    np.testing.assert_allclose(y, np.stack(each, 1).reshape(y.shape), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("word", "rank"), KINDS)
def test_global_pooling_takes_all_there_is(word, rank, keepdims):
    x = data_of(rank)
    layer = getattr(pooling, f"Global{word}Pooling{rank}D")(keepdims=keepdims, dtype="float64")

    y = layer(x).numpy()

    expected = REDUCTIONS[word](x, axis=tuple(range(1, rank + 1)), keepdims=keepdims)
    np.testing.assert_allclose(y, expected, rtol=1e-13, atol=1e-13)
    assert layer.compute_output_shape((None, *x.shape[1:])) == (None, *y.shape[1:])


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_the_mean_over_steps_leaves_out_what_a_mask_hides(data_format, keepdims):
    x = data_of(1)
    mask = np.array([[1, 1, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 1, 0]], bool)
    hidden = np.where(mask[..., None], x, np.nan)
    given = hidden if data_format == "channels_last" else np.moveaxis(hidden, -1, 1)
    layer = pooling.GlobalAveragePooling1D(data_format, keepdims, dtype="float64")

    y = layer(tf.constant(given), mask=tf.constant(mask)).numpy()

    expected = np.stack([x[k][mask[k]].mean(0) for k in range(2)])
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=1e-13)
    assert y.shape == tuple(layer.compute_output_shape(given.shape))


def test_a_mask_inside_a_model_reaches_the_mean_and_ends_there():
    x = np.array([[[1.0, 3.0], [0.0, 0.0], [5.0, 1.0]]], "float32")
    start = Input((3, 2))
    layer = pooling.GlobalAveragePooling1D()
    model = Model(start, layer(Masking(0.0)(start)))

    y = model(x)

    assert y.numpy().tolist() == [[3.0, 2.0]]
    assert layer.compute_mask(x, tf.constant([[True, False, True]])) is None


def test_a_masked_mean_has_gradients_at_the_kept_steps_alone():
    x = tf.constant(data_of(1)[:1])
    mask = tf.constant([[True, False, True, False, False, True, True]])
    layer = pooling.GlobalAveragePooling1D(dtype="float64")

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, mask=mask)
    gradient = tape.gradient(y, x).numpy()

    np.testing.assert_allclose(gradient[0, :, 0], mask.numpy()[0] / 4.0, rtol=1e-14)


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_channels_first_gives_the_same_numbers_in_another_order(kind, arguments, rank):
    x = data_of(rank)
    last = kind(**arguments, dtype="float64")
    first = kind(**arguments, data_format="channels_first", dtype="float64")
    moved = np.moveaxis(x, -1, 1)

    y = first(moved).numpy()

    np.testing.assert_allclose(np.moveaxis(y, 1, -1), last(x).numpy(), rtol=1e-13, atol=1e-13)
    assert y.shape == tuple(first.compute_output_shape(moved.shape))


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_gradients_agree_with_central_differences(kind, arguments, rank):
    layer, x = kind(**arguments, dtype="float64"), data_of(rank)
    step = 1e-6 * np.random.default_rng(2).normal(size=x.shape)

    slope, rise = slope_and_rise(layer, x, step)

    assert slope == pytest.approx(rise, rel=1e-6)


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_a_function_computes_what_eager_calls_do(kind, arguments, rank):
    check_function_equals_eager(kind(**arguments, dtype="float64"), tf.constant(data_of(rank)))


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_a_model_knows_the_shape_of_the_output(kind, arguments, rank):
    x = np.zeros(SHAPES[rank], "float32")
    known, unknown = Input(x.shape[1:]), Input((*(None,) * rank, x.shape[-1]))
    layer = kind(**arguments)

    model, free = Model(known, layer(known)), Model(unknown, layer(unknown))

    y = model(x)
    assert model.output_shape == (None, *y.shape[1:])
    inner = y.shape[1:-1] if "output_size" in arguments else (None,) * (len(y.shape) - 2)
    assert free.output_shape == (None, *inner, y.shape[-1])
    assert free(x).shape == y.shape


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_a_configuration_makes_the_same_layer(kind, arguments, rank):
    layer = kind(**arguments, data_format="channels_first", dtype="float64", name="one")

    config = json.loads(json.dumps(layer.get_config()))
    other = kind.from_config(config)

    assert json.loads(json.dumps(other.get_config())) == config
    assert (other.name, other.dtype) == ("one", "float64")
    x = np.moveaxis(data_of(rank), -1, 1)
    np.testing.assert_array_equal(other(x).numpy(), layer(x).numpy())


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_values_and_gradients_stay_on_the_device(kind, arguments, rank, strict_device):
    with tf.device(strict_device):
        layer, x = kind(**arguments), tf.random.normal(SHAPES[rank])
        with strict.forbidding_reads(), tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        gradient = tape.gradient(y, x)

    assert (y.device, gradient.device) == (strict_device, strict_device)


def test_windows_may_differ_by_dimension_and_strides_follow_them():
    layer = pooling.MaxPooling2D((1, 3))

    y = layer(tf.zeros([1, 5, 6, 2]))

    assert (layer.pool_size, layer.strides, y.shape) == ((1, 3), (1, 3), (1, 5, 2, 2))


def test_short_names_are_the_same_classes():
    for word, short, rank in itertools.product(("", "Global"), REDUCTIONS, (1, 2, 3)):
        other = {"Max": "Max", "Average": "Avg"}[short]

        found = getattr(pooling, f"{word}{other}Pool{rank}D")

        assert found is getattr(pooling, f"{word}{short}Pooling{rank}D")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: pooling.MaxPooling2D(0), "pool_size as an integer of 1 or more or 2 of them"),
        (lambda: pooling.MaxPooling1D((2, 2)), r"MaxPooling1D takes pool_size .* Got \(2, 2\)"),
        (lambda: pooling.AveragePooling3D(2, strides=0), "strides .* 1 or more .* Got 0"),
        (lambda: pooling.MaxPooling1D(2, padding="causal"), "'valid' or 'same'. Got 'causal'"),
        (lambda: pooling.MaxPooling2D(data_format="NCHW"), "'channels_last' or 'channels_first'"),
        (lambda: pooling.GlobalMaxPooling2D("last"), "'channels_last' or 'channels_first'. Got"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ArgumentError, match=words):
        make()


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_an_input_that_does_not_fit_is_named_with_its_layer(kind, arguments, rank):
    layer = kind(**arguments, name="it")

    with pytest.raises(ShapeError, match=rf"'it' \({kind.__name__}\) takes inputs of {rank + 2} d"):
        layer(tf.zeros(SHAPES[rank][1:]))
    with pytest.raises(ShapeError, match=rf"'it' \({kind.__name__}\) takes inputs of {rank + 2} d"):
        layer.compute_output_shape((None, *SHAPES[rank]))


def test_a_window_larger_than_the_data_is_refused():
    layer = pooling.MaxPooling2D(4, name="it")

    with pytest.raises(ShapeError, match=r"'it' \(MaxPooling2D\) has windows .* of size 3. Use"):
        layer(tf.zeros([1, 3, 8, 1]))
