"""Fused batch normalization and ReLU give the same results as separate layers."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.keras.layers import fused_norm_relu as joining
from tapegrad.ops.normalization import with_relu as normalization_relu

layers = tf.keras.layers
RNG = np.random.default_rng(0)
IMAGES = RNG.normal(1.0, 2.0, (6, 5, 5, 3)).astype("f4")


@pytest.fixture
def runs(monkeypatch):
    """How often the one primitive has run."""
    noted: list[Any] = []
    primitive = normalization_relu.normalize_relu_p

    def noting(*args, **params):
        noted.append(params)
        return primitive(*args, **params)

    monkeypatch.setattr("tapegrad.keras.layers.normalization.normalize_relu_p", noting)
    return noted


def block(relu: Any, **options: Any) -> list[Any]:
    norm = layers.BatchNormalization(
        gamma_initializer=tf.keras.initializers.RandomUniform(0.5, 1.5),
        beta_initializer=tf.keras.initializers.RandomUniform(-0.5, 0.5),
        **options,
    )
    return [
        layers.Conv2D(4, 3, use_bias=False, dtype=options.get("dtype")),
        norm,
        relu,
        layers.Flatten(),
    ]


def in_a_row(parts: list[Any]) -> Any:
    tf.keras.utils.set_random_seed(1)  # for the same weights in all models
    model = tf.keras.Sequential(parts)
    model.build(IMAGES.shape)
    return model


def as_graph(parts: list[Any]) -> Any:
    tf.keras.utils.set_random_seed(1)
    x = y = tf.keras.Input(IMAGES.shape[1:])
    for part in parts:
        y = part(y)
    return tf.keras.Model(x, y)


def results(model: Any, parts: list[Any], training: bool, apart: bool) -> list[Any]:
    """Output, gradients and weights after a call, of the model or of its layers one by one."""
    x = tf.constant(IMAGES)
    with tf.GradientTape() as tape:
        tape.watch(x)
        if apart:
            y = x
            for part in parts:
                y = part(y, training=training)
        else:
            y = model(x, training=training)
        loss = tf.reduce_sum(tf.cast(y, "float32") ** 3)
    found = tape.gradient(loss, [x, *model.trainable_variables])
    return [y.numpy(), *[g.numpy() for g in found], *[v.numpy() for v in model.variables]]


def assert_close(ours: list[Any], wanted: list[Any], share: float) -> None:
    """Compare arrays, each by a share of its largest element."""
    for mine, theirs in zip(ours, wanted, strict=True):
        mine, theirs = mine.astype("f8"), theirs.astype("f8")
        np.testing.assert_allclose(mine, theirs, rtol=0.0, atol=share * np.abs(theirs).max())


@pytest.mark.engine
@pytest.mark.parametrize("build", [in_a_row, as_graph])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "make", [layers.ReLU, lambda **o: layers.Activation("relu", **o)], ids=["ReLU", "Activation"]
)
def test_a_model_gives_what_its_layers_give(build, training, make, runs) -> None:
    first, second = block(make()), block(make())
    ours = results(build(first), first, training, apart=False)
    wanted = results(build(second), second, training, apart=True)

    assert len(runs) == training
    assert_close(ours, wanted, 1e-5)


@pytest.mark.engine
def test_in_half_precision(runs) -> None:
    policy = "mixed_bfloat16"
    first, second = (block(layers.ReLU(dtype=policy), dtype=policy) for _ in range(2))
    ours = results(in_a_row(first), first, True, apart=False)
    wanted = results(in_a_row(second), second, True, apart=True)

    assert len(runs) == 1
    assert_close(ours, wanted, 0.02)


@pytest.mark.parametrize("options", [{"center": False}, {"scale": False}, {"trainable": False}])
def test_other_kinds_of_normalisation(options, runs) -> None:
    made = [layers.BatchNormalization(name="norm", **options), layers.ReLU()]
    ours = results(in_a_row(made), made, True, apart=False)
    made = [layers.BatchNormalization(name="norm", **options), layers.ReLU()]
    wanted = results(in_a_row(made), made, True, apart=True)

    assert not runs
    assert_close(ours, wanted, 1e-5)


def test_a_mask_passes_through(runs) -> None:
    x = RNG.normal(size=(3, 4, 2)).astype("f4")
    x[1, 2:] = 0.0
    made = [layers.Masking(), layers.BatchNormalization(), layers.ReLU(), layers.LSTM(3)]
    model = tf.keras.Sequential(made)
    y = model(x, training=True)
    before = [v.numpy() for v in model.variables]
    for norm in made[1:2]:
        norm.moving_mean.assign(np.zeros(2, "f4"))
        norm.moving_variance.assign(np.ones(2, "f4"))

    mask = made[0].compute_mask(x, None)
    z = made[2](made[1](made[0](x), training=True, mask=mask))
    wanted = made[3](z, mask=mask)
    np.testing.assert_allclose(y.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(before, model.variables, strict=True):
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-6)
    assert not runs


@pytest.mark.engine
def test_layers_that_were_changed_later_are_called_as_they_are(runs) -> None:
    relu = layers.ReLU()
    model = in_a_row(block(relu))
    model(IMAGES, training=True)
    assert len(runs) == 1

    relu.negative_slope = 0.5
    assert float(tf.reduce_min(model(IMAGES, training=True))) < 0.0
    relu.negative_slope = 0.0
    relu.call = lambda inputs: inputs * 0.0 + 7.0
    assert float(tf.reduce_min(model(IMAGES, training=True))) == 7.0
    del relu.call
    norm = model.layers[1]
    norm.call = lambda inputs, training=None, mask=None: inputs * 0.0 + 5.0
    assert float(tf.reduce_min(model(IMAGES, training=True))) == 5.0
    del norm.call
    norm.activity_regularizer = tf.keras.regularizers.L2(1.0)
    model(IMAGES, training=True)
    assert len(model.losses) == 1
    assert len(runs) == 1


def test_layers_that_were_changed_later_get_the_mask(runs) -> None:
    x = RNG.normal(size=(3, 4, 2)).astype("f4")
    x[1, 2:] = 0.0
    made = [layers.Masking(), layers.BatchNormalization(momentum=0.0), layers.ReLU()]
    model = tf.keras.Sequential(made)
    model(x, training=True)
    made[2].negative_slope = 0.5
    model(x, training=True)

    seen = x[np.any(x != 0, axis=-1)]
    np.testing.assert_allclose(made[1].moving_mean.numpy(), seen.mean(0), rtol=1e-5, atol=1e-6)


def test_layers_of_ones_own_are_left_alone(runs) -> None:
    class Shifted(layers.BatchNormalization):
        def call(self, inputs, training=None, mask=None):
            return super().call(inputs, training, mask) - 100.0

    for norm, relu in [
        (Shifted(), layers.ReLU()),
        (layers.BatchNormalization(), layers.ReLU(max_value=1.0)),
        (layers.BatchNormalization(), layers.ReLU(threshold=0.5)),
        (layers.BatchNormalization(), layers.Activation("tanh")),
        (layers.BatchNormalization(), layers.ReLU(activity_regularizer="l2")),
        (layers.BatchNormalization(dtype="float64"), layers.ReLU()),
    ]:
        model = in_a_row([norm, relu])
        y, wanted = model(IMAGES, training=True), relu(norm(IMAGES, training=True))
        np.testing.assert_array_equal(y.numpy(), wanted.numpy())
    assert not runs


@pytest.mark.engine
def test_what_somebody_else_needs_is_made(runs) -> None:
    x = tf.keras.Input(IMAGES.shape[1:])
    norm, relu, again = layers.BatchNormalization(), layers.ReLU(), layers.ReLU()
    normalized = norm(x)
    for outputs in ([normalized, relu(normalized)], relu(normalized) + again(normalized)):
        model = tf.keras.Model(x, outputs)
        model(IMAGES, training=True)
    assert not runs

    model = tf.keras.Model(x, relu(normalized))
    model(IMAGES, training=True)
    assert len(runs) == 1


@pytest.mark.engine
def test_a_stack_that_grows_is_seen(runs) -> None:
    model = tf.keras.Sequential([layers.BatchNormalization()])
    assert float(tf.reduce_min(model(IMAGES, training=True))) < 0.0
    model.add(layers.ReLU())
    assert float(tf.reduce_min(model(IMAGES, training=True))) == 0.0
    model.pop()
    assert float(tf.reduce_min(model(IMAGES, training=True))) < 0.0
    assert len(runs) == 1


def test_the_model_keeps_its_layers_and_copies_have_their_own(runs) -> None:
    parts = block(layers.ReLU())
    model = in_a_row(parts)
    names = [variable.name for variable in model.variables]
    model(IMAGES, training=True)
    other = copy.deepcopy(model)
    mean = model.layers[1].moving_mean.numpy()
    other(IMAGES, training=True)

    assert model.layers == parts
    assert [variable.name for variable in model.variables] == names
    np.testing.assert_array_equal(model.layers[1].moving_mean.numpy(), mean)
    assert not np.array_equal(other.layers[1].moving_mean.numpy(), mean)


def test_a_function_gives_what_eager_calls_give(runs) -> None:
    first, second = block(layers.ReLU()), block(layers.ReLU())
    model, other = in_a_row(first), in_a_row(second)
    step = tf.function(lambda: results_of_tape(model))

    assert_close([x.numpy() for x in step()], [x.numpy() for x in results_of_tape(other)], 1e-5)


def results_of_tape(model: Any) -> list[Any]:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.constant(IMAGES), training=True) ** 3)
    return [loss, *tape.gradient(loss, model.trainable_variables)]


@pytest.mark.engine
@pytest.mark.parametrize("build", [in_a_row, as_graph])
def test_what_is_remembered_is_no_part_of_the_model_and_ends_with_it(build) -> None:
    model = build(block(layers.ReLU()))
    found = set(vars(model)), len(model.variables)
    model(IMAGES, training=True)
    both = [layer for layer in remembered(model) if isinstance(layer, joining.NormalizedRelu)]
    assert (set(vars(model)), len(model.variables)) == found

    ended = weakref.ref(both.pop())
    del model
    gc.collect()
    assert ended() is None


def remembered(model: Any) -> list[Any]:
    if isinstance(model, tf.keras.Sequential):
        return list(model._joined[1])
    return [node.layer for node in model._joined[0]]


@pytest.mark.engine
def test_pairs_are_found_between_other_layers() -> None:
    made = [part for _ in range(3) for part in block(layers.ReLU())[:3]]
    model = tf.keras.Sequential([layers.ReLU(), *made, layers.BatchNormalization()])
    model.build((None, 20, 20, 3))

    kinds = [type(layer).__name__ for layer in joining.joined(model.layers)]
    assert kinds == ["ReLU", *["Conv2D", "NormalizedRelu"] * 3, "BatchNormalization"]
