"""Moving averages of batch normalisation: all of a pass in one call, as if each moved at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.backend.registry import capabilities_of, find_backend
from tapegrad.engine import moving_averages
from tests import capabilities

layers = tf.keras.layers
RNG = np.random.default_rng(0)
BATCHES = [RNG.normal(2.0, 3.0, (8, 5)).astype("f4") for _ in range(3)]


class OnHost:
    """A group for NumPy, where backends move one variable at a time."""

    def __init__(self, arrays: Any) -> None:
        self.count = len(arrays)

    def __call__(self, arrays: Any, seen: Any, share: float) -> Any:
        assert len(arrays) == len(seen) == self.count
        return [a + (s - a) * np.float32(share) for a, s in zip(arrays, seen)]


@pytest.fixture
def calls(monkeypatch):
    """The sizes of groups, when they are made and again each time they move something."""
    kind = type(tf.zeros([1]).array)
    backend = find_backend(kind)
    own = capabilities_of(kind).updates
    make_own = OnHost if kind is np.ndarray else own.prepare_averages
    noted: list[tuple[str, int]] = []

    def make(arrays):
        assert len({array.dtype for array in arrays}) == 1
        noted.append(("made", len(arrays)))
        move = make_own(arrays)

        def moving(*args):
            noted.append(("moved", len(arrays)))
            return move(*args)

        return moving

    prepare = (lambda *_: None) if own is None else own.prepare
    updates = capabilities.grouped_updates(prepare, averages=make)
    capabilities.use(monkeypatch, backend.name, updates=updates)
    # A cached answer would outlive this test.
    monkeypatch.setattr(moving_averages, "_can_defer", moving_averages._can_defer.__wrapped__)
    return noted


def followed(momentum, seen, mean=0.0, variance=1.0):
    """Both averages after batches, by the formula in float64."""
    for x in seen:
        x = np.asarray(x, float)
        mean = momentum * mean + (1 - momentum) * x.mean(0)
        variance = momentum * variance + (1 - momentum) * x.var(0)
    return mean, variance


def assert_follows(layer, momentum, seen):
    mean, variance = followed(momentum, seen)
    np.testing.assert_allclose(layer.moving_mean.numpy(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.moving_variance.numpy(), variance, rtol=1e-5, atol=1e-6)


@pytest.mark.engine
def test_all_layers_of_a_pass_move_in_one_call_and_by_one_kernel_in_all_passes(calls) -> None:
    norms = [layers.BatchNormalization(momentum=0.9) for _ in range(3)]
    inner = tf.keras.Sequential([norms[1], layers.Rescaling(2.0)])
    model = tf.keras.Sequential([norms[0], layers.Rescaling(3.0, 1.0), inner, norms[2]])
    inputs: list[list[Any]] = [[], [], []]
    for x in BATCHES:
        model(x, training=True)
        unit = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3)
        second = 3 * unit + 1
        third = 2 * (second - second.mean(0)) / np.sqrt(second.var(0) + 1e-3)
        for seen, value in zip(inputs, (x, second, third)):
            seen.append(value)

    assert calls == [("made", 6)] + [("moved", 6)] * 3
    for layer, seen in zip(norms, inputs):
        assert_follows(layer, 0.9, seen)


def test_what_was_read_before_stays_as_it_was(calls) -> None:
    layer = layers.BatchNormalization(momentum=0.5)
    model = tf.keras.Sequential([layer])
    model(BATCHES[0], training=True)
    before = layer.moving_mean.value()
    values = before.numpy().copy()
    model(BATCHES[1], training=True)

    np.testing.assert_array_equal(before.numpy(), values)
    assert_follows(layer, 0.5, BATCHES[:2])


def test_a_value_that_is_assigned_is_where_the_next_pass_starts(calls) -> None:
    layer = layers.BatchNormalization(momentum=0.5)
    model = tf.keras.Sequential([layer])
    model(BATCHES[0], training=True)
    layer.moving_mean.assign(np.full(5, 7.0, "f4"))
    model(BATCHES[1], training=True)

    wanted, _ = followed(0.5, BATCHES[1:2], mean=7.0)
    np.testing.assert_allclose(layer.moving_mean.numpy(), wanted, rtol=1e-5)


@pytest.mark.engine
def test_each_momentum_has_its_own_share(calls) -> None:
    first, second = layers.BatchNormalization(momentum=0.9), layers.BatchNormalization(momentum=0.5)
    x = tf.keras.Input((5,))
    model = tf.keras.Model(x, [first(x), second(x)])
    for batch in BATCHES:
        model(batch, training=True)

    assert calls == [("made", 2), ("moved", 2)] * 2 + [("moved", 2)] * 4
    assert_follows(first, 0.9, BATCHES)
    assert_follows(second, 0.5, BATCHES)


@pytest.mark.engine
def test_each_dtype_has_a_call_of_its_own(calls) -> None:
    norms = [layers.BatchNormalization(momentum=0.5, dtype=dtype) for dtype in ("f4", "f8", "f4")]
    model = tf.keras.Sequential([norms[0], layers.Rescaling(0.0), norms[1], norms[2]])
    model(BATCHES[0], training=True)

    assert sorted(calls) == [("made", 2), ("made", 4), ("moved", 2), ("moved", 4)]
    assert_follows(norms[0], 0.5, BATCHES[:1])
    np.testing.assert_allclose(norms[1].moving_variance.numpy(), 0.5)


class Chosen(tf.keras.Model):
    """Calls some of its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = [layers.BatchNormalization(momentum=0.5) for _ in range(3)]

    def call(self, x, which):
        return [self.norms[k](x) for k in which]


@pytest.mark.engine
def test_other_layers_in_the_next_pass(calls) -> None:
    model = Chosen()
    for batch, which in zip(BATCHES, [(0, 1), (2,), (1, 2, 0)], strict=True):
        model(batch, which, training=True)

    assert_follows(model.norms[0], 0.5, [BATCHES[0], BATCHES[2]])
    assert_follows(model.norms[1], 0.5, [BATCHES[0], BATCHES[2]])
    assert_follows(model.norms[2], 0.5, BATCHES[1:])
    assert [size for what, size in calls if what == "moved"] == [4, 2, 6]


class Unhashable(tf.keras.Sequential):
    """A model that compares by itself, as a dataclass does."""

    __hash__ = None

    def __eq__(self, other):
        return self is other


@pytest.mark.engine
def test_a_model_that_cannot_be_hashed(calls) -> None:
    norm = layers.BatchNormalization(momentum=0.5)
    model = Unhashable([norm, layers.ReLU()])
    for batch in BATCHES:
        model(batch, training=True)
    assert_follows(norm, 0.5, BATCHES)
    assert calls == [("made", 2)] + [("moved", 2)] * 3


@pytest.mark.engine
def test_a_momentum_that_changes_leaves_no_kernels_behind(calls) -> None:
    layer = layers.BatchNormalization()
    model = tf.keras.Sequential([layer])
    for k in range(5):
        layer.momentum = 0.5 + k / 16
        model(BATCHES[0], training=True)
    assert len(model._movers) == 1


class Twice(tf.keras.Model):
    """Calls one layer several times in a pass."""

    def __init__(self, last_is_training: bool) -> None:
        super().__init__()
        self.norm = layers.BatchNormalization(momentum=0.5)
        self.last_is_training = last_is_training

    def call(self, x):
        self.norm(x[0], training=True)
        return self.norm(x[1], training=self.last_is_training)


def test_a_layer_that_is_called_twice_follows_both_batches_in_order(calls) -> None:
    model = Twice(True)
    model(BATCHES[:2])
    assert_follows(model.norm, 0.5, BATCHES[:2])


def test_a_call_outside_of_training_sees_what_the_call_before_it_has_moved(calls) -> None:
    model = Twice(False)
    y = model(BATCHES[:2])

    mean, variance = followed(0.5, BATCHES[:1])
    wanted = (BATCHES[1] - mean) / np.sqrt(variance + 1e-3)
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert_follows(model.norm, 0.5, BATCHES[:1])


class Failing(layers.Layer):
    """Fails in training."""

    def call(self, x, training=None):
        if training:
            raise RuntimeError("no training here")
        return x


def test_layers_before_an_error_have_moved(calls) -> None:
    norm = layers.BatchNormalization(momentum=0.5)
    model = tf.keras.Sequential([norm, Failing()])
    with pytest.raises(RuntimeError, match="no training here"):
        model(BATCHES[0], training=True)
    assert_follows(norm, 0.5, BATCHES[:1])


@pytest.mark.engine
def test_call_without_a_pass_around_it_moves_too(calls) -> None:
    norm = layers.BatchNormalization(momentum=0.5)
    norm.build((None, 5))
    norm.call(tf.constant(BATCHES[0]), training=True)
    assert_follows(norm, 0.5, BATCHES[:1])
    assert calls == [("made", 2), ("moved", 2)]


@pytest.mark.engine
@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_averages_of_other_dtypes(calls, dtype) -> None:
    norm = layers.BatchNormalization(momentum=0.5, dtype=dtype)
    model = tf.keras.Sequential([norm])
    model(tf.cast(BATCHES[0], dtype), training=True)

    mean, _ = followed(0.5, BATCHES[:1])
    rtol = 1e-2 if dtype == "bfloat16" else 1e-12
    found = norm.moving_mean
    assert found.dtype.name == dtype
    np.testing.assert_allclose(tf.cast(found.value(), "float64").numpy(), mean, rtol=rtol)
    assert len(calls) == (0 if dtype == "bfloat16" else 2)


def test_no_channels_are_nothing_to_move(calls) -> None:
    norm = layers.BatchNormalization()
    tf.keras.Sequential([norm])(np.zeros((4, 0), "f4"), training=True)
    assert norm.moving_mean.shape == (0,)
    assert calls == []


def test_in_a_function_they_move_with_every_call(calls) -> None:
    norm = layers.BatchNormalization(momentum=0.5)
    model = tf.keras.Sequential([norm])
    step = tf.function(lambda x: model(x, training=True))
    for batch in BATCHES:
        step(tf.constant(batch))
    assert_follows(norm, 0.5, BATCHES)
