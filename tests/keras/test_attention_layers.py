"""Attention layers and rotary embeddings against formulas in NumPy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax

import tapegrad as tf
from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers import Embedding, Input
from tapegrad.keras.layers.attention import (
    AdditiveAttention,
    Attention,
    GroupQueryAttention,
    MultiHeadAttention,
    RotaryEmbedding,
)
from tapegrad.keras.models import Model

draw = np.random.default_rng(0)
QUERY, VALUE, KEY = (draw.normal(size=shape) for shape in ((2, 5, 4), (2, 6, 3), (2, 6, 7)))
SEEN = draw.random((2, 5, 6)) > 0.4
SEEN[..., 0] = True
VALUE_MASK = np.array([[1, 1, 1, 1, 0, 0], [1, 0, 1, 1, 1, 1]], bool)
CAUSAL = np.tril(np.ones((5, 6), bool))
HEADED: dict[str, Callable[..., Any]] = {
    "heads": lambda **o: MultiHeadAttention(2, 3, dtype="float64", **o),
    "wide-values": lambda **o: MultiHeadAttention(2, 3, 5, output_shape=9, dtype="float64", **o),
    "gated": lambda **o: MultiHeadAttention(2, 3, use_gate=True, dtype="float64", **o),
    "without-bias": lambda **o: MultiHeadAttention(2, 3, use_bias=False, dtype="float64", **o),
    "groups": lambda **o: GroupQueryAttention(3, 4, 2, dtype="float64", **o),
    "gated-groups": lambda **o: GroupQueryAttention(3, 4, 2, use_gate=True, dtype="float64", **o),
}
MASKS: dict[str, tuple[dict[str, Any], Any]] = {
    "all": ({}, np.ones((2, 5, 6), bool)),
    "masked": ({"attention_mask": SEEN}, SEEN),
    "causal": ({"use_causal_mask": True}, CAUSAL[None] & np.ones((2, 1, 1), bool)),
    "values": ({"value_mask": VALUE_MASK}, np.repeat(VALUE_MASK[:, None], 5, 1)),
    "both": ({"attention_mask": SEEN, "use_causal_mask": True}, SEEN & CAUSAL),
}
each_headed = pytest.mark.parametrize("make", HEADED.values(), ids=HEADED)
each_mask = pytest.mark.parametrize(("options", "seen"), MASKS.values(), ids=MASKS)
PLAIN: dict[str, Callable[..., Any]] = {
    "dot": lambda **o: Attention(dtype="float64", **o),
    "scaled": lambda **o: Attention(use_scale=True, dtype="float64", **o),
    "concat": lambda **o: Attention(True, "concat", dtype="float64", **o),
    "additive": lambda **o: AdditiveAttention(dtype="float64", **o),
    "additive-unscaled": lambda **o: AdditiveAttention(use_scale=False, dtype="float64", **o),
}
each_plain = pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
LIST = [QUERY, draw.normal(size=(2, 6, 3)), draw.normal(size=(2, 6, 4))]


def with_weights(layer: Any, *inputs: Any) -> Any:
    """Build a layer and give it weights that are all different from 0."""
    layer(*inputs)
    numbers = np.random.default_rng(1)
    layer.set_weights([numbers.normal(size=w.shape) for w in layer.get_weights()])
    return layer


def numpy_heads(layer: Any, query: Any, value: Any, key: Any, seen: Any) -> tuple[Any, Any]:
    """The output and the weights of the heads, head by head by the textbook."""

    def project(dense: Any, x: Any) -> Any:
        weights = dense.get_weights()
        return np.einsum("btf,fnk->btnk", x, weights[0]) + sum(weights[1:])

    q, k, v = (
        project(dense, x)
        for dense, x in (
            (layer.query_dense, query),
            (layer.key_dense, key),
            (layer.value_dense, value),
        )
    )
    shared = q.shape[2] // k.shape[2]
    k, v = np.repeat(k, shared, 2), np.repeat(v, shared, 2)
    scores = np.einsum("btnk,bsnk->bnts", q, k) / np.sqrt(q.shape[-1])
    weights = softmax(np.where(seen[:, None], scores, -np.inf), axis=-1)
    result = np.einsum("bnts,bsnv->btnv", weights, v)
    if layer.use_gate:
        result = result * expit(project(layer.gate_dense, query))
    kernel, *bias = layer.output_dense.get_weights()
    return np.einsum("btnv,nvf->btf", result, kernel) + sum(bias), weights


def numpy_plain(layer: Any, inputs: Any, seen: Any) -> tuple[Any, Any]:
    query, value, key = inputs[0], inputs[1], inputs[-1]
    scale = layer.scale.numpy() if layer.use_scale else 1.0
    sums = query[:, :, None] + key[:, None]
    if isinstance(layer, AdditiveAttention):
        scores = np.sum(scale * np.tanh(sums), -1)
    elif layer.score_mode == "concat":
        scores = layer.concat_score_weight.numpy() * np.sum(np.tanh(scale * sums), -1)
    else:
        scores = scale * query @ key.swapaxes(1, 2)
    weights = softmax(np.where(seen, scores, -np.inf), axis=-1)
    return weights @ value, weights


def assert_close(got: Any, wanted: Any) -> None:
    for one, other in zip(nest.flatten(got), nest.flatten(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-11, atol=1e-12)


def assert_gradients_are_slopes(layer: Any, inputs: list[Any], call: Callable[..., Any]) -> None:
    """Compare all gradients with a central difference along one random direction."""
    numbers, step, weights = np.random.default_rng(7), 1e-6, layer.get_weights()
    at = [tf.constant(x) for x in inputs]

    def loss(given: list[Any]) -> Any:
        outputs = nest.flatten(call(given))
        return sum(tf.reduce_sum(tf.sin(y * (k + 1.0))) for k, y in enumerate(outputs))

    with tf.GradientTape() as tape:
        tape.watch(at)
        value = loss(at)
    gradients = tape.gradient(value, [*at, *layer.trainable_variables])
    directions = [numbers.normal(size=g.shape) for g in gradients]
    ends = []
    for sign in (1.0, -1.0):
        moved = [p + sign * step * d for p, d in zip([*inputs, *weights], directions, strict=True)]
        layer.set_weights(moved[len(inputs) :])
        ends.append(loss([tf.constant(x) for x in moved[: len(inputs)]]).numpy())
    along = sum(np.sum(g.numpy() * d) for g, d in zip(gradients, directions))
    np.testing.assert_allclose(along, (ends[0] - ends[1]) / (2 * step), rtol=1e-7, atol=1e-7)


@each_mask
@each_headed
def test_heads_average_values_by_their_scores(make: Any, options: Any, seen: Any) -> None:
    layer = with_weights(make(), QUERY, VALUE, KEY)

    output = layer(QUERY, VALUE, KEY, **options)
    with_scores = layer(QUERY, VALUE, KEY, return_attention_scores=True, **options)

    expected = numpy_heads(layer, QUERY, VALUE, KEY, seen)
    assert_close([output, with_scores], [expected[0], *expected])


@each_mask
@each_headed
@pytest.mark.parametrize("with_scores", [False, True])
def test_gradients_of_heads_are_slopes(
    make: Any, options: Any, seen: Any, with_scores: bool
) -> None:
    layer = with_weights(make(), QUERY, VALUE, KEY)
    options = {**options, "return_attention_scores": with_scores}

    assert_gradients_are_slopes(layer, [QUERY, VALUE, KEY], lambda x: layer(*x, **options))


@each_headed
def test_self_attention_is_causal_from_the_first_key_on(make: Any) -> None:
    layer = with_weights(make(), QUERY, QUERY)

    output = layer(QUERY, QUERY, use_causal_mask=True)

    seen = np.tril(np.ones((1, 5, 5), bool))
    assert_close(output, numpy_heads(layer, QUERY, QUERY, QUERY, seen)[0])


def test_a_sliding_window_shows_the_neighbours() -> None:
    layer = with_weights(MultiHeadAttention(2, 3, sliding_window=2, dtype="float64"), QUERY, QUERY)

    both, causal = layer(QUERY, QUERY), layer(QUERY, QUERY, use_causal_mask=True)

    apart = np.arange(5)[:, None] - np.arange(5)
    assert_close(both, numpy_heads(layer, QUERY, QUERY, QUERY, (abs(apart) < 2)[None])[0])
    near = (apart < 2) & (apart >= 0)
    assert_close(causal, numpy_heads(layer, QUERY, QUERY, QUERY, near[None])[0])


def test_a_query_that_sees_nothing_gets_the_bias_and_no_gradient_that_is_not_a_number() -> None:
    layer = with_weights(MultiHeadAttention(2, 3, dtype="float64"), QUERY, QUERY)
    mask = np.ones((2, 5), bool)
    mask[0, 3] = False

    with tf.GradientTape() as tape:
        output = layer(QUERY, QUERY, query_mask=mask)
        total = tf.reduce_sum(output)
    gradients = tape.gradient(total, layer.trainable_variables)

    assert_close(output[0, 3], layer.output_dense.bias)
    assert all(np.isfinite(g.numpy()).all() for g in gradients)


def test_an_axis_before_the_sequence_is_another_batch() -> None:
    x = np.random.default_rng(3).normal(size=(2, 3, 5, 4))
    layer = MultiHeadAttention(2, 3, attention_axes=2, dtype="float64")
    with_weights(layer, x, x)

    output, scores = layer(x, x, return_attention_scores=True)

    flat, everything = x.reshape(6, 5, 4), np.ones((6, 5, 5), bool)
    expected = numpy_heads(layer, flat, flat, flat, everything)
    assert_close(output, expected[0].reshape(2, 3, 5, 4))
    assert_close(scores, expected[1].reshape(2, 3, 2, 5, 5))


@pytest.mark.parametrize("axes", [None, (1, 2), (-2, -3)])
def test_several_axes_are_one_sequence(axes: Any) -> None:
    x = np.random.default_rng(3).normal(size=(2, 3, 5, 4))
    layer = MultiHeadAttention(2, 3, attention_axes=axes, dtype="float64")
    with_weights(layer, x, x)
    mask = np.random.default_rng(4).random((2, 3, 5, 3, 5)) < 0.7

    output, scores = layer(x, x, attention_mask=mask, return_attention_scores=True)

    flat = x.reshape(2, 15, 4)
    expected = numpy_heads(layer, flat, flat, flat, mask.reshape(2, 15, 15))
    assert_close(output, expected[0].reshape(2, 3, 5, 4))
    assert_close(scores, expected[1].reshape(2, 2, 3, 5, 3, 5))
    assert layer(Input((3, 5, 4)), Input((3, 5, 4))).shape == (None, 3, 5, 4)


def test_the_first_of_two_axes_attends_within_each_of_the_others() -> None:
    x = np.random.default_rng(3).normal(size=(2, 3, 5, 4))
    layer = MultiHeadAttention(2, 3, attention_axes=1, dtype="float64")
    with_weights(layer, x, x)

    flat, everything = x.swapaxes(1, 2).reshape(10, 3, 4), np.ones((10, 3, 3), bool)
    expected = numpy_heads(layer, flat, flat, flat, everything)[0]
    assert_close(layer(x, x), expected.reshape(2, 5, 3, 4).swapaxes(1, 2))


def test_weights_have_the_shapes_of_keras() -> None:
    heads = with_weights(MultiHeadAttention(2, 3, 5), QUERY, VALUE, KEY)
    groups = with_weights(GroupQueryAttention(3, 4, 2, use_bias=False), QUERY, VALUE)

    assert [w.shape for w in heads.get_weights()] == [
        (4, 2, 3), (2, 3), (7, 2, 3), (2, 3), (3, 2, 5), (2, 5), (2, 5, 4), (4,)
    ]  # fmt: skip
    assert [w.shape for w in groups.get_weights()] == [(4, 4, 3), (3, 2, 3), (3, 2, 3), (4, 3, 4)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("is_masked", [False, True])
@each_plain
def test_attention_without_heads_follows_its_formula(
    make: Any, is_masked: bool, causal: bool
) -> None:
    layer = with_weights(make(), LIST)
    query_mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    mask = [tf.constant(query_mask), tf.constant(VALUE_MASK)] if is_masked else None

    output = layer(LIST, mask=mask, use_causal_mask=causal)
    again, scores = layer(LIST, mask, return_attention_scores=True, use_causal_mask=causal)

    seen = (VALUE_MASK[:, None] if is_masked else True) & (CAUSAL if causal else np.True_)
    expected, weights = numpy_plain(layer, LIST, seen)
    expected = np.where(query_mask[..., None], expected, 0.0) if is_masked else expected
    assert_close([output, again, scores], [expected, expected, weights])
    assert_gradients_are_slopes(layer, LIST, lambda x: layer(x, mask, use_causal_mask=causal))


def test_values_are_the_keys_where_no_keys_are_given() -> None:
    layer = with_weights(Attention(use_scale=True, dtype="float64"), [QUERY, QUERY])

    assert_close(layer([QUERY, QUERY]), layer([QUERY, QUERY, QUERY]))


def calls_of(layer: Any) -> Callable[[list[Any]], Any]:
    is_plain = isinstance(layer, Attention | AdditiveAttention)
    return layer if is_plain else lambda inputs: layer(*inputs)


every_kind = pytest.mark.parametrize(
    "make", [*HEADED.values(), *PLAIN.values()], ids=[*HEADED, *PLAIN]
)


@every_kind
def test_a_function_gives_what_the_eager_layer_gives(make: Any) -> None:
    layer = make()
    call = calls_of(layer)
    given = [tf.constant(x) for x in LIST]
    call(given)

    def gradients(inputs: list[Any]) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(call(inputs) ** 2)
        return [y, *tape.gradient(y, layer.trainable_variables)]

    compiled = tf.function(gradients)
    compiled(given)

    assert_close(compiled(given), gradients(given))


@every_kind
def test_a_configuration_makes_a_layer_of_the_same_kind(make: Any) -> None:
    layer = make(dropout=0.2)
    expected = calls_of(layer)(LIST)

    again = type(layer).from_config(json.loads(json.dumps(layer.get_config())))
    calls_of(again)(LIST)
    again.set_weights(layer.get_weights())

    assert again.get_config() == layer.get_config()
    assert_close(calls_of(again)(LIST), expected)


@every_kind
def test_shapes_are_known_before_values(make: Any) -> None:
    layer = make()
    places = [Input((None, x.shape[-1]), dtype="float64") for x in LIST]
    given: Any = [places] if isinstance(layer, Attention | AdditiveAttention) else places
    model = Model(places, layer(*given, return_attention_scores=True))

    outputs = model(LIST)

    for place, y in zip(model.outputs, outputs, strict=True):
        assert len(place.shape) == len(y.shape)
        assert all(n in (None, m) for n, m in zip(place.shape, y.shape))
    assert model.outputs[0].shape == (None, None, outputs[0].shape[-1])


@every_kind
def test_dropout_acts_in_training_only_and_follows_its_seed(make: Any) -> None:
    layer, again = (make(dropout=0.5, seed=3) for _ in range(2))
    plain = calls_of(layer)(LIST).numpy()
    calls_of(again)(LIST)
    again.set_weights(layer.get_weights())

    def trained(which: Any) -> Any:
        is_plain = isinstance(which, Attention | AdditiveAttention)
        return which(LIST, training=True) if is_plain else which(*LIST, training=True)

    first, same = trained(layer).numpy(), trained(again).numpy()

    assert not np.allclose(first, plain)
    np.testing.assert_array_equal(first, same)


def test_a_mask_of_queries_and_values_comes_from_the_model() -> None:
    words = Input((None,), dtype="int32")
    states = Embedding(9, 4, mask_zero=True)(words)
    model = Model(words, Attention()([states, states]))

    padded, short = model(np.array([[3, 5, 0, 0]])), model(np.array([[3, 5]]))

    np.testing.assert_allclose(padded[:, :2].numpy(), short.numpy(), rtol=1e-6)
    np.testing.assert_array_equal(padded[:, 2:].numpy(), 0.0)


def test_layers_compute_in_the_dtype_of_a_mixed_policy() -> None:
    heads = MultiHeadAttention(2, 3, dtype="mixed_float16")

    y = heads(QUERY, QUERY, use_causal_mask=True)

    assert y.dtype.name == "float16"
    assert {v.dtype.name for v in heads.variables} == {"float32"}


def numpy_rotary(x: Any, positions: Any, base: float = 10000.0) -> Any:
    """Pairs of features as complex numbers, turned by position * base ** (-2 i / features)."""
    half = x.shape[-1] // 2
    angles = positions[..., None] * base ** (-np.arange(half) / half)
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], -1)


def test_rotary_positions_turn_pairs_of_features() -> None:
    layer = RotaryEmbedding(max_wavelength=500, scaling_factor=2.0, dtype="float64")
    places = np.array([[4, 0, 1, 2, 9], [3, 3, 3, 0, 1]])

    plain, later = layer(QUERY), layer(QUERY, start_index=3)
    given = layer(QUERY, positions=places)

    assert_close(plain, numpy_rotary(QUERY, np.arange(5) / 2, 500.0))
    assert_close(later, numpy_rotary(QUERY, (np.arange(5) + 3) / 2, 500.0))
    assert_close(given, numpy_rotary(QUERY, places / 2, 500.0))
    assert_close(tf.function(layer)(tf.constant(QUERY)), plain)
    assert_gradients_are_slopes(layer, [QUERY], lambda x: layer(x[0]))
    assert RotaryEmbedding.from_config(layer.get_config()).max_wavelength == 500
    assert layer(Input((None, 4))).shape == (None, None, 4)


def test_rotary_positions_along_other_axes() -> None:
    x = np.random.default_rng(2).normal(size=(2, 5, 3, 4))
    heads = RotaryEmbedding(dtype="float64")
    swapped = RotaryEmbedding(sequence_axis=-1, feature_axis=1, dtype="float64")
    places = np.array([[4, 0, 1, 2, 9], [3, 3, 3, 0, 1]])

    by_heads, by_place = heads(x), heads(x, positions=places)
    other = swapped(np.moveaxis(x, (1, 3), (3, 1)))

    expected = numpy_rotary(x.swapaxes(1, 2), np.arange(5)).swapaxes(1, 2)
    assert_close(by_heads, expected)
    assert_close(by_place, numpy_rotary(x.swapaxes(1, 2), places[:, None]).swapaxes(1, 2))
    assert_close(other, np.moveaxis(expected, (1, 3), (3, 1)))


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (lambda: MultiHeadAttention(0, 3), r"takes a positive num_heads. Got 0"),
        (lambda: MultiHeadAttention(2, 3, dropout=1.0), r"dropout of at least 0.*Got 1.0"),
        (lambda: MultiHeadAttention(2, 3, sliding_window=0), r"positive sliding_window.*Got 0"),
        (
            lambda: MultiHeadAttention(2, 3, attention_axes=3)(QUERY[None], QUERY[None]),
            r"between the batch and the features.*axes=3",
        ),
        (lambda: MultiHeadAttention(2, 3)(QUERY, VALUE, KEY[:, :5]), r"Got \(2, 5, 4\), \(2, 6"),
        (lambda: MultiHeadAttention(2, 3)(QUERY, VALUE[:1]), r"query and value with equal sizes"),
        (lambda: GroupQueryAttention(3, 4, 3), r"must divide its num_query_heads. Got 3 and 4"),
        (lambda: GroupQueryAttention(3, 4, 2)(QUERY[None], QUERY[None]), r"Got 4 dimensions"),
        (lambda: Attention(score_mode="cosine"), r"'dot' or 'concat'. Got 'cosine'"),
        (lambda: Attention()(QUERY), r"\(Attention\) takes a list \[query, value\]"),
        (lambda: Attention()([QUERY, VALUE]), r"\(Attention\) takes queries and keys with the"),
        (lambda: AdditiveAttention()(LIST, mask=SEEN), r"takes a list of masks"),
        (lambda: RotaryEmbedding(scaling_factor=0), r"positive max_wavelength and scaling"),
        (lambda: RotaryEmbedding()(VALUE), r"even number of features. Got shape \(2, 6, 3\)"),
    ],
)
def test_what_attention_layers_cannot_take_is_explained(do: Any, words: str) -> None:
    with pytest.raises((ShapeError, ArgumentError), match=words):
        do()
