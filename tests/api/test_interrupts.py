"""A step that is interrupted anywhere has changed all of its variables or none."""

from __future__ import annotations

import _thread
import os
import signal
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.autodiff.gradient_tape import TransformTape
from tapegrad.core.commit import (
    apply_parts,
    assign_together,
    deferring_signals,
    restoring,
    store,
)
from tapegrad.core.recorder import Stack, active_stack, using_stack
from tapegrad.core.update_lock import updating
from tapegrad.program.record.recording import current_recording
from tapegrad.program.record.recording_lock import recording_alone
from tests.interrupts import count_events, interrupted

# CPython ignores an exception in a finalizer and reports it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _leaves_nothing_behind() -> Iterator[None]:
    """Fail if an interrupt leaves a recording or a lock to the code after it."""
    yield
    assert current_recording() is None
    with ThreadPoolExecutor(1) as other:
        assert other.submit(_can_take_the_locks).result(timeout=60)
    assert active_stack().recorders == ()


def _can_take_the_locks() -> bool:
    if not updating.acquire(timeout=5):
        return False
    updating.release()
    with recording_alone():
        return True


LONG = int(os.environ.get("TAPEGRAD_LONG") == "1") * 2000
"""The most events at which one case is interrupted in the long form; 0 in the short one."""


class Case:
    """A call, the variables that it changes, and a value of the next call."""

    def __init__(self, call: Callable[[], Any], variables: Callable[[], Sequence[Any]]) -> None:
        self.call = call
        self._variables = variables

    def state(self) -> list[Any]:
        return [np.array(variable.numpy()) for variable in self._variables()]

    def set_to(self, state: Sequence[Any]) -> None:
        for variable, value in zip(self._variables(), state, strict=True):
            variable.assign(value)

    def is_in(self, state: Sequence[Any]) -> bool:
        now = self.state()
        return len(now) == len(state) and all(map(np.array_equal, now, state))


def points(count: int, most: int) -> list[int]:
    return sorted({int(k) for k in np.linspace(0, count - 1, min(count, most))})


def check(make: Callable[[], Case], most: int = 30, anew: bool = True) -> None:
    """Interrupt cases at many events; they must be as before or as after the call.

    With `anew` each event interrupts a new case, otherwise one that has been set back.
    """
    case = make()
    before = case.state()
    case.call()
    after = case.state()
    assert not case.is_in(before)
    case.call()
    later = case.state()
    if not anew:
        case.set_to(before)
    events = count_events(make().call if anew else case.call)
    halfway = []
    for event in points(events, LONG or most):
        if anew:
            case = make()
        else:
            case.set_to(before)
        interrupted(case.call, event)
        if case.is_in(before):
            case.call()
            works = case.is_in(after)
        elif case.is_in(after):
            case.call()
            works = case.is_in(later)
        else:
            works = False
        if not works:
            halfway.append(event)
    assert halfway == [], f"of {events} events"


def pairs(count: int = 3) -> list[tuple[Any, Any]]:
    return [
        (tf.constant(np.full((2, k + 1), 0.5, "float32")), tf.Variable(np.ones((2, k + 1), "f4")))
        for k in range(count)
    ]


class Own(keras.optimizers.Optimizer):
    """An optimizer as users define it."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        self.momenta = self.add_optimizer_variables(variables, "momentum")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        momentum = self.momenta[self._get_variable_index(variable)]
        self.assign(momentum, 0.5 * momentum + gradient)
        self.assign_sub(variable, learning_rate * momentum)


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: tf.optimizers.SGD(0.1),
    "momentum": lambda: tf.optimizers.SGD(0.1, momentum=0.9, clipnorm=1.0),
    "Adam": lambda: tf.optimizers.Adam(0.1, amsgrad=True, global_clipnorm=1.0),
    "averages": lambda: tf.optimizers.AdamW(0.1, use_ema=True, ema_momentum=0.5),
    "Nadam": lambda: keras.optimizers.Nadam(0.1),
    "Adafactor": lambda: keras.optimizers.Adafactor(0.1),
    "overwriting": lambda: keras.optimizers.Adam(0.1, use_ema=True, ema_overwrite_frequency=1),
    "accumulating": lambda: keras.optimizers.Adam(0.1, gradient_accumulation_steps=2),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)),
    "own": lambda: Own(0.1, weight_decay=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_eager_step_is_whole(name: str) -> None:
    def make() -> Case:
        optimizer, given = OPTIMIZERS[name](), pairs()
        optimizer.apply_gradients(given)
        variables = [variable for _, variable in given]
        return Case(
            lambda: optimizer.apply_gradients(given), lambda: [*variables, *optimizer.variables]
        )

    check(make)


def test_a_first_eager_step_is_whole() -> None:
    def make() -> Case:
        optimizer, given = tf.optimizers.Adam(0.1), pairs()
        variables = [variable for _, variable in given]
        return Case(
            lambda: optimizer.apply_gradients(given), lambda: [*variables, optimizer.iterations]
        )

    check(make)


def training(calls: int) -> Case:
    optimizer = tf.optimizers.Adam(0.1)
    w = tf.Variable(np.linspace(-1.0, 1.0, 12).reshape(4, 3))
    b = tf.Variable(np.zeros((2, 3)))
    optimizer.build([w, b])
    generator = tf.random.Generator.from_seed(1)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            noise = generator.normal([2, 3], dtype="float64")
            loss = tf.reduce_sum(tf.tanh(x @ w + b + noise) ** 2)
        optimizer.apply_gradients(list(zip(tape.gradient(loss, [w, b]), [w, b])))
        return loss

    x = tf.constant(np.full((2, 4), 0.1))
    for _ in range(calls):
        step(x)
    return Case(lambda: step(x), lambda: [w, b, *optimizer.variables, generator.state])


def test_a_replayed_step_is_whole() -> None:
    check(lambda: training(2), 200, anew=False)


def test_a_replay_that_must_not_write_in_place_is_whole() -> None:
    def make() -> Case:
        case = training(2)
        case.held = case._variables()[0].value()  # type: ignore[attr-defined]
        return case

    check(make, 200, anew=False)


def test_a_first_call_of_a_function_is_whole() -> None:
    check(lambda: training(0), 12)


def test_a_first_call_under_a_tape_is_whole() -> None:
    def make() -> Case:
        w, count = tf.Variable([1.0, 2.0]), tf.Variable(0.0)

        @tf.function
        def loss(x: Any) -> Any:
            count.assign_add(1.0)
            return tf.reduce_sum(x * w)

        def call() -> None:
            with tf.GradientTape() as tape:
                y = loss(tf.constant([1.0, 1.0]))
            gradient = tape.gradient(y, w)
            w.assign_sub(gradient)

        return Case(call, lambda: [w])

    check(make, 12)


def test_moving_averages_are_whole() -> None:
    x = tf.constant(np.random.default_rng(0).normal(size=(8, 3)).astype("float32"))

    def make() -> Case:
        layer = keras.layers.BatchNormalization()
        layer(x, training=True)
        return Case(lambda: layer(x, training=True), lambda: layer.non_trainable_variables)

    check(make)


def test_metrics_are_whole() -> None:
    def make() -> Case:
        metrics = [keras.metrics.Precision(), keras.metrics.Mean(), keras.metrics.R2Score()]

        def call() -> None:
            metrics[0].update_state([0, 1, 1], [0.2, 0.9, 0.4])

        return Case(call, lambda: metrics[0].variables)

    check(make)


def test_restore_is_whole(tmp_path: Any) -> None:
    def objects() -> tuple[Any, Any, Any]:
        optimizer, given = tf.optimizers.Adam(0.1), pairs()
        optimizer.apply_gradients(given)
        model = [variable for _, variable in given]
        return model, optimizer, tf.train.Checkpoint(model=model, optimizer=optimizer, epoch=1)

    model, optimizer, checkpoint = objects()
    optimizer.apply_gradients(pairs_for(model))
    checkpoint.epoch = 2
    path = checkpoint.save(str(tmp_path / "saved"))

    def make() -> Case:
        model, optimizer, checkpoint = objects()
        epoch = _Epoch(checkpoint)
        return Case(
            lambda: (
                (checkpoint.restore(path), optimizer.apply_gradients(pairs_for(model)))
                if epoch.is_restored
                else checkpoint.restore(path)
            ),
            lambda: [*model, *optimizer.variables, epoch],
        )

    check(make, 60)


def pairs_for(variables: Sequence[Any]) -> list[tuple[Any, Any]]:
    return [(tf.ones_like(variable), variable) for variable in variables]


class _Epoch:
    """A number of a checkpoint in the form of a variable."""

    def __init__(self, checkpoint: Any) -> None:
        self._checkpoint = checkpoint

    @property
    def is_restored(self) -> bool:
        return bool(self._checkpoint.epoch == 2)

    def numpy(self) -> Any:
        return np.array(self._checkpoint.epoch)


def test_weights_are_set_together(tmp_path: Any) -> None:
    def model() -> Any:
        made = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(2)])
        made.build((None, 4))
        return made

    source = model()
    path = str(tmp_path / "weights.safetensors")
    source.save_weights(path)
    values = source.get_weights()
    zeros = [np.zeros_like(value) for value in values]

    def check_call(load: Callable[[Any], None]) -> None:
        target = model()
        events = count_events(lambda: load(target))
        for event in points(events, LONG or 60):
            target.set_weights(zeros)
            interrupted(lambda: load(target), event)
            now = target.get_weights()
            assert any(all(map(np.array_equal, now, state)) for state in (zeros, values)), event

    check_call(lambda target: target.load_weights(path))
    check_call(lambda target: target.set_weights(values))


# The tools


def test_store_changes_all_in_one_call() -> None:
    a, b = tf.Variable(1.0), tf.Variable(2.0)
    store([a, b], [b.array, a.array])
    assert (float(a), float(b)) == (2.0, 1.0)


def test_restoring_puts_values_back_after_any_exception() -> None:
    v = tf.Variable(1.0)
    for kind in (ValueError, KeyboardInterrupt, SystemExit):
        with pytest.raises(kind):
            change_and_fail(v, kind)
        assert float(v) == 1.0


def change_and_fail(variable: Any, kind: type[BaseException]) -> None:
    with restoring([variable]):
        variable.assign(2.0)
        raise kind


def test_parts_are_completed_after_an_exception() -> None:
    a, b = tf.Variable(1.0), tf.Variable(2.0)
    new, errors = tf.constant(5.0).array, [KeyboardInterrupt]

    def second() -> Any:
        if errors:
            raise errors.pop()
        return [b], [new]

    with pytest.raises(KeyboardInterrupt):
        apply_parts([(lambda: ([a], [new]), ()), (second, ())])
    assert (float(a), float(b)) == (5.0, 5.0)


def test_a_value_that_does_not_fit_changes_nothing() -> None:
    a, b = tf.Variable([1.0]), tf.Variable([2.0])
    with pytest.raises(tf.errors.ShapeError):
        assign_together([a, b], [[3.0], [4.0, 5.0]])
    assert a.numpy().tolist() == [1.0]


def test_signals_wait_for_the_end_of_the_block() -> None:
    seen = []
    old = signal.signal(signal.SIGINT, lambda *_: seen.append(2))
    try:
        with deferring_signals():
            signal.raise_signal(signal.SIGINT)
            seen.append(1)
    finally:
        signal.signal(signal.SIGINT, old)
    assert seen == [1, 2]


# Errors in the middle of a step


def test_an_error_of_a_users_optimizer_changes_nothing() -> None:
    class Fails(tf.optimizers.Optimizer):
        slots = ("seen",)

        def update(self, p: Any, g: Any, slots: Any, scalars: Any) -> Any:
            if p.shape[1] == 3:
                raise ZeroDivisionError
            return p - g, slots[0] + 1.0

    optimizer, given = Fails(0.1), pairs()
    variables = [variable for _, variable in given]
    with pytest.raises(ZeroDivisionError):
        optimizer.apply_gradients(given)
    for variable in variables:
        np.testing.assert_array_equal(variable.numpy(), np.ones(variable.shape))
    assert int(optimizer.iterations) == 0
    assert all(float(np.sum(v.numpy())) == 0.0 for v in optimizer.variables[2:])


def test_an_error_of_a_constraint_changes_nothing() -> None:
    def fails(value: Any) -> Any:
        raise ZeroDivisionError

    first, second = tf.Variable([1.0]), tf.Variable([1.0], constraint=fails)
    optimizer = tf.optimizers.SGD(0.1, momentum=0.9)
    with pytest.raises(ZeroDivisionError):
        optimizer.apply_gradients([([1.0], first), ([1.0], second)])
    assert first.numpy().tolist() == second.numpy().tolist() == [1.0]
    assert int(optimizer.iterations) == 0


def test_rows_that_do_not_exist_change_nothing() -> None:
    first, table = tf.Variable([1.0]), tf.Variable(np.ones((3, 2), "float32"))
    rows = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([7]), (3, 2))
    for optimizer in (tf.optimizers.SGD(0.1), tf.optimizers.Adagrad(0.1), tf.optimizers.Adam(0.1)):
        with pytest.raises(IndexError):
            optimizer.apply_gradients([([1.0], first), (rows, table)])
        assert first.numpy().tolist() == [1.0]
        assert int(optimizer.iterations) == 0


def test_a_step_keeps_no_second_copy_of_large_variables() -> None:
    size = 1 << 20
    optimizer = tf.optimizers.Adam(0.1)
    tracemalloc.start()
    try:
        given = [(tf.ones(size), tf.Variable(tf.zeros(size))) for _ in range(8)]
        optimizer.apply_gradients(given)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        optimizer.apply_gradients(given)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    state = 3 * 8 * 4 * size
    assert peak < 0.4 * state


def test_a_second_gradient_restores_variables_if_it_is_interrupted() -> None:
    def make() -> Case:
        w, seen = tf.Variable([1.0, 2.0]), tf.Variable(0.0)

        @tf.function
        def loss(x: Any) -> Any:
            seen.assign_add(1.0)
            return tf.reduce_sum(x * w * w * w)

        def call() -> None:
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    y = loss(tf.constant([1.0, 1.0]))
                w.assign_add([1.0, 1.0])
                first = inner.gradient(y, w)
            outer.gradient(first, w)
            w.assign_sub([1.5, 1.5])

        return Case(call, lambda: [w])

    case = make()
    before = case.state()
    events = count_events(case.call)
    for event in points(events, LONG or 15):
        case = make()
        interrupted(case.call, event)
        (now,) = case.state()
        changes = now - before[0]
        assert changes.tolist() in ([0.0, 0.0], [1.0, 1.0], [-0.5, -0.5]), event


def test_a_model_keeps_its_layers_if_its_first_call_is_interrupted() -> None:
    x = tf.ones([2, 4])

    def make() -> Any:
        dense = keras.layers.Dense
        return keras.Sequential([dense(3), keras.layers.BatchNormalization(), dense(1)])

    events = count_events(lambda: make()(x))
    for event in points(events, LONG or 60):
        model = make()
        interrupted(lambda made=model: made(x), event)  # type: ignore[misc]
        assert model(x, training=True).shape == (2, 1)
        assert len(model.weights) == 8
        assert keras.layers.Dense(2)(x).shape == (2, 2)


def test_a_model_keeps_its_layers_if_one_cannot_be_built() -> None:
    model = keras.Sequential([keras.layers.Dense(3), keras.layers.Conv2D(2, 3)])
    for _ in range(2):
        with pytest.raises(ValueError, match="conv2d"):
            model(tf.ones([2, 4]))
        assert len(model.layers) == 2


# Blocks


def _tapes(x: Any) -> None:
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x * x
        with outer.stop_recording():
            _ = y + x


def _accumulator(x: Any) -> None:
    with tf.autodiff.ForwardAccumulator(x, x):
        _ = x * x


def _two_in_any_order(x: Any) -> None:
    first, second = tf.GradientTape(), tf.GradientTape()
    first.__enter__()
    try:
        second.__enter__()
        try:
            _ = x * x
        finally:
            first.__exit__()
    finally:
        second.__exit__()


BLOCKS: dict[str, Callable[[Any], Any]] = {
    "tapes": _tapes,
    "accumulator": _accumulator,
    "grad": tf.grad(lambda x: x * x),
    "jvp": lambda x: tf.jvp(lambda x: x * x, [x], [x]),
    "vmap": lambda x: tf.vmap(lambda x: x * x)(tf.stack([x, x])),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_an_interrupt_anywhere_leaves_no_recorder_active(name: str) -> None:
    x = tf.constant(3.0)
    BLOCKS[name](x)

    for event in range(count_events(lambda: BLOCKS[name](x))):
        interrupted(lambda: BLOCKS[name](x), event)
        assert active_stack().recorders == (), event


class _SignalError(Exception):
    pass


EXITS: dict[str, Callable[[], Any]] = {
    "tape": tf.GradientTape,
    "accumulator": lambda: tf.autodiff.ForwardAccumulator(X, X),
    "tape of a transform": lambda: TransformTape(),
    "using_stack": lambda: using_stack(Stack((tf.GradientTape(),))),
}
X = tf.constant(3.0)


@pytest.mark.parametrize("name", EXITS)
def test_a_signal_at_the_start_of_an_exit_does_not_prevent_it(name: str) -> None:
    def handle(*_: Any) -> None:
        raise _SignalError

    block = EXITS[name]()
    block.__enter__()
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        # The call of `__exit__` follows the signal without an instruction between them.
        send = map(_thread.interrupt_main, [signal.SIGUSR1])
        with pytest.raises(_SignalError):
            list(map(block.__exit__, send, [None], [None]))
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert active_stack().recorders == ()


def test_two_tapes_that_end_in_the_order_of_their_start() -> None:
    _two_in_any_order(X)

    assert active_stack().recorders == ()
