"""What a tape keeps alive, and for how long."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import tapegrad as tf

SIZE = 250_000
MEGABYTE = SIZE * 4  # one float32 array of that size


@pytest.fixture
def x():
    return tf.constant(np.ones(SIZE, "float32"))


@pytest.fixture(autouse=True)
def no_collector():
    """Reference counting alone must do."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Memory:
    """Bytes that Python and NumPy have allocated since the block began."""

    def __enter__(self):
        tracemalloc.start()
        self._start = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *error):
        tracemalloc.stop()

    def now(self):
        return tracemalloc.get_traced_memory()[0] - self._start

    def peak_since_reset(self):
        return tracemalloc.get_traced_memory()[1] - self._start

    def reset_peak(self):
        tracemalloc.reset_peak()


DEAD = {
    "multiply": lambda x: x * x,
    "exp": lambda x: tf.exp(x),
    "tanh": lambda x: tf.tanh(x),
    "sqrt": lambda x: tf.sqrt(x),
    "chain": lambda x: tf.tanh(tf.exp(x) * x),
    "split": lambda x: tf.split(x, 2),
    "numpy": lambda x: (x * x).numpy(),
}


@pytest.mark.parametrize("function", DEAD.values(), ids=DEAD)
@pytest.mark.parametrize("persistent", [False, True])
def test_L17_dead_results_are_dropped_at_once(x, function, persistent):
    function(x)
    with tf.GradientTape(persistent) as tape, Memory() as memory:
        tape.watch(x)
        for _ in range(300):
            function(x)

        assert memory.now() < MEGABYTE / 2


def test_L17_a_dead_result_dies_although_the_tape_lives(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.exp(x)
        result = weakref.ref(y)
        del y

        assert result() is None


def test_L17_a_result_that_others_depend_on_is_kept(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.exp(x)
        z = y * y
        del y

    assert tape.gradient(z, x) is not None


def test_L17_the_sweep_frees_what_it_has_used(x):
    with Memory() as memory:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(20):
                y = tf.tanh(y)
        kept = memory.now()
        gradient = tape.gradient(y, x)
        left = memory.now()

    assert kept > 19 * MEGABYTE
    assert left < 3 * MEGABYTE  # y and the gradient
    assert gradient.shape == x.shape


def test_L17_the_peak_of_a_sweep_is_what_was_saved_and_two_gradients(x):
    with Memory() as memory:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(20):
                y = tf.exp(y * 0.1)
            loss = tf.reduce_sum(y)
        memory.reset_peak()
        kept = memory.now()
        tape.gradient(loss, x)
        peak = memory.peak_since_reset()

    assert peak < kept + 2.5 * MEGABYTE


def test_L17_an_intermediate_source_keeps_no_other_gradient_alive(x):
    with Memory() as memory:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            values = [y := tf.exp(y * 0.1) for _ in range(20)]
            loss = tf.reduce_sum(y)
        memory.reset_peak()
        kept = memory.now()
        tape.gradient(loss, [x, values[10]])
        peak = memory.peak_since_reset()

    assert peak < kept + 3.5 * MEGABYTE


def test_L17_many_contributions_are_added_as_they_arrive(x):
    with Memory() as memory:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(30):
                y = y + x
        memory.reset_peak()
        kept = memory.now()
        tape.gradient(y, x)
        peak = memory.peak_since_reset()

    assert peak < kept + 3.5 * MEGABYTE


KEEPS = {
    "add": (lambda x: x + x, 0),
    "relu": (lambda x: tf.nn.relu(x * 1.0), 1),
    "exp": (lambda x: tf.exp(x * 1.0), 1),
    "tanh": (lambda x: tf.tanh(x * 1.0), 1),
    "sigmoid": (lambda x: tf.sigmoid(x * 1.0), 1),
    "sum": (lambda x: tf.reduce_sum(x * 1.0), 0),
    "reshape": (lambda x: tf.reduce_sum(tf.reshape(x * 1.0, (-1, 1))), 0),
    "constant factor": (lambda x: tf.reduce_sum(x * 3.0), 0),
    "square": (lambda x: tf.reduce_sum(tf.square(x * 1.0)), 1),
}


@pytest.mark.parametrize(("function", "arrays"), KEEPS.values(), ids=KEEPS)
def test_L18_operations_keep_only_what_their_rules_read(x, function, arrays):
    function(x)
    with Memory() as memory:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        kept = memory.now() - (MEGABYTE if y.shape else 0)
        on_top = kept - max(arrays - (1 if y.shape else 0), 0) * MEGABYTE

    assert on_top < 0.1 * MEGABYTE
    assert tape.gradient(y, x) is not None


def test_L18_matmul_by_a_constant_keeps_only_the_constant():
    x = tf.constant(np.ones((500, 500), "float32"))
    w = tf.constant(np.ones((500, 500), "float32"))
    with Memory() as memory:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.matmul(x * 1.0, w))
        kept = memory.now()

    assert kept < 0.1 * MEGABYTE
    assert tape.gradient(y, x) is not None


@pytest.mark.parametrize("release", ["gradient", "drop"])
def test_L19_a_tape_and_its_values_die_by_reference_counting(release):
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.exp(x) * x
    if release == "gradient":
        tape.gradient(y, x)
    watched = [weakref.ref(value) for value in (tape, y, y.node)]
    del tape, y

    assert [ref() for ref in watched] == [None] * 3


def test_L19_nested_tapes_die_by_reference_counting():
    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.exp(x) * x
        first = inner.gradient(y, x)
    second = outer.gradient(first, x)
    watched = [weakref.ref(value) for value in (outer, inner, y, first, second)]
    del outer, inner, y, first, second

    assert [ref() for ref in watched] == [None] * 5


STEPS = {
    "gradient": lambda v, tape: tape.gradient(v * v, v),
    "jacobian": lambda v, tape: tape.jacobian(v * v, v),
    "custom": lambda v, tape: tape.gradient(tf.grad_pass_through(lambda v: v * v)(v), v),
    "checkpoint": lambda v, tape: tape.gradient(tf.recompute_grad(lambda v: v * v)(v), v),
    "vmap": lambda v, tape: tf.vmap(tf.grad(lambda a: a * a))(v),
    "jvp": lambda v, tape: tf.jvp(lambda a: a * a, [v], [v]),
    "hvp": lambda v, tape: tf.hvp(lambda a: tf.reduce_sum(a * a * a), v, v),
    "gather": lambda v, tape: tape.gradient(tf.gather(v, [0]), v),
}


@pytest.mark.filterwarnings("ignore:Calling gradient")
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_L19_no_step_leaves_garbage_for_the_collector(step):
    v = tf.Variable([1.0, 2.0])

    def run():
        with tf.GradientTape() as tape:
            step(v, tape)

    run()
    gc.collect()
    run()

    assert gc.collect() == 0


@pytest.mark.filterwarnings("ignore:Calling gradient")
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_L19_repeated_steps_leave_memory_flat(step):
    v = tf.Variable(np.ones(300, "float32"))

    def run():
        with tf.GradientTape() as tape:
            step(v, tape)

    for _ in range(300):  # until Python's own lists of free objects are full
        run()
    with Memory() as memory:
        for _ in range(200):
            run()

        assert memory.now() < 100 * v.numpy().nbytes


def persistent_tape(x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x
        for _ in range(10):
            y = tf.exp(y * 0.1)
        loss = tf.reduce_sum(y)
    return tape, loss


def test_L15_a_persistent_tape_keeps_everything_between_calls(x):
    with Memory() as memory:
        tape, loss = persistent_tape(x)
        kept = memory.now()
        tape.gradient(loss, x)

        assert kept > 9 * MEGABYTE
        assert abs(memory.now() - kept) < MEGABYTE / 2


def test_L15_deleting_a_persistent_tape_releases_it_although_results_live(x):
    with Memory() as memory:
        tape, loss = persistent_tape(x)
        del tape

        assert memory.now() < MEGABYTE / 2
    assert float(loss) > 0


def test_L15_clear_releases_a_persistent_tape(x):
    with Memory() as memory:
        tape, loss = persistent_tape(x)
        tape.clear()

        assert memory.now() < MEGABYTE / 2
    assert float(loss) > 0


def test_L15_a_jacobian_on_a_one_shot_tape_releases_it(x):
    with Memory() as memory:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(10):
                y = tf.exp(y * 0.1)
            loss = tf.reduce_sum(y)
        del y
        jacobian = tape.jacobian(loss, x)
        del jacobian

        assert memory.now() < MEGABYTE / 2


def test_L8_reset_releases_what_was_recorded(x):
    with Memory() as memory, tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.exp(x) * tf.exp(x))
        kept = memory.now()
        tape.reset()
        del y

        assert kept > 1.5 * MEGABYTE
        assert memory.now() < MEGABYTE / 2


@pytest.mark.parametrize("end", ["sweep", "drop"])
def test_G24_deep_graphs_are_freed_without_recursion(end):
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(100_000):
            y = y * 1.0
    if end == "sweep":
        assert float(tape.gradient(y, x)) == 1.0
    node = weakref.ref(y.node)
    del tape, y

    assert node() is None


def test_L17_fifty_thousand_dead_numbers_leave_memory_flat():
    x = tf.constant(1.0)
    with tf.GradientTape() as tape, Memory() as memory:
        tape.watch(x)
        for _ in range(1_000):
            x * 2.0
        before = memory.now()
        for _ in range(50_000):
            x * 2.0

        assert memory.now() - before < 2_000


def test_variables_keep_no_history_after_a_step():
    v = tf.Variable(np.ones(SIZE, "float32"))
    with Memory() as memory:
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.exp(v) * v)
            v.assign_sub(tape.gradient(loss, v) * 0.1)

        assert memory.now() < 1.5 * MEGABYTE  # the new value
