"""LossScaleOptimizer: dynamic scale and skipped steps on the device."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras import optimizers
from tapegrad.keras.optimizers import LossScaleOptimizer

SHAPES = ((4, 3), (3, 5), (3,), ())


def values(seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in SHAPES]


def new_variables(dtype="float64"):
    return [tf.Variable(x, dtype=dtype) for x in values(0)]


def applying(optimizer, variables):
    def step(*gradients):
        optimizer.apply_gradients(zip(gradients, variables))

    return step


@pytest.fixture
def strict_device():
    register_backend(strict.StrictBackend())
    with tf.device("strict:0"):
        yield "strict:0"
    unregister_backend("strict")


def scaled(**options):
    return LossScaleOptimizer(optimizers.Adam(0.1), **{"initial_scale": 8.0, **options})


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "function"])
def test_the_scale_halves_at_bad_gradients_and_doubles_after_good_ones(inside):
    w, optimizer = tf.Variable([1.0, 1.0]), scaled(dynamic_growth_steps=3)
    step = applying(optimizer, [w])
    step = tf.function(step) if inside else step
    scales = []

    for bad in [False, False, False, True, False, True, False, False, False]:
        step(tf.constant([np.nan if bad else 1.0, 1.0], "float32"))
        scales.append((float(optimizer.dynamic_scale), int(optimizer.step_counter)))

    assert scales == [
        (8.0, 1), (8.0, 2), (16.0, 0), (8.0, 0), (8.0, 1), (4.0, 0), (4.0, 1), (4.0, 2), (8.0, 0),
    ]  # fmt: skip
    assert int(optimizer.iterations) == 7


@pytest.mark.parametrize(
    "inner",
    [
        lambda: optimizers.Adam(0.1, use_ema=True, weight_decay=0.1),
        lambda: optimizers.Nadam(0.1, gradient_accumulation_steps=2),
        lambda: tf.optimizers.SGD(0.1, momentum=0.9, use_ema=True),
    ],
)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_bad_step_changes_nothing_but_the_scale(inner, bad):
    variables, inner = new_variables("float32"), inner()
    step = tf.function(applying(LossScaleOptimizer(inner, 8.0), variables))
    gradients = [tf.constant(g, "float32") for g in values(1)]
    step(*gradients)
    step(*gradients)
    before = [place.numpy() for place in [*variables, *inner.variables]]

    step(*gradients[:2], gradients[2] * bad, *gradients[3:])

    for place, old in zip([*variables, *inner.variables], before):
        np.testing.assert_array_equal(place.numpy(), old)


def test_good_steps_are_those_of_the_inner_optimizer():
    variables, wanted = new_variables(), new_variables()
    optimizer, plain = scaled(), optimizers.Adam(0.1)

    for t in range(1, 4):
        gradients = [tf.constant(g) for g in values(t)]
        applying(plain, wanted)(*gradients)
        applying(optimizer, variables)(*[g * 8.0 for g in gradients])

    for one, other in zip(variables, wanted):
        np.testing.assert_allclose(one.numpy(), other.numpy(), 1e-12)


def test_gradients_too_small_for_half_precision_arrive():
    w, u = tf.Variable(0.0), tf.Variable(0.0)
    small = tf.constant(1e-4, "float16")  # its square is 0 in half precision

    def loss(variable):
        return tf.cast(variable, "float16") * small * small

    optimizers.SGD(1.0).minimize(lambda: loss(u), [u])
    LossScaleOptimizer(optimizers.SGD(1.0)).minimize(lambda: loss(w), [w])

    assert float(u) == 0.0
    assert float(w) == pytest.approx(-1e-8, rel=1e-2)


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_loss_scaling_reads_nothing_from_the_device(strict_device):
    w = tf.Variable([1.0, 2.0])
    optimizer = scaled()

    with strict.forbidding_reads():
        optimizer.minimize(lambda: tf.reduce_sum(w * w), [w])
        optimizer.apply_gradients([(w * float("inf"), w)])

    assert float(optimizer.dynamic_scale) == 4.0
    assert {place.device for place in optimizer.variables} == {strict_device}
    np.testing.assert_allclose(w.numpy(), [0.9, 1.9], 1e-5)


def test_a_sparse_gradient_is_scaled_back_and_checked():
    w, optimizer = tf.Variable([[1.0], [2.0]]), LossScaleOptimizer(optimizers.SGD(0.5), 8.0)

    for value in (8.0, np.inf):
        rows = tf.IndexedSlices(tf.constant([[value]], "float32"), tf.constant([1]), (2, 1))
        optimizer.apply_gradients([(rows, w)])

    assert w.numpy().tolist() == [[1.0], [1.5]]


def test_the_learning_rate_of_the_wrapper_is_that_of_the_inner_optimizer():
    optimizer = scaled()

    optimizer.learning_rate = 0.5

    assert float(optimizer.inner_optimizer.learning_rate) == 0.5
    assert optimizer.iterations is optimizer.inner_optimizer.iterations


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LossScaleOptimizer("adam"), r"wraps an optimizer\. Got str: 'adam'\."),
        (lambda: scaled(initial_scale=0.0), r"initial_scale must be positive\. Got 0\.0\."),
        (lambda: scaled(dynamic_growth_steps=0), r"must be at least 1\. Got 0\."),
    ],
)
def test_what_cannot_be_is_refused_in_words(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_variables_may_live_where_new_tensors_do_not_go(strict_device):
    w, optimizer = tf.Variable([1.0, 1.0]), scaled(dynamic_growth_steps=1)
    good, bad = tf.constant([1.0, 1.0]), tf.constant([np.inf, 1.0])

    with tf.device("cpu"):
        for gradient in (good, bad, good):
            optimizer.apply_gradients([(gradient, w)])

    assert float(optimizer.dynamic_scale) == 16.0
    assert int(optimizer.iterations) == 2
