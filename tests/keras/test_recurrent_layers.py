"""Recurrent layers, their cells and wrappers, against loops in NumPy."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import tapegrad as tf
from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras.layers import BatchNormalization, Dense, Embedding, Input, Layer
from tapegrad.keras.layers.recurrent import (
    GRU,
    LSTM,
    RNN,
    Bidirectional,
    GRUCell,
    LSTMCell,
    SimpleRNN,
    SimpleRNNCell,
    TimeDistributed,
)
from tapegrad.keras.models import Model, Sequential

BATCH, STEPS, FEATURES, UNITS = 3, 5, 4, 6
X = np.random.default_rng(0).normal(size=(BATCH, STEPS, FEATURES))
MASK = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]], bool)
LAYERS: dict[str, Callable[..., Any]] = {
    "SimpleRNN": partial(SimpleRNN, UNITS, dtype="float64"),
    "LSTM": partial(LSTM, UNITS, dtype="float64"),
    "GRU": partial(GRU, UNITS, dtype="float64"),
    "GRU-reset-before": partial(GRU, UNITS, reset_after=False, dtype="float64"),
    "LSTM-without-bias": partial(LSTM, UNITS, use_bias=False, dtype="float64"),
    "GRU-without-bias": partial(GRU, UNITS, use_bias=False, dtype="float64"),
}


def both_ways(mode: str | None, **options: Any) -> Any:
    return Bidirectional(LSTM(UNITS, dtype="float64", **options), merge_mode=mode)


def stacked(**options: Any) -> Any:
    return RNN([LSTMCell(UNITS, dtype="float64"), GRUCell(UNITS, dtype="float64")], **options)


KINDS: dict[str, Callable[..., Any]] = {
    **LAYERS,
    "stacked": stacked,
    "both-ways": partial(both_ways, "concat"),
    "both-ways-apart": partial(both_ways, None),
    "both-ways-averaged": partial(both_ways, "ave"),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
every_kind = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
masked_or_not = pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])


def with_weights(layer: Any, *inputs: Any, seed: int = 1) -> Any:
    """Build a layer and give it weights that are all different from 0."""
    layer(*inputs)
    draw = np.random.default_rng(seed)
    layer.set_weights([draw.normal(size=w.shape) * 0.5 for w in layer.get_weights()])
    return layer


def numpy_step(cell: Any) -> Callable[[Any, list[Any]], list[Any]]:
    """One step of a cell by its textbook formula: the new states, the output first."""
    kernel, recurrent, *rest = cell.get_weights()
    bias: Any = rest[0] if rest else np.zeros(kernel.shape[1])

    def simple(x: Any, states: list[Any]) -> list[Any]:
        return [np.tanh(x @ kernel + states[0] @ recurrent + bias)]

    def lstm(x: Any, states: list[Any]) -> list[Any]:
        i, f, g, o = np.split(x @ kernel + states[0] @ recurrent + bias, 4, axis=1)
        c = expit(f) * states[1] + expit(i) * np.tanh(g)
        return [expit(o) * np.tanh(c), c]

    def gru(x: Any, states: list[Any]) -> list[Any]:
        h, (of_input, of_state) = states[0], bias if bias.ndim == 2 else (bias, 0 * bias)
        xz, xr, xh = np.split(x @ kernel + of_input, 3, axis=1)
        rz, rr, rh = np.split(h @ recurrent + of_state, 3, axis=1)
        z, r = expit(xz + rz), expit(xr + rr)
        rh = r * rh if cell.reset_after else (r * h) @ recurrent[:, 2 * UNITS :]
        return [z * h + (1 - z) * np.tanh(xh + rh)]

    return {SimpleRNNCell: simple, LSTMCell: lstm, GRUCell: gru}[type(cell)]


def numpy_walk(cell: Any, x: Any, states: list[Any], mask: Any = None) -> tuple[Any, list[Any]]:
    """All steps, where a masked one leaves states and output as they were."""
    step, outputs, output = numpy_step(cell), [], np.zeros((len(x), cell.units))
    for t in range(x.shape[1]):
        new = step(x[:, t], states)
        keep = np.ones((len(x), 1), bool) if mask is None else mask[:, t, None]
        output = np.where(keep, new[0], output)
        states = [np.where(keep, a, b) for a, b in zip(new, states)]
        outputs.append(output)
    return np.stack(outputs, 1), states


def zero_states(cell: Any) -> list[Any]:
    return [np.zeros((BATCH, UNITS))] * len(np.atleast_1d(cell.state_size))


def assert_close(got: Any, wanted: Any) -> None:
    for one, other in zip(nest.flatten(got), nest.flatten(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12, atol=1e-13)


def assert_gradients_are_slopes(layer: Any, x: Any, **options: Any) -> None:
    """Compare all gradients with a central difference along one random direction."""
    draw, step = np.random.default_rng(7), 1e-5
    weights, at = layer.get_weights(), tf.constant(x)

    def loss(given: Any) -> Any:
        outputs = nest.flatten(layer(given, **options))
        return sum(tf.reduce_sum(tf.sin(y * (k + 1.0))) for k, y in enumerate(outputs))

    with tf.GradientTape() as tape:
        tape.watch(at)
        value = loss(at)
    gradients = tape.gradient(value, [at, *layer.trainable_variables])
    directions = [draw.normal(size=g.shape) for g in gradients]
    ends = []
    for sign in (1.0, -1.0):
        layer.set_weights([w + sign * step * d for w, d in zip(weights, directions[1:])])
        ends.append(loss(tf.constant(x + sign * step * directions[0])).numpy())
    slope = (ends[0] - ends[1]) / (2 * step)
    along = sum(np.sum(g.numpy() * d) for g, d in zip(gradients, directions))
    np.testing.assert_allclose(along, slope, rtol=1e-7, atol=1e-7)


@masked_or_not
@pytest.mark.parametrize("backwards", [False, True], ids=["forwards", "backwards"])
@each_layer
def test_a_layer_walks_from_its_initial_state(make: Any, backwards: bool, mask: Any) -> None:
    layer = make(go_backwards=backwards, return_sequences=True, return_state=True)
    with_weights(layer, X)
    start = [np.full((BATCH, UNITS), 0.3 * (k + 1)) for k in range(len(layer.state_size))]

    outputs = layer(X, initial_state=start, mask=mask)

    way = slice(None, None, -1 if backwards else 1)
    seen = None if mask is None else mask[:, way]
    expected, last = numpy_walk(layer.cell, X[:, way], start, seen)
    assert_close(outputs, [expected, *last])


@masked_or_not
@every_kind
def test_gradients_are_slopes(make: Any, mask: Any) -> None:
    layer = with_weights(make(return_sequences=True, return_state=True), X)

    assert_gradients_are_slopes(layer, X, mask=mask)


@every_kind
def test_a_function_gives_what_the_eager_layer_gives(make: Any) -> None:
    x, mask = tf.constant(X), tf.constant(MASK)
    layer = with_weights(make(), x)

    def gradients(x: Any, mask: Any) -> Any:
        with tf.GradientTape() as tape:
            y = sum(tf.reduce_sum(y**2) for y in nest.flatten(layer(x, mask=mask)))
        return [y, *tape.gradient(y, layer.trainable_variables)]

    compiled = tf.function(gradients)
    compiled(x, mask)

    assert_close(compiled(x, mask), gradients(x, mask))


@every_kind
def test_a_configuration_makes_a_layer_of_the_same_kind(make: Any) -> None:
    layer = with_weights(make(return_sequences=True), X)
    layer.trainable = False
    config = json.loads(json.dumps(layer.get_config()))

    again = type(layer).from_config(config)
    again(X)
    again.set_weights(layer.get_weights())

    assert (again.name, again.trainable_variables) == (layer.name, [])
    assert_close(again(X), layer(X))


@every_kind
@pytest.mark.parametrize("all_steps", [False, True])
def test_shapes_are_known_before_values(make: Any, all_steps: bool) -> None:
    x = Input((None, FEATURES), dtype="float64")
    model = Model(x, make(return_sequences=all_steps, return_state=True)(x))

    outputs = model(X)

    for place, y in zip(model.outputs, nest.flatten(outputs), strict=True):
        assert place.shape == (*(None for _ in y.shape[1:]), y.shape[-1])


def test_weights_have_the_shapes_of_keras_and_forget_gates_start_open() -> None:
    lstm, gru = LSTM(UNITS), GRU(UNITS)

    for layer in (lstm, gru):
        layer.build(X.shape)

    assert [w.shape for w in lstm.get_weights()] == [(4, 24), (6, 24), (24,)]
    assert [w.shape for w in gru.get_weights()] == [(4, 18), (6, 18), (2, 18)]
    np.testing.assert_array_equal(lstm.get_weights()[2], [0.0] * 6 + [1.0] * 6 + [0.0] * 12)
    np.testing.assert_array_equal(LSTMCell(2, unit_forget_bias=False).first_bias((8,)).numpy(), 0.0)


def test_a_stateful_layer_goes_on_where_it_stopped_until_it_is_reset() -> None:
    whole = with_weights(GRU(UNITS, dtype="float64"), X)
    layer = GRU(UNITS, stateful=True, dtype="float64")
    layer(X)
    layer.set_weights(whole.get_weights())
    layer.reset_state()
    run = tf.function(layer)

    run(tf.constant(X[:, :2]))
    rest = run(tf.constant(X[:, 2:]))

    np.testing.assert_allclose(rest.numpy(), whole(X).numpy(), rtol=1e-12)
    np.testing.assert_array_equal(layer.states[0].numpy(), rest.numpy())
    layer.reset_state()
    np.testing.assert_allclose(layer(X).numpy(), whole(X).numpy(), rtol=1e-12)
    with pytest.raises(ShapeError, match=r"keeps the states of 3 sequences. Got a batch of 2"):
        layer(X[:2])


@each_layer
def test_dropout_acts_in_training_only_and_follows_its_seed(make: Any) -> None:
    options: dict[str, Any] = {"dropout": 0.4, "recurrent_dropout": 0.4, "seed": 3}
    plain, layer, again = (with_weights(make(**o), X) for o in ({}, options, options))

    first, second = layer(X, training=True).numpy(), layer(X, training=True).numpy()

    assert_close(layer(X), plain(X))
    assert_close(again(X, training=True), first)
    assert not np.allclose(first, plain(X).numpy())
    assert not np.allclose(first, second)


def test_all_steps_lose_the_same_features() -> None:
    layer = SimpleRNN(
        FEATURES, "linear", recurrent_initializer="zeros", kernel_initializer="identity",
        dropout=0.5, return_sequences=True, dtype="float64", seed=1,
    )  # fmt: skip

    y = layer(np.ones((BATCH, STEPS, FEATURES)), training=True).numpy()

    assert set(np.unique(y)) == {0.0, 2.0}
    np.testing.assert_array_equal(y, np.broadcast_to(y[:, :1], y.shape))


def test_layers_compute_in_the_dtype_of_a_mixed_policy() -> None:
    layer = LSTM(UNITS, return_state=True, dtype="mixed_float16")

    outputs = layer(X)

    assert [y.dtype.name for y in outputs] == ["float16"] * 3
    assert [v.dtype.name for v in layer.variables] == ["float32"] * 3


class Sum(Layer):
    """A cell of a user: adds its inputs up."""

    state_size = FEATURES

    def call(self, inputs: Any, states: Any) -> Any:
        total = states[0] + inputs
        return total * 2.0, [total]


def test_a_cell_of_a_user_is_called_at_each_step() -> None:
    outputs = RNN(Sum(dtype="float64"), return_sequences=True, return_state=True)(X)

    assert_close(outputs, [2 * np.cumsum(X, 1), X.sum(1)])


def test_a_cell_that_overrides_call_is_heeded() -> None:
    class Doubled(SimpleRNNCell):
        def call(self, inputs: Any, states: Any, training: bool | None = None) -> Any:
            output, new = super().call(inputs, states, training)
            return 2.0 * output, new

    plain = with_weights(RNN(SimpleRNNCell(UNITS, dtype="float64")), X)
    doubled = with_weights(RNN(Doubled(UNITS, dtype="float64")), X)

    np.testing.assert_allclose(doubled(X).numpy(), 2 * plain(X).numpy(), rtol=1e-12)


@masked_or_not
def test_stacked_cells_are_layers_on_top_of_each_other(mask: Any) -> None:
    layer = with_weights(stacked(return_sequences=True, return_state=True), X)
    lower, upper = layer.cell.cells

    outputs = layer(X, mask=mask)

    below, states = numpy_walk(lower, X, zero_states(lower), mask)
    expected, last = numpy_walk(upper, below, zero_states(upper), mask)
    assert_close(outputs, [expected, *states, *last])


@pytest.mark.parametrize("make", [*LAYERS.values(), stacked], ids=[*LAYERS, "stacked"])
def test_a_cell_alone_does_one_step_of_its_layer(make: Any) -> None:
    layer = with_weights(make(return_state=True), X)

    step = layer.cell(X[:, 0], layer.get_initial_state(BATCH))

    assert_close(step, layer(X[:, :1]))


@masked_or_not
@pytest.mark.parametrize("all_steps", [False, True])
@pytest.mark.parametrize("mode", ["concat", "sum", "mul", "ave", None])
def test_bidirectional_merges_what_both_ways_give(mode: Any, all_steps: bool, mask: Any) -> None:
    layer = with_weights(both_ways(mode, return_sequences=all_steps), X)

    outputs = layer(X, mask=mask)

    one, other = layer.forward_layer.cell, layer.backward_layer.cell
    back = None if mask is None else mask[:, ::-1]
    y, _ = numpy_walk(one, X, zero_states(one), mask)
    z, _ = numpy_walk(other, X[:, ::-1], zero_states(other), back)
    if all_steps and mask is not None:
        y, z = y * mask[..., None], z * back[..., None]  # type: ignore[index]
    y, z = (y, z[:, ::-1]) if all_steps else (y[:, -1], z[:, -1])
    merged = {"concat": np.concatenate([y, z], -1), "sum": y + z, "mul": y * z, "ave": (y + z) / 2}
    assert_close(outputs, [y, z] if mode is None else [merged[mode]])


def test_bidirectional_takes_states_and_a_backward_layer_of_another_kind() -> None:
    start = [np.full((BATCH, n), 0.5) for n in (UNITS, 2)]
    back = SimpleRNN(2, go_backwards=True, dtype="float64")
    layer = with_weights(Bidirectional(GRU(UNITS, dtype="float64"), backward_layer=back), X)

    output = layer(X, initial_state=start)

    y, _ = numpy_walk(layer.forward_layer.cell, X, start[:1])
    z, _ = numpy_walk(back.cell, X[:, ::-1], start[1:])
    assert_close([output], [np.concatenate([y[:, -1], z[:, -1]], -1)])


def test_time_distributed_applies_its_layer_to_each_step() -> None:
    layer = with_weights(TimeDistributed(Dense(2, "tanh", dtype="float64")), X)
    kernel, bias = layer.get_weights()
    again = TimeDistributed.from_config(layer.get_config())

    assert_close([layer(X), tf.function(layer)(X)], [np.tanh(X @ kernel + bias)] * 2)
    assert_gradients_are_slopes(layer, X)
    assert again(Input((None, FEATURES))).shape == (None, None, 2)
    assert layer(Input((7, FEATURES))).shape == (None, 7, 2)


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "masked"])
def test_each_step_of_a_layer_with_averages_goes_on_from_the_last(mask: Any) -> None:
    norm = BatchNormalization(momentum=0.8, epsilon=0.0, dtype="float64")

    y = TimeDistributed(norm)(X, training=True, mask=mask)

    wanted, mean, variance = [], np.zeros(FEATURES), np.ones(FEATURES)
    for step in range(STEPS):
        counted = X[:, step] if mask is None else X[mask[:, step], step]
        m, v = counted.mean(0), counted.var(0)
        with np.errstate(divide="ignore", invalid="ignore"):  # of a single example
            wanted.append((X[:, step] - m) / np.sqrt(v))
        mean, variance = 0.8 * mean + 0.2 * m, 0.8 * variance + 0.2 * v
    kept = slice(None) if mask is None else mask.sum(0) > 1
    assert_close([y.numpy()[:, kept]], [np.stack(wanted, 1)[:, kept]])
    assert_close([norm.moving_mean, norm.moving_variance], [mean, variance])


def test_a_mask_goes_through_a_model_of_recurrent_layers() -> None:
    words = np.array([[1, 2, 3, 0, 0]])
    both = Bidirectional(GRU(3, return_sequences=True))
    each = TimeDistributed(Dense(2))
    model = Sequential([Embedding(5, 4, mask_zero=True), both, each, LSTM(3)])

    padded, short = model(words), model(words[:, :3])

    np.testing.assert_allclose(padded.numpy(), short.numpy(), rtol=1e-6)


def lstm_of(*inputs: Any, **options: Any) -> Any:
    return with_weights(LSTM(2, dtype="float64"), X)(*inputs, **options)


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (lambda: LSTM(2)(np.ones((3, 4))), r"LSTM\) takes sequences .*Got shape \(3, 4\)"),
        (lambda: lstm_of(np.ones((3, 2, 5))), r"was built for 4 features. Got 5"),
        (lambda: lstm_of(X, np.zeros((3, 2))), r"has 2 states. Got .* of 1"),
        (lambda: lstm_of(X, mask=MASK[:, :4]), r"here \(3, 5\). Got \(3, 4\)"),
        (lambda: GRU(0), r"GRUCell takes a positive number of units. Got 0"),
        (lambda: LSTM(2, dropout=1.0), r"dropout of at least 0 and below 1. Got 1.0"),
        (lambda: RNN(Dense(2)), r"A cell is a layer.*Got Dense"),
        (lambda: RNN({"class_name": "Nobody"}), r"There is no layer class 'Nobody'. Import"),
        (lambda: Bidirectional(Dense(2)), r"takes recurrent layers.*Got Dense"),
        (lambda: Bidirectional(LSTM(2), "max"), r"merge_mode .* must be one of.*Got 'max'"),
        (
            lambda: Bidirectional(LSTM(2), backward_layer=LSTM(2)),
            r"must run in opposite directions",
        ),
        (lambda: both_ways("sum")(X, [1.0] * 3), r"lists the states of the forward"),
        (lambda: TimeDistributed(3), r"takes a layer. Got int"),
        (lambda: TimeDistributed(Dense(2))(np.ones((2, 3))), r"Got shape \(2, 3\)"),
        (lambda: LSTM(2, stateful=True)(Input((5, 4))), r"it needs a fixed batch size"),
    ],
)
def test_what_recurrent_layers_cannot_take_is_explained(do: Any, words: str) -> None:
    with pytest.raises((ShapeError, ArgumentError, ArgumentTypeError), match=words):
        do()


def test_cells_of_keras_2_are_told_the_dtype_of_their_state() -> None:
    class Sums(Layer):
        state_size = output_size = 3

        def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
            return tf.ones([batch_size, 3], dtype)

        def call(self, x, states):
            total = states[0] + x
            return total, [total]

    x = np.arange(12.0).reshape(2, 2, 3)
    found = RNN(Sums(dtype="float64"), dtype="float64")(x)
    assert found.dtype == tf.float64
    np.testing.assert_allclose(found, 1 + x.sum(1))
