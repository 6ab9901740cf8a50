"""TensorArray in eager code, in recorded functions and in loops that are recorded once."""

from __future__ import annotations

import pytest

import tapegrad as tf

WAYS = {"eager": lambda f: f, "recorded": tf.function}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def powers(x, count, **options):
    """The powers of x, written in a Python loop."""
    array = tf.TensorArray(tf.float32, **options)
    value = tf.ones_like(x)
    for k in range(count):
        array = array.write(k, value)
        value = value * x
    return array


@pytest.mark.parametrize("options", [{"size": 4}, {"size": 0, "dynamic_size": True}])
def test_python_loops_write_and_stack(way, options):
    step = way(lambda x: powers(x, 4, **options).stack())

    assert step(tf.constant(2.0)).tolist() == [1.0, 2.0, 4.0, 8.0]
    assert step(tf.constant(3.0)).tolist() == [1.0, 3.0, 9.0, 27.0]


def test_gradients_flow_through_writes_and_reads(way):
    @way
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            array = powers(x, 4, size=4)
            y = tf.reduce_sum(array.stack()) + array.read(3)
        return tape.gradient(y, x)

    assert [float(slope(tf.constant(x))) for x in (2.0, 3.0)] == [29.0, 61.0]


def test_an_entry_that_is_written_again_has_its_last_value():
    array = tf.TensorArray("int32", 2).write(0, 1).write(0, 5).write(1, 2)

    assert (array.stack().tolist(), int(array.read(0)), int(array.read(0))) == ([5, 2], 5, 5)


def test_eager_writes_change_the_array_and_recorded_ones_do_not():
    array = tf.TensorArray("float32", 2)
    array.write(0, 1.0)
    array.write(1, 2.0)
    assert array.stack().tolist() == [1.0, 2.0]

    @tf.function
    def step(x):
        first = tf.TensorArray("float32", 2, element_shape=())
        second = first.write(0, x)
        return first.stack(), second.stack()

    assert [part.tolist() for part in step(tf.constant(3.0))] == [[0.0, 0.0], [3.0, 0.0]]


def test_whole_tensors(way):
    @way
    def step(x):
        array = tf.TensorArray("float32", 3).unstack(x)
        array = array.write(1, array.read(0) * 10.0)
        scattered = tf.TensorArray("float32", 3).scatter([2, 0], x[:2])
        cut = tf.TensorArray("float32", 2, infer_shape=False).split(x[:, 0], [1, 2])
        return (
            array.stack(),
            array.gather([2, 0]),
            array.concat(),
            scattered.stack(),
            cut.read(1),
            cut.concat(),
            array.size(),
        )

    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    for _ in range(2):
        assert [part.tolist() for part in step(x)] == [
            [[1.0, 2.0], [10.0, 20.0], [5.0, 6.0]],
            [[5.0, 6.0], [1.0, 2.0]],
            [1.0, 2.0, 10.0, 20.0, 5.0, 6.0],
            [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]],
            [3.0, 5.0],
            [1.0, 3.0, 5.0],
            3,
        ]


# Loops that are recorded once


@pytest.mark.parametrize("options", [{}, {"element_shape": ()}], ids=["learned", "given"])
def test_a_while_loop_writes_at_an_index_that_it_computes(way, options):
    @way
    def step(x, count):
        def body(k, array, value):
            return k + 1, array.write(k, value), value * x

        start = (tf.constant(0), tf.TensorArray("float32", 5, **options), tf.constant(1.0))
        array = tf.while_loop(lambda k, *_: k < count, body, start)[1]
        return array.stack()

    for x, count in ((2.0, 3), (3.0, 5), (2.0, 4)):
        expected = [x**k if k < count else 0.0 for k in range(5)]
        assert step(tf.constant(x), tf.constant(count)).tolist() == expected


def test_gradients_flow_through_such_a_loop(way):
    @way
    def total(x, count):
        weights = tf.TensorArray("float32", 5).unstack(tf.range(5.0))

        def body(k, array, value):
            return k + 1, array.write(k, value * weights.read(k)), value * x

        start = (tf.constant(0), tf.TensorArray("float32", 5), tf.constant(1.0))
        array = tf.while_loop(lambda k, *_: k < count, body, start)[1]
        return tf.reduce_sum(array.stack())

    x = tf.Variable(2.0)
    for count in (4, 3, 5):
        with tf.GradientTape() as tape:
            y = total(x, tf.constant(count))
        assert float(tape.gradient(y, x)) == sum(k * k * 2.0 ** (k - 1) for k in range(count))


def test_a_branch_that_is_not_taken_writes_nothing():
    @tf.function
    def step(x):
        array = tf.TensorArray("float32", 2, element_shape=()).write(0, x)
        array = tf.cond(x > 0.0, lambda: array.write(1, x * 10.0), lambda: array)
        return array.stack()

    assert step(tf.constant(1.0)).tolist() == [1.0, 10.0]
    assert step(tf.constant(-1.0)).tolist() == [-1.0, 0.0]


def test_functions_return_arrays():
    step = tf.function(lambda x: powers(x, 3, size=3))

    assert step(tf.constant(2.0)).read(2).tolist() == 4.0
    assert step(tf.constant(3.0)).read(2).tolist() == 9.0


# Wrong use

BAD = {
    "read beyond": (lambda: tf.TensorArray("float32", 2).read(2), "got index 2 .* 2 entries"),
    "write beyond": (lambda: tf.TensorArray("float32", 2).write(5, 1.0), "dynamic_size=True"),
    "below 0": (lambda: tf.TensorArray("float32", 2).read(-1), "got index -1"),
    "size": (lambda: tf.TensorArray("float32", -1), "size of at least 0. Got -1"),
    "unwritten": (lambda: tf.TensorArray("float32", 2).stack(), "Entry 0 .* not written"),
    "dtype": (lambda: tf.TensorArray("float32", 2).write(0, tf.constant(1)), "Use cast"),
    "shape": (
        lambda: tf.TensorArray("float32", 2).write(0, [1.0]).write(1, [1.0, 2.0]),
        r"shape \(1,\) got one of shape \(2,\)",
    ),
    "unstack": (lambda: tf.TensorArray("float32", 2).unstack([1.0]), "1 entries for an array of 2"),
    "scatter": (lambda: tf.TensorArray("float32", 2).scatter([0], 1.0), "one index per row"),
}


@pytest.mark.parametrize(("act", "words"), BAD.values(), ids=BAD)
def test_wrong_use_is_explained(act, words):
    with pytest.raises(ValueError, match=words):
        act()


def test_an_array_cannot_grow_at_an_index_that_is_computed():
    @tf.function
    def step(k):
        return tf.TensorArray("float32", 0, dynamic_size=True).write(k, 1.0).stack()

    with pytest.raises(RuntimeError, match="Give it a size that is large enough"):
        step(tf.constant(1))
