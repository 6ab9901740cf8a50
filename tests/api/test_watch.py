"""Arguments and effects of `watch`."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.autodiff import arguments

Pair = namedtuple("Pair", "a b")


@pytest.fixture
def few_times(monkeypatch):
    """Let the warnings about dtypes be given again."""
    monkeypatch.setattr(arguments, "_few_times", [5])


STRUCTURES = {
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "namedtuple": Pair,
    "dict": lambda a, b: {"one": a, "two": b},
    "OrderedDict": lambda a, b: OrderedDict(z=a, y=b),
    "mixed": lambda a, b: {"x": [a, (b,)]},
}


@pytest.mark.parametrize("build", STRUCTURES.values(), ids=STRUCTURES)
def test_W1_watch_takes_any_nest(build):
    a, b = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(build(a, b))
        y = a * b

    assert [float(g) for g in tape.gradient(y, [a, b])] == [3.0, 2.0]


def test_W1_watch_takes_a_variable():
    v = tf.Variable(2.0)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(v)
        y = v * v

    assert float(tape.gradient(y, v)) == 4.0


@pytest.mark.parametrize(
    "leaf", [np.ones(2), 1.0, "x", None, {1.0}], ids=lambda x: type(x).__name__
)
def test_W2_other_leaves_are_refused_by_the_name_of_their_type(leaf):
    with tf.GradientTape() as tape, pytest.raises(ValueError, match=type(leaf).__name__) as error:
        tape.watch(leaf)

    assert "tapegrad.constant" in str(error.value)


def test_W2_the_position_in_the_structure_is_named():
    with tf.GradientTape() as tape, pytest.raises(ValueError, match="Entry 1"):
        tape.watch([tf.constant(1.0), 2.0])


def test_W2_a_refused_structure_is_not_watched_in_part():
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        with pytest.raises(ValueError, match="float"):
            tape.watch([x, 2.0])
        y = x * x

    assert tape.gradient(y, x) is None


@pytest.mark.parametrize("value", [1, True, np.int64(2)])
def test_W3_other_dtypes_are_accepted_with_a_warning(value, few_times):
    x = tf.constant(value)
    with tf.GradientTape() as tape, pytest.warns(UserWarning, match="must be floating"):
        tape.watch(x)


def test_W3_their_gradient_is_none(few_times):
    n = tf.constant(2)
    with tf.GradientTape() as tape:
        with pytest.warns(UserWarning, match="int32"):
            tape.watch(n)
        y = n * 2.0
    with pytest.warns(UserWarning, match="int32"):
        assert tape.gradient(y, n) is None


def test_W3_an_integer_variable_is_listed_but_has_no_gradient(few_times):
    n = tf.Variable(2)
    with tf.GradientTape() as tape:
        with pytest.warns(UserWarning, match="int32"):
            tape.watch(n)
        y = n * 2.0

    assert [v.ref() for v in tape.watched_variables()] == [n.ref()]
    with pytest.warns(UserWarning, match="int32"):
        assert tape.gradient(y, n) is None


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_W4_every_floating_and_complex_dtype_is_differentiable(dtype):
    x = tf.constant(np.array(3.0, dtype))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    gradient = tape.gradient(y, x)

    assert gradient.dtype == dtype
    assert gradient.numpy() == 6


def test_W5_watching_is_per_tape():
    x = tf.constant(3.0)
    with tf.GradientTape() as first, tf.GradientTape() as second:
        first.watch(x)
        y = x * x

    assert second.gradient(y, x) is None


def test_W6_an_explicit_watch_follows_a_variable_that_is_not_trainable():
    v = tf.Variable(3.0, trainable=False)
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = v * v

    assert float(tape.gradient(y, v)) == 6.0
    assert [w.ref() for w in tape.watched_variables()] == [v.ref()]


READS = {
    "operator": lambda v: v * 1.0,
    "value": lambda v: v.value(),
    "read_value": lambda v: v.read_value(),
    "conversion": lambda v: tf.convert_to_tensor(v),
    "array": np.asarray,
    "assign": lambda v: v.assign([5.0, 6.0]),
    "assign_add": lambda v: v.assign_add([1.0, 1.0]),
    "gather": lambda v: tf.gather(v, [0]),
    "indexing": lambda v: v[0],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.filterwarnings("ignore:A tensor that a tape follows")
def test_W7_any_read_of_a_trainable_variable_watches_it(read):
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        read(v)

    assert [w.ref() for w in tape.watched_variables()] == [v.ref()]


def test_W7_an_assign_without_read_does_not_watch():
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        v.assign(2.0, read_value=False)

    assert tape.watched_variables() == ()


def test_W7_variables_that_are_not_trainable_are_never_watched_by_reads():
    v = tf.Variable(1.0, trainable=False)
    with tf.GradientTape() as tape:
        y = v * v

    assert tape.watched_variables() == ()
    assert tape.gradient(y, v) is None


def test_W7_a_variable_read_before_the_block_is_watched_inside_it():
    v = tf.Variable(3.0)
    v.read_value()
    with tf.GradientTape() as tape:
        y = v * v

    assert float(tape.gradient(y, v)) == 6.0


def test_W8_without_watching_reads_only_explicit_watches_count():
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(v)
        y = v * w

    assert float(tape.gradient(y, [v, w])[0]) == 3.0
    assert [u.ref() for u in tape.watched_variables()] == [v.ref()]


def test_W8_a_variable_watched_after_its_first_read_is_followed_from_then_on():
    v = tf.Variable(2.0)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        before = v * v
        tape.watch(v)
        y = before * v

    assert float(tape.gradient(y, v)) == 4.0


def test_W8_watching_an_empty_structure_warns():
    with tf.GradientTape() as tape, pytest.warns(UserWarning, match="empty"):
        tape.watch([])


def test_W9_watching_after_the_computation_does_not_connect_it():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        y = x * x
        tape.watch(x)

    assert tape.gradient(y, x) is None


def test_W9_explain_tells_that_the_watch_came_too_late():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        y = x * x
        tape.watch(x)

    assert "follow" in tape.explain(y, x)


def test_W10_watching_an_intermediate_does_not_cut_it_off():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        tape.watch(y)
        z = y * y

    assert [float(g) for g in tape.gradient(z, [x, y])] == [108.0, 18.0]


def test_W10_an_intermediate_of_another_tape_keeps_its_history_there():
    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        y = x * x
        with tf.GradientTape() as inner:
            inner.watch(y)
            z = y * y
        inside = inner.gradient(z, y)

    assert float(inside) == 18.0
    assert float(outer.gradient(z, x)) == 108.0


def test_W11_watch_after_the_block_is_refused():
    with tf.GradientTape() as tape:
        pass

    with pytest.raises(RuntimeError, match="while the tape records"):
        tape.watch(tf.constant(1.0))


def test_W11_while_another_tape_is_active_too():
    with tf.GradientTape() as tape:
        pass

    with tf.GradientTape(), pytest.raises(RuntimeError, match="while the tape records"):
        tape.watch(tf.constant(1.0))
