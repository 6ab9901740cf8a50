"""User-defined optimizers with build and update_step against the built-in ones."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError
from tapegrad.train import Checkpoint

Optimizer = keras.optimizers.Optimizer


class OwnMomentum(Optimizer):
    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.9, **others: Any) -> None:
        super().__init__(learning_rate=learning_rate, **others)
        self.momentum = momentum

    def build(self, variables: Any) -> None:
        if self.built:
            return
        super().build(variables)
        self.momentums = []
        for variable in variables:
            self.momentums.append(
                self.add_variable_from_reference(reference_variable=variable, name="momentum")
            )

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        rate = tf.cast(learning_rate, variable.dtype)
        gradient = tf.cast(gradient, variable.dtype)
        m = self.momentums[self._get_variable_index(variable)]
        self.assign(m, self.momentum * m - rate * gradient)
        self.assign_add(variable, m)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "momentum": self.momentum}


class OwnAdam(Optimizer):
    """Also without the guard against a second build, and with a number that all steps share."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        self.m, self.v = self.add_optimizer_variables(variables, ["m", "v"])
        self.powers = self.add_variable((2,), "ones", "float32", name="powers")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        index = self._get_variable_index(variable)
        m, v = self.m[index], self.v[index]
        if index == 0:
            self.assign(self.powers, self.powers * tf.constant([0.9, 0.999]))
        step = tf.cast(self.iterations + 1, "float32")
        scale = learning_rate * tf.sqrt(1 - tf.pow(0.999, step)) / (1 - tf.pow(0.9, step))
        self.assign_add(m, (gradient - m) * (1 - 0.9))
        self.assign_add(v, (tf.square(gradient) - v) * (1 - 0.999))
        variable.assign_sub(scale * m / (tf.sqrt(v) + 1e-7))


def momentum_by_formula(w: Any, gradients: list[Any], rate: float) -> Any:
    w, m = w.astype("float64"), np.zeros(w.shape)
    for g in gradients:
        m = 0.9 * m - rate * g
        w = w + m
    return w


def adam_by_formula(w: Any, gradients: list[Any], rate: float) -> Any:
    w, m, v = w.astype("float64"), np.zeros(w.shape), np.zeros(w.shape)
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-7)
    return w


Make = Callable[..., Any]
KINDS: dict[str, tuple[Make, Make, Any]] = {
    "momentum": (
        OwnMomentum,
        lambda rate, **more: keras.optimizers.SGD(rate, 0.9, **more),
        momentum_by_formula,
    ),
    "adam": (OwnAdam, keras.optimizers.Adam, adam_by_formula),
}
kinds = pytest.mark.parametrize("kind", KINDS)

START = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], "float32")
GRADIENTS = [np.sin(np.arange(6, dtype="float32") + k).reshape(2, 3) * 3 for k in range(6)]


def moved(optimizer: Any, recorded: bool = False, **options: Any) -> list[Any]:
    """Two variables after six steps of one optimizer."""
    first, second = tf.Variable(START, name="first", **options), tf.Variable(START[0] * 2)

    def step(g: Any) -> None:
        optimizer.apply_gradients([(g, first), (g[1] * 0.5, second)])

    run = tf.function(step) if recorded else step
    for gradient in GRADIENTS:
        run(tf.constant(gradient))
    return [first.numpy(), second.numpy()]


@kinds
@pytest.mark.parametrize("recorded", [False, True], ids=["eager", "recorded"])
def test_own_rules_agree_with_formulas_in_numpy(kind: str, recorded: bool) -> None:
    own, _, formula = KINDS[kind]

    first, second = moved(own(0.1), recorded)

    np.testing.assert_allclose(first, formula(START, GRADIENTS, 0.1), rtol=2e-5)
    halves = [g[1] * 0.5 for g in GRADIENTS]
    np.testing.assert_allclose(second, formula(START[0] * 2, halves, 0.1), rtol=2e-5)


OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "clipnorm": lambda: {"clipnorm": 1.5},
    "clipvalue": lambda: {"clipvalue": 0.5},
    "global_clipnorm": lambda: {"global_clipnorm": 1.5},
    "weight_decay": lambda: {"weight_decay": 0.2},
    "use_ema": lambda: {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    "accumulation": lambda: {"gradient_accumulation_steps": 3},
    "loss_scale_factor": lambda: {"loss_scale_factor": 4.0},
    "schedule": lambda: {"learning_rate": keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)},
    "together": lambda: {
        "learning_rate": keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5),
        "gradient_accumulation_steps": 2,
        "weight_decay": 0.1,
        "global_clipnorm": 1.0,
        "use_ema": True,
        "loss_scale_factor": 2.0,
    },
}


@kinds
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("recorded", [False, True], ids=["eager", "recorded"])
def test_options_do_the_same_as_for_the_built_in_ones(kind: str, name: str, recorded: bool) -> None:
    own, ours, _ = KINDS[kind]
    options = {"learning_rate": 0.1, **OPTIONS[name]()}

    mine, theirs = own(**options), ours(options.pop("learning_rate"), **options)

    for a, b in zip(moved(mine, recorded), moved(theirs, recorded), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert int(mine.iterations) == int(theirs.iterations)
    if mine.use_ema:
        mine.swap_in_averages()
        theirs.swap_in_averages()
        pairs = zip(mine._known.values(), theirs._known.values(), strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


@kinds
@pytest.mark.parametrize("recorded", [False, True], ids=["eager", "recorded"])
def test_a_scaled_loss_leaves_out_steps_that_are_not_finite(kind: str, recorded: bool) -> None:
    found = []
    for make in KINDS[kind][:2]:
        w, inner = tf.Variable([1.0, 2.0]), make(0.1)
        optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0)

        def step(g: Any, optimizer: Any = optimizer, w: Any = w) -> None:
            optimizer.apply_gradients([(g, w)])

        run = tf.function(step) if recorded else step
        for g in ([8.0, 4.0], [float("inf"), 1.0], [2.0, -2.0]):
            run(tf.constant(g))
        found.append((w.numpy(), int(inner.iterations), float(optimizer.dynamic_scale)))

    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    assert found[0][1:] == found[1][1:] == (2, 4.0)


def test_constraints_hold_after_own_steps() -> None:
    first, _ = moved(OwnMomentum(0.1), constraint=keras.constraints.NonNeg())

    assert (first >= 0).all()


def test_rows_of_an_embedding_come_as_a_dense_gradient() -> None:
    table, rows = tf.Variable(np.ones((4, 2), "float32")), tf.constant([1, 3, 1])
    optimizer = OwnMomentum(0.5)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, rows))

    optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    assert table.numpy()[:, 0].tolist() == [1.0, 0.0, 1.0, 0.5]


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_assigned_values_take_the_dtype_of_the_variable(dtype: str) -> None:
    class Plain(Optimizer):
        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            self.assign_sub(variable, learning_rate * gradient)
            self.assign(variable, np.asarray(variable.numpy(), "float32") * 2)

    w = tf.Variable([1.0], dtype=dtype)
    Plain(0.5).apply_gradients([([1.0], w)])

    assert w.numpy().tolist() == [1.0]
    assert w.dtype.name == dtype


def model_and_data() -> tuple[Any, Any, Any]:
    tf.random.set_seed(5)
    x = np.random.default_rng(0).normal(size=(48, 4)).astype("float32")
    layers = [keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((4,)), *layers]), x, x[:, :1] ** 2


@kinds
@pytest.mark.parametrize("eagerly", [False, True], ids=["recorded", "eager"])
def test_fit_goes_as_with_the_built_in_ones(kind: str, eagerly: bool) -> None:
    losses = []
    for make in KINDS[kind][:2]:
        model, x, y = model_and_data()
        model.compile(make(0.01, clipnorm=1.0), "mse", run_eagerly=eagerly)
        losses.append(model.fit(x, y, epochs=3, batch_size=8, verbose=0).history["loss"])

    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_fit_draws_random_starts_once_and_for_all_variables() -> None:
    class Drawn(OwnMomentum):
        def build(self, variables: Any) -> None:
            Optimizer.build(self, variables)
            self.momentums = self.add_optimizer_variables(variables, "m", "random_normal")

    found = []
    for eagerly in (False, True):
        model, x, y = model_and_data()
        model.compile(Drawn(0.01), "mse", run_eagerly=eagerly)
        model.fit(x, y, epochs=2, batch_size=8, verbose=0)
        found.append(tf.random.get_global_generator().state.numpy().tolist())

    assert found[0] == found[1]
    assert len(model.optimizer.momentums) == 4


@kinds
def test_a_checkpoint_holds_what_an_own_optimizer_keeps(kind: str, tmp_path: Path) -> None:
    own = KINDS[kind][0]

    def trained(optimizer: Any, w: Any, steps: int) -> list[float]:
        for k in range(steps):
            optimizer.apply_gradients([(tf.sin(w * 3.0) + k, w)])
        return [*w.numpy().tolist(), int(optimizer.iterations)]

    w, optimizer = tf.Variable([1.0, 2.0]), own(0.1)
    trained(optimizer, w, 3)
    path = Checkpoint(w=w, optimizer=optimizer).write(f"{tmp_path}/ckpt")
    expected = trained(optimizer, w, 2)

    other, fresh = tf.Variable([0.0, 0.0]), own(0.1)
    Checkpoint(w=other, optimizer=fresh).read(path).assert_consumed()
    assert trained(fresh, other, 2) == expected
    Checkpoint(w=w, optimizer=optimizer).read(path).assert_consumed()
    assert trained(optimizer, w, 2) == expected
    assert len(fresh.variables) == len(optimizer.variables) == {"momentum": 3, "adam": 5}[kind]


@kinds
def test_going_back_to_before_the_first_step_makes_own_variables_new(
    kind: str, tmp_path: Path
) -> None:
    w, optimizer = tf.Variable([1.0, 2.0]), KINDS[kind][0](0.1)
    checkpoint = Checkpoint(w=w, optimizer=optimizer)
    path = checkpoint.write(f"{tmp_path}/ckpt")

    def run() -> list[float]:
        for k in range(3):
            optimizer.apply_gradients([(w * 1.0 + k, w)])
        return list(w.numpy().tolist())

    expected = run()
    checkpoint.read(path).assert_consumed()

    assert run() == expected


def test_initializers_and_lists_of_names() -> None:
    w, optimizer = tf.Variable(START, name="w"), OwnMomentum()
    Optimizer.build(optimizer, [w])

    a, b = optimizer.add_optimizer_variables([w], ("a", "b"), initializer=("ones", "zeros"))
    (c,) = optimizer.add_optimizer_variables([w], "c", initializer=keras.initializers.Constant(3))

    assert [one.numpy().ravel()[0] for one in (*a, *b, c)] == [1.0, 0.0, 3.0]
    assert [one.name for one in (*a, c)] == ["w/a:0", "w/c:0"]
    assert all(not one.trainable and one.shape == w.shape for one in (*a, *b, c))
    assert [one.name for one in optimizer.variables[2:]] == ["w/a:0", "w/b:0", "w/c:0"]
    with pytest.raises(ArgumentError, match="Got 1 initializers for 2 names"):
        optimizer.add_optimizer_variables([w], ["a", "b"], initializer=["ones"])


def test_configurations_make_own_optimizers_again() -> None:
    optimizer = OwnMomentum(0.25, momentum=0.5, clipnorm=2.0)

    made = keras.optimizers.deserialize(
        keras.optimizers.serialize(optimizer), custom_objects={"OwnMomentum": OwnMomentum}
    )

    assert isinstance(made, OwnMomentum)
    assert made.get_config() == optimizer.get_config()
    assert (made.momentum, made.clipnorm, float(made.learning_rate)) == (0.5, 2.0, 0.25)


def test_an_own_optimizer_is_pickled_with_its_state() -> None:
    w, optimizer = tf.Variable([1.0]), OwnMomentum(0.5)
    optimizer.apply_gradients([([1.0], w)])

    again = pickle.loads(pickle.dumps(optimizer))

    assert [v.numpy().tolist() for v in again.variables] == [
        v.numpy().tolist() for v in optimizer.variables
    ]


# What is refused


def test_without_update_step_the_first_step_says_what_is_missing() -> None:
    class Nothing(Optimizer):
        pass

    w = tf.Variable(1.0)
    with pytest.raises(NotImplementedError, match=r"Nothing must define update_step\(gradient, "):
        Nothing(0.1).apply_gradients([(1.0, w)])
    assert float(w) == 1.0


def test_variables_that_were_not_built_for_are_named() -> None:
    a, b = tf.Variable([1.0], name="a"), tf.Variable([1.0], name="b")
    optimizer = OwnMomentum(0.1)
    optimizer.apply_gradients([([1.0], a)])

    with pytest.raises(ArgumentError, match=r"OwnMomentum was built without 'b:0'\. Call"):
        optimizer.apply_gradients([([1.0], a), ([1.0], b)])
    assert b.numpy().tolist() == [1.0]


def test_a_build_that_forgets_its_base_is_told_so() -> None:
    class Forgetful(Optimizer):
        def build(self, variables: Any) -> None:
            self.kept = list(variables)

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            raise AssertionError("not reached")

    with pytest.raises(ArgumentError, match=r"must call super\(\)\.build\(variables\)"):
        Forgetful(0.1).apply_gradients([(1.0, tf.Variable(1.0))])
