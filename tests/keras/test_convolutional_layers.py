"""Convolution layers against explicit sums over windows in NumPy."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.convolution_depthwise import (
    DepthwiseConv1D,
    DepthwiseConv2D,
    SeparableConv1D,
    SeparableConv2D,
)
from tapegrad.keras.layers.convolution_transpose import (
    Conv1DTranspose,
    Conv2DTranspose,
    Conv3DTranspose,
)
from tapegrad.keras.layers.convolutional import Conv1D, Conv2D, Conv3D
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.models import Model

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

SHAPES = {1: (2, 9, 4), 2: (2, 7, 6, 4), 3: (1, 5, 4, 6, 4)}
GEOMETRIES = [("valid", 1, 1), ("valid", 2, 1), ("valid", 1, 2), ("same", 1, 1), ("same", 2, 1)]
GEOMETRIES += [("same", 3, 1), ("same", 1, 2)]

# One of each layer, with every kind of argument among them, and the shape of its input.
ROWS = [
    (Conv1D, {"filters": 6, "kernel_size": 3, "padding": "causal", "dilation_rate": 2}, 1),
    (Conv2D, {"filters": 6, "kernel_size": (3, 2), "groups": 2, "padding": "same"}, 2),
    (Conv2D, {"filters": 3, "kernel_size": 2, "strides": (2, 1), "activation": "tanh"}, 2),
    (Conv3D, {"filters": 2, "kernel_size": 2, "strides": 2, "use_bias": False}, 3),
    (Conv1DTranspose, {"filters": 3, "kernel_size": 3, "strides": 2, "output_padding": 1}, 1),
    (Conv2DTranspose, {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same"}, 2),
    (Conv3DTranspose, {"filters": 2, "kernel_size": 2, "activation": "softplus"}, 3),
    (DepthwiseConv1D, {"kernel_size": 3, "depth_multiplier": 2}, 1),
    (DepthwiseConv2D, {"kernel_size": 3, "padding": "same", "strides": 2}, 2),
    (SeparableConv1D, {"filters": 5, "kernel_size": 3, "padding": "causal"}, 1),
    (SeparableConv2D, {"filters": 5, "kernel_size": 3, "depth_multiplier": 2}, 2),
]
IDS = [f"{row[0].__name__}-{number}" for number, row in enumerate(ROWS)]


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


def filled(layer, shape, seed=0):
    """A layer with random weights, and an input for it."""
    random = np.random.default_rng(seed)
    x = random.normal(size=shape)
    layer(tf.constant(x))
    layer.set_weights([random.normal(size=w.shape) for w in layer.weights])
    return layer, x


def same_padding(size, reach, stride):
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def convolved(x, w, stride, padding, dilation, groups=1):
    """Sum over the places of the window: the data shifted to a place, times its matrix."""
    window = w.shape[:-2]
    reaches = [(n - 1) * dilation + 1 for n in window]
    pairs = [(0, 0)] * len(window)
    if padding == "same":
        pairs = [same_padding(n, r, stride) for n, r in zip(x.shape[1:-1], reaches)]
    if padding == "causal":
        pairs = [(reaches[0] - 1, 0)]
    x = np.pad(x, [(0, 0), *pairs, (0, 0)])
    counts = [(n - r) // stride + 1 for n, r in zip(x.shape[1:-1], reaches)]
    parts = []
    for data, filters in zip(np.split(x, groups, -1), np.split(w, groups, -1)):
        y = np.zeros((x.shape[0], *counts, filters.shape[-1]))
        for place in itertools.product(*map(range, window)):
            starts = [k * dilation for k in place]
            index = [slice(s, s + (n - 1) * stride + 1, stride) for s, n in zip(starts, counts)]
            y += data[(slice(None), *index)] @ filters[place]
        parts.append(y)
    return np.concatenate(parts, -1)


def transposed(x, w, stride, padding, dilation, sizes):
    """Add every element, times the window's matrices, at the places it came from."""
    window = w.shape[:-2]
    reaches = [(n - 1) * dilation + 1 for n in window]
    lows = [0] * len(window)
    if padding == "same":
        lows = [same_padding(n, r, stride)[0] for n, r in zip(sizes, reaches)]
    room = [(n - 1) * stride + r + stride for n, r in zip(x.shape[1:-1], reaches)]
    y = np.zeros((x.shape[0], *room, w.shape[-2]))
    for element in itertools.product(*map(range, x.shape[1:-1])):
        for place in itertools.product(*map(range, window)):
            target = tuple(i * stride + k * dilation for i, k in zip(element, place))
            y[(slice(None), *target)] += x[(slice(None), *element)] @ w[place].T
    return y[(slice(None), *[slice(low, low + n) for low, n in zip(lows, sizes)])]


def by_channel(x, w, stride, padding, dilation):
    """Convolve each channel alone; its results stand next to each other."""
    each = [
        convolved(x[..., c : c + 1], w[..., c : c + 1, :], stride, padding, dilation)
        for c in range(x.shape[-1])
    ]
    return np.concatenate(each, -1)


@pytest.mark.parametrize(
    ("kind", "rank", "padding", "stride", "dilation"),
    [
        *[(Conv1D, 1, *row) for row in [*GEOMETRIES, ("causal", 1, 2), ("causal", 2, 1)]],
        *[(Conv2D, 2, *row) for row in GEOMETRIES],
        *[(Conv3D, 3, *row) for row in GEOMETRIES],
    ],
)
def test_a_convolution_is_the_sum_over_the_window(kind, rank, padding, stride, dilation):
    layer = kind(6, 2, stride, padding, dilation_rate=dilation, dtype="float64")
    layer, x = filled(layer, SHAPES[rank])
    kernel, bias = layer.get_weights()

    y = layer(x).numpy()

    expected = convolved(x, kernel, stride, padding, dilation) + bias
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_of_channels_do_not_mix(groups):
    layer, x = filled(Conv2D(8, 3, groups=groups, dtype="float64"), SHAPES[2])
    kernel, bias = layer.get_weights()

    y = layer(x).numpy()

    assert kernel.shape == (3, 3, 4 // groups, 8)
    expected = convolved(x, kernel, 1, "valid", 1, groups) + bias
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("output_padding", [None, 1])
@pytest.mark.parametrize(("padding", "stride", "dilation"), GEOMETRIES)
@pytest.mark.parametrize(
    ("kind", "rank"), [(Conv1DTranspose, 1), (Conv2DTranspose, 2), (Conv3DTranspose, 3)]
)
def test_a_transpose_adds_up_what_each_element_spreads(
    kind, rank, padding, stride, dilation, output_padding
):
    if stride == 1:
        output_padding = None
    layer = kind(
        3,
        4,
        stride,
        padding,
        output_padding=output_padding,
        dilation_rate=dilation,
        dtype="float64",
    )
    layer, x = filled(layer, (1, *(3, 2, 2)[:rank], 2))
    kernel, bias = layer.get_weights()
    reach = 3 * dilation + 1
    if output_padding is not None:
        extra = (reach % 2 if padding == "same" else reach) + output_padding
    else:
        extra = stride if padding == "same" else max(reach, stride)
    sizes = [(n - 1) * stride + extra for n in x.shape[1:-1]]

    y = layer(x).numpy()

    expected = transposed(x, kernel, stride, padding, dilation, sizes) + bias
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
    assert kernel.shape[-2:] == (3, 2)


@pytest.mark.parametrize(("padding", "stride", "dilation"), GEOMETRIES)
@pytest.mark.parametrize(("rank", "multiplier"), [(1, 1), (1, 2), (2, 1), (2, 3)])
def test_depthwise_and_separable_convolve_each_channel(rank, multiplier, padding, stride, dilation):
    arguments = {"depth_multiplier": multiplier, "dilation_rate": dilation, "dtype": "float64"}
    alone = (DepthwiseConv1D, DepthwiseConv2D)[rank - 1](3, stride, padding, **arguments)
    mixing = (SeparableConv1D, SeparableConv2D)[rank - 1](5, 3, stride, padding, **arguments)
    alone, x = filled(alone, SHAPES[rank])
    mixing, _ = filled(mixing, SHAPES[rank])
    kernel, bias = alone.get_weights()
    depthwise, pointwise, last_bias = mixing.get_weights()

    y, z = alone(x).numpy(), mixing(x).numpy()

    expected = by_channel(x, kernel, stride, padding, dilation) + bias
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
    mixed = by_channel(x, depthwise, stride, padding, dilation) @ pointwise[(0,) * rank]
    np.testing.assert_allclose(z, mixed + last_bias, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_channels_first_gives_the_same_numbers_in_another_order(kind, arguments, rank):
    last, x = filled(kind(**arguments, dtype="float64"), SHAPES[rank])
    first = kind(**arguments, data_format="channels_first", dtype="float64")
    moved = np.moveaxis(x, -1, 1)
    first(moved)
    first.set_weights(last.get_weights())

    y = first(moved).numpy()

    np.testing.assert_allclose(np.moveaxis(y, 1, -1), last(x).numpy(), rtol=1e-12, atol=1e-12)
    assert y.shape == tuple(first.compute_output_shape(moved.shape))


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_gradients_agree_with_central_differences(kind, arguments, rank):
    layer, x = filled(kind(**arguments, dtype="float64"), SHAPES[rank])
    random, values = np.random.default_rng(1), [x, *layer.get_weights()]
    g = random.normal(size=layer(x).shape)
    steps = [1e-6 * random.normal(size=value.shape) for value in values]

    def loss_at(sign):
        moved = [value + sign * step for value, step in zip(values, steps)]
        layer.set_weights(moved[1:])
        return float(np.sum(g * layer(moved[0]).numpy()))

    rise = (loss_at(+1) - loss_at(-1)) / 2
    layer.set_weights(values[1:])
    with tf.GradientTape() as tape:
        data = tf.constant(x)
        tape.watch(data)
        loss = tf.reduce_sum(g * layer(data))
    gradients = tape.gradient(loss, [data, *layer.trainable_variables])

    slope = sum(np.sum(d.numpy() * step) for d, step in zip(gradients, steps))
    assert slope == pytest.approx(rise, rel=1e-6)


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_a_function_computes_what_eager_calls_do(kind, arguments, rank):
    layer, x = filled(kind(**arguments, dtype="float64"), SHAPES[rank])

    def step(data):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(data) ** 2)
        return [loss, *tape.gradient(loss, layer.trainable_variables)]

    eager = step(tf.constant(x))
    recorded = tf.function(step)
    recorded(tf.constant(x + 1.0))

    for one, other in zip(recorded(tf.constant(x)), eager):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_a_model_knows_the_shape_of_the_output(kind, arguments, rank):
    x = np.zeros(SHAPES[rank], "float32")
    known, unknown = Input(x.shape[1:]), Input((*(None,) * rank, 4))
    layer = kind(**arguments)

    model, free = Model(known, layer(known)), Model(unknown, layer(unknown))

    y = model(x)
    assert model.output_shape == (None, *y.shape[1:])
    assert free.output_shape == (None, *(None,) * rank, y.shape[-1])
    assert free(x).shape == y.shape


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_a_configuration_makes_the_same_layer(kind, arguments, rank):
    rules = {"bias_initializer": "ones", "bias_regularizer": "l2", "bias_constraint": "non_neg"}
    layer, x = filled(kind(**arguments, **rules, dtype="float64"), SHAPES[rank])

    config = json.loads(json.dumps(layer.get_config()))
    other = kind.from_config(config)

    assert json.loads(json.dumps(other.get_config())) == config
    other(x)
    other.set_weights(layer.get_weights())
    np.testing.assert_array_equal(other(x).numpy(), layer(x).numpy())
    assert len(other.losses) == len(layer.losses) == int(layer.use_bias)


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_values_and_gradients_stay_on_the_device(kind, arguments, rank, strict_device):
    with tf.device(strict_device):
        layer, x = kind(**arguments), tf.random.normal(SHAPES[rank])
        layer(x)
        with strict.forbidding_reads(), tf.GradientTape() as tape:
            y = layer(x)
        gradients = tape.gradient(y, layer.trainable_variables)

    assert {y.device, *(g.device for g in gradients)} == {strict_device}


def test_a_mixed_policy_computes_in_half_precision_on_float32_weights():
    layer = Conv2D(3, 3, dtype="mixed_float16")

    y = layer(tf.ones([1, 5, 5, 2]))

    assert (y.dtype.name, layer.kernel.dtype.name, layer.bias.dtype.name) == (
        "float16",
        "float32",
        "float32",
    )


def test_weights_have_the_names_and_shapes_of_keras():
    separable = SeparableConv2D(5, (3, 2), depth_multiplier=2)
    depthwise = DepthwiseConv2D(3, use_bias=False)

    separable(tf.zeros([1, 4, 4, 3]))
    depthwise(tf.zeros([1, 4, 4, 3]))

    assert separable.depthwise_kernel.shape == (3, 2, 3, 2)
    assert separable.pointwise_kernel.shape == (1, 1, 6, 5)
    assert depthwise.kernel.shape == (3, 3, 3, 1)
    assert depthwise.bias is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Conv2D(0, 3), "Conv2D takes filters as an integer of 1 or more. Got 0"),
        (lambda: Conv2D(4, (3, 3, 3)), r"kernel_size .* 1 or more or 2 of them. Got \(3, 3, 3\)"),
        (lambda: Conv1D(4, 0), r"kernel_size as an integer of 1 or more. Got 0"),
        (lambda: Conv2D(4, 3, strides=1.5), "strides as an integer .* Got 1.5"),
        (
            lambda: Conv2D(4, 3, groups=3),
            "filters that is divisible by groups. Got 4 filters and 3",
        ),
        (lambda: Conv2D(4, 3, padding="full"), "'valid' or 'same'. Got 'full'"),
        (lambda: Conv2D(4, 3, padding="causal"), "'valid' or 'same'. Got 'causal'"),
        (lambda: Conv1D(4, 3, padding=1), "'valid', 'same' or 'causal'. Got 1"),
        (lambda: Conv2D(4, 3, data_format="NHWC"), "'channels_last' or 'channels_first'. Got"),
        (lambda: Conv2D(4, 3, 2, dilation_rate=2), "strides or a dilation_rate above 1, not both"),
        (lambda: Conv1DTranspose(4, 3, padding="causal"), "'valid' or 'same'. Got 'causal'"),
        (lambda: Conv2DTranspose(4, 3, 2, output_padding=2), r"below the strides. Got \(2, 2\)"),
        (lambda: Conv2DTranspose(4, 2, 2, "same", 0), "even size takes an output_padding of 1"),
        (lambda: DepthwiseConv2D(3, depth_multiplier=0), "depth_multiplier .* Got 0"),
        (lambda: SeparableConv2D(-1, 3), "filters as an integer of 1 or more. Got -1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ArgumentError, match=words):
        make()


@pytest.mark.parametrize(("kind", "arguments", "rank"), ROWS, ids=IDS)
def test_an_input_that_does_not_fit_is_named_with_its_layer(kind, arguments, rank):
    layer = kind(**arguments, name="it")
    wide = (*SHAPES[rank][:-1], 8)

    with pytest.raises(ShapeError, match=rf"'it' \({kind.__name__}\) takes inputs of {rank + 2} d"):
        layer(tf.zeros(SHAPES[rank][1:]))
    layer(tf.zeros(SHAPES[rank]))
    with pytest.raises(ShapeError, match=rf"'it' \({kind.__name__}\) was built for 4 channels. Go"):
        layer(tf.zeros(wide))


def test_windows_larger_than_the_data_and_unknown_channels_are_refused():
    with pytest.raises(ShapeError, match="windows of 5 elements along a dimension of size 4"):
        Conv1D(2, 3, dilation_rate=2)(tf.zeros([1, 4, 2]))
    with pytest.raises(ShapeError, match="channels that is divisible by its 2 groups"):
        Conv1D(2, 3, groups=2)(tf.zeros([1, 4, 3]))
    with pytest.raises(ShapeError, match="needs to know the number of channels"):
        Conv2D(2, 3)(Input((4, 4, None)))
