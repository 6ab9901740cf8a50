"""`py_function` and `numpy_function`: Python code on values, eagerly and in recorded functions."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf

WAYS = {"eager": lambda f: f, "recorded": tf.function}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def cube_or_square(x):
    """Decides by a value, which a recorded function must not do."""
    return x**3 if float(x) > 0.0 else x**2


def test_each_call_runs_the_python_code(way):
    @way
    def step(x):
        return tf.py_function(cube_or_square, [x], tf.float32) + 1.0

    assert [float(step(tf.constant(v))) for v in (2.0, -2.0, 3.0)] == [9.0, 5.0, 28.0]


def test_gradients_flow_to_the_inputs(way):
    @way
    def slope(x, y):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = tf.py_function(lambda a, n, b: a**2 * b * float(n), [x, 3, y], "float32")
        return tape.gradient(z, [x, y])

    for x, y in ((2.0, 5.0), (3.0, 7.0)):
        found = slope(tf.constant(x), tf.constant(y))
        assert [float(g) for g in found] == [6.0 * x * y, 3.0 * x * x]


def test_gradients_of_a_recorded_function_flow_through_the_call():
    w = tf.Variable(2.0)
    step = tf.function(lambda x: tf.py_function(cube_or_square, [x * w], tf.float32))

    for x in (1.0, -1.0, 2.0):
        with tf.GradientTape() as tape:
            y = step(tf.constant(x))
        expected = 3.0 * (2.0 * x) ** 2 * x if x > 0.0 else 2.0 * 2.0 * x * x
        assert float(tape.gradient(y, w)) == expected


def test_second_gradients(way):
    @way
    def slopes(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.py_function(lambda v: v**3 * float(v.shape == ()), [x], tf.float32)
            slope = inner.gradient(y, x)
        return slope, outer.gradient(slope, x)

    for x in (2.0, 3.0):
        assert [float(g) for g in slopes(tf.constant(x))] == [3.0 * x * x, 6.0 * x]


def test_results_without_a_gradient_stand_beside_others(way):
    @way
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            square, count = tf.py_function(lambda v: (v * v, 5), [x], [tf.float32, tf.int32])
            y = square * tf.cast(count, tf.float32)
        return tape.gradient(y, x)

    assert [float(slope(tf.constant(x))) for x in (1.0, 2.0)] == [10.0, 20.0]


def test_a_branch_and_a_loop_call_python_code():
    @tf.function
    def step(x, count):
        def body(k, total):
            return k + 1, tf.py_function(lambda v: v + 1.0, [total], tf.float32)

        total = tf.while_loop(
            lambda k, _: k < count, body, (tf.constant(0), x), maximum_iterations=6
        )[1]
        return tf.cond(
            x > 0.0, lambda: tf.py_function(lambda v: v * 10.0, [total], "float32"), lambda: total
        )

    assert float(step(tf.constant(1.0), tf.constant(3))) == 40.0
    assert float(step(tf.constant(-1.0), tf.constant(5))) == 4.0


def test_several_results_and_none(way):
    seen = []

    @way
    def step(x):
        tf.py_function(lambda v: seen.append(float(v)), [x], [])
        return tf.py_function(lambda v: (v + 1.0, 3), [x], [tf.float32, tf.int64])

    first = step(tf.constant(1.0))
    second = step(tf.constant(2.0))

    assert [[r.dtype.name for r in first], float(second[0]), int(second[1])] == [
        ["float32", "int64"],
        3.0,
        3,
    ]
    assert set(seen) == {1.0, 2.0}
    assert seen.count(2.0) == 1


def test_numpy_functions_get_arrays(way):
    seen = []

    def sort(x, scale):
        seen.append((type(x), type(scale)))
        return np.sort(x) * scale

    @way
    def step(x):
        return tf.numpy_function(sort, [x, np.float32(2.0)], tf.float32)

    assert step(tf.constant([3.0, 1.0])).tolist() == [2.0, 6.0]
    assert step(tf.constant([9.0, 4.0])).tolist() == [8.0, 18.0]
    assert step(tf.constant([5.0, 4.0, 3.0])).tolist() == [6.0, 8.0, 10.0]
    assert set(seen) == {(np.ndarray, np.float32)}


def test_a_function_without_inputs(way):
    counter = iter(range(100))
    step = way(lambda: tf.numpy_function(lambda: next(counter), [], tf.int64))

    values = [int(step()) for _ in range(3)]

    assert values == sorted(set(values))


def test_in_a_dataset():
    dataset = tf.data.Dataset.range(3).map(
        lambda n: tf.py_function(lambda v: v.numpy() ** 2, [n], tf.int64)
    )

    assert [int(n) for n in dataset] == [0, 1, 4]


def test_variables_are_read_by_value(way):
    v = tf.Variable(2.0)

    @way
    def step():
        return tf.py_function(lambda value: value * 10.0, [v], tf.float32)

    results = [float(step())]
    v.assign(3.0)
    results.append(float(step()))

    assert results == [20.0, 30.0]


BAD = {
    "no function": (
        lambda: tf.py_function(3, [], "float32"),
        TypeError,
        "Python function. Got int",
    ),
    "count": (
        lambda: tf.py_function(lambda: (1.0, 2.0), [], ["float32"]),
        ValueError,
        "must return 1 results, as Tout says. Got 2",
    ),
    "dtype": (
        lambda: tf.numpy_function(lambda: np.ones(2), [], tf.float32),
        TypeError,
        "values of float32, as Tout says. Got float64",
    ),
    "nothing": (lambda: tf.py_function(lambda: None, [], "float32"), TypeError, r"Tout=\[\]"),
}


@pytest.mark.parametrize(("act", "kind", "words"), BAD.values(), ids=BAD)
def test_wrong_calls_say_what_was_wrong(act, kind, words):
    with pytest.raises(kind, match=words):
        act()


def test_a_recorded_function_refuses_results_of_another_shape():
    step = tf.function(
        lambda x: tf.numpy_function(lambda v: np.zeros(int(v), "float32"), [x], tf.float32)
    )
    assert step(tf.constant(2)).shape == (2,)

    with pytest.raises(RuntimeError, match=r"returned shapes \[\(3,\)\], and \[\(2,\)\] when"):
        step(tf.constant(3))


def test_an_error_of_the_python_code_reaches_the_caller(way):
    def refuse(x):
        if float(x) > 1.0:
            raise KeyError("too large")
        return x

    step = way(lambda x: tf.py_function(refuse, [x], tf.float32))
    assert float(step(tf.constant(1.0))) == 1.0

    with pytest.raises(KeyError, match="too large"):
        step(tf.constant(2.0))
    assert float(step(tf.constant(0.5))) == 0.5


@pytest.mark.parametrize("kind", [tf.numpy_function, tf.py_function])
def test_host_calls_are_decorators(kind, way):
    @kind(Tout=[tf.float32, tf.int32])
    def play(action, reward):
        """Make a step."""
        return np.float32(action * reward), np.int32(action + 1)

    step = way(lambda x: play(x, tf.constant(3.0)))

    for x in (2.0, 4.0):
        first, second = step(tf.constant(x))
        assert (float(first), int(second)) == (3.0 * x, int(x) + 1)
    assert play.__name__ == "play"
