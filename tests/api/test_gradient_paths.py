"""Which paths gradients take through a recorded computation."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.extend import PRIMITIVES, Primitive


@pytest.fixture
def x():
    return tf.constant(3.0)


@pytest.fixture
def primitive():
    """Make primitives that exist for one test."""
    names = []

    def make(name, *args, **kwargs):
        names.append(name)
        return Primitive(name, *args, **kwargs)

    yield make
    for name in names:
        del PRIMITIVES[name]


def record(function, *inputs, persistent=False):
    """Run a function on watched inputs; return the tape and the result."""
    with tf.GradientTape(persistent=persistent) as tape:
        tape.watch(list(inputs))
        result = function(*inputs)
    return tape, result


@pytest.fixture
def table():
    return tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def gathered(table, indices):
    """The gradient of the sum of squares of gathered rows."""
    with tf.GradientTape() as tape:
        rows = tf.gather(table, indices)
        y = rows * rows
    return tape.gradient(y, table)


def test_G17_a_row_gather_of_a_variable_gives_indexed_slices(table):
    gradient = gathered(table, [2, 0])

    assert isinstance(gradient, tf.IndexedSlices)
    assert gradient.indices.numpy().tolist() == [2, 0]
    assert gradient.values.numpy().tolist() == [[10.0, 12.0], [2.0, 4.0]]
    assert gradient.dense_shape == (3, 2)


DENSE_FORMS = {
    "numpy()": lambda g: g.numpy(),
    "np.asarray": np.asarray,
    "convert_to_tensor": lambda g: tf.convert_to_tensor(g).numpy(),
    "arithmetic": lambda g: (g * 1.0).numpy(),
    "reflected arithmetic": lambda g: (1.0 * g).numpy(),
}


@pytest.mark.parametrize("dense", DENSE_FORMS.values(), ids=DENSE_FORMS)
def test_G17_it_turns_dense_where_needed_and_adds_repeated_rows(table, dense):
    gradient = gathered(table, [1, 1])

    assert dense(gradient).tolist() == [[0.0, 0.0], [12.0, 16.0], [0.0, 0.0]]


def test_G17_several_sparse_contributions_are_concatenated(table):
    with tf.GradientTape() as tape:
        y = [tf.gather(table, [0]) * 2.0, tf.gather(table, [0, 1]) * 3.0]
    gradient = tape.gradient(y, table)

    assert isinstance(gradient, tf.IndexedSlices)
    assert sorted(gradient.indices.numpy().tolist()) == [0, 0, 1]
    assert gradient.numpy().tolist() == [[5.0, 5.0], [3.0, 3.0], [0.0, 0.0]]


@pytest.mark.parametrize("first", ["sparse", "dense"])
def test_G17_sparse_and_dense_become_dense(table, first):
    with tf.GradientTape() as tape:
        if first == "sparse":
            y = [tf.gather(table, [0]) * 2.0, table * 1.0]
        else:
            y = [table * 1.0, tf.gather(table, [0]) * 2.0]
    gradient = tape.gradient(y, table)

    assert isinstance(gradient, tf.Tensor)
    assert gradient.numpy().tolist() == [[3.0, 3.0], [1.0, 1.0], [1.0, 1.0]]


def test_G17_sparse_contributions_from_two_blocks_add_up(table):
    tape = tf.GradientTape()
    with tape:
        y = tf.gather(table, [0]) * 2.0
    with tape:
        z = tf.gather(table, [1]) * 3.0

    assert tape.gradient([y, z], table).numpy().tolist() == [[2.0, 2.0], [3.0, 3.0], [0.0, 0.0]]


def test_G17_a_gather_along_another_axis_is_dense(table):
    with tf.GradientTape() as tape:
        y = tf.gather(table, [0], axis=1)

    assert isinstance(tape.gradient(y, table), tf.Tensor)


def test_G17_a_gather_of_a_watched_tensor_is_dense():
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    tape, y = record(lambda x: tf.gather(x, [1]), x)

    assert tape.gradient(y, x).numpy().tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_G17_a_sparse_gradient_can_be_differentiated(table):
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            rows = tf.gather(table, [1])
            y = rows * rows * rows
        first = inner.gradient(y, table)
    second = outer.gradient(first, table)

    assert second.numpy().tolist() == [[0.0, 0.0], [18.0, 24.0], [0.0, 0.0]]


def test_G18_an_operation_without_rule_on_the_path_is_named(x, primitive):
    rootless = primitive("rootless", lambda xp, a: a * 1.0)
    tape, y = record(rootless, x)

    with pytest.raises(LookupError, match="rootless has no gradient rule"):
        tape.gradient(y, x)


def test_G18_off_the_path_it_does_no_harm(x, primitive):
    rootless = primitive("rootless", lambda xp, a: a * 1.0)
    w = tf.constant(2.0)
    tape, y = record(lambda x, w: rootless(w) * x, x, w)

    assert float(tape.gradient(y, x)) == 2.0


def test_G19_an_operation_declared_nondifferentiable_gives_none(x, primitive):
    flat = primitive("flat", lambda xp, a: a * 0.0, differentiable=False)
    tape, y = record(flat, x)

    assert tape.gradient(y, x) is None


def test_G20_exceptions_in_backward_functions_propagate_unchanged(x):
    class OddError(Exception):
        pass

    @tf.custom_gradient
    def broken(x):
        def grad(upstream):
            raise OddError("as it was")

        return x * 1.0, grad

    tape, y = record(broken, x)

    with pytest.raises(OddError, match=r"^as it was$"):
        tape.gradient(y, x)


def test_G21_a_rule_that_returns_the_wrong_number_of_values_is_named(x, primitive):
    short = primitive("short", lambda xp, a, b: a * b)
    short.vjp(lambda t, x1, x2: (t * x2,))
    tape, y = record(lambda x: short(x, x), x)

    with pytest.raises(ValueError, match=r"short must return 2 values.*returned 1"):
        tape.gradient(y, x)


def make_split(primitive, seen):
    """A primitive with two outputs that notes the cotangents its rule gets."""
    split = primitive("split_in_two", lambda xp, a: (a * 2.0, a * 3.0), many=True)

    @split.vjp
    def rule(t):
        seen.append([np.asarray(part).tolist() for part in t])
        return (t[0] * 2.0 + t[1] * 3.0,)

    return split


def test_G22_an_output_without_gradient_gets_zeros(primitive):
    seen = []
    split = make_split(primitive, seen)
    x = tf.constant([1.0, 2.0])
    tape, outputs = record(split, x)

    assert tape.gradient(outputs[1], x).numpy().tolist() == [3.0, 3.0]
    assert seen == [[[0.0, 0.0], [1.0, 1.0]]]


def test_G22_the_rule_is_not_called_when_no_output_has_one(x, primitive):
    seen = []
    split = make_split(primitive, seen)
    tape, (_, y) = record(lambda x: (split(x), x * x), x)

    assert float(tape.gradient(y, x)) == 6.0
    assert seen == []


def test_G23_the_rule_is_told_which_inputs_need_a_gradient(x, primitive):
    seen = []
    product = primitive("product_of_two", lambda xp, a, b: a * b)

    @product.vjp
    def rule(t, x1, x2, *, needs):
        seen.append(needs)
        return (t * x2 if needs[0] else None, t * x1 if needs[1] else None)

    w = tf.constant(2.0)
    tape, y = record(lambda x, w: product(x, w), x, w)
    tape.gradient(y, w)

    assert seen == [(False, True)]


def test_G24_each_rule_runs_once_after_all_contributions(x, primitive):
    seen = []
    double = primitive("double_once", lambda xp, a: a * 2.0)
    double.vjps(lambda t: (seen.append(1), t * 2.0)[1])

    def diamond(x):
        y = double(x)
        return y * y + y * 3.0 + y

    tape, z = record(diamond, x)

    assert float(tape.gradient(z, x)) == 2 * (2 * 6.0 + 4.0)
    assert len(seen) == 1


def test_G24_a_hundred_thousand_chained_operations_are_swept():
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(100_000):
            y = y + 1.0

    assert float(tape.gradient(y, x)) == 1.0


def test_G25_many_contributions_to_one_value_are_summed():
    x = tf.constant(np.ones(3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * 0.0
        for k in range(1, 101):
            y = y + x * float(k)

    assert tape.gradient(y, x).numpy().tolist() == [5050.0] * 3


def test_G25_adding_in_place_does_not_change_what_rules_share():
    x = tf.constant(np.ones(3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        a, b = x * 1.0, x * 1.0
        c = a + b  # both inputs get the very same cotangent array
        y = c + a + a

    assert [g.numpy().tolist() for g in tape.gradient(y, [a, b, c])] == [
        [3.0] * 3,
        [1.0] * 3,
        [1.0] * 3,
    ]


def test_G25_adding_in_place_does_not_change_the_seed():
    seed = tf.constant(np.ones(3))
    x = tf.constant(np.ones(3))
    tape, y = record(lambda x: x + x + x, x)
    tape.gradient(y, x, output_gradients=seed)

    assert seed.numpy().tolist() == [1.0] * 3


def test_G26_gradients_are_attached_to_nothing(x):
    tape, y = record(lambda x: x * x, x)

    assert tape.gradient(y, x).node is None


NO_OPERATIONS = {
    "+ 0": lambda x: x + 0.0,
    "* 1": lambda x: x * 1.0,
    "+x": lambda x: +x,
    "reshape": lambda x: tf.reshape(x, ()),
    "cast": lambda x: tf.cast(x, "float32"),
    "identity": lambda x: tf.identity(x),
    "broadcast_to": lambda x: tf.broadcast_to(x, ()),
}


@pytest.mark.parametrize("function", NO_OPERATIONS.values(), ids=NO_OPERATIONS)
def test_G27_functions_that_change_nothing_return_new_sources(x, function):
    with tf.GradientTape() as tape:
        tape.watch(x)
        same = function(x)
        y = same * 2.0 + x

    assert [float(g) for g in tape.gradient(y, [x, same])] == [3.0, 2.0]


def test_G27_the_value_of_a_variable_is_a_source_of_its_own():
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        value = v.value()
        y = value * 2.0 + v

    assert float(tape.gradient(y, v)) == 3.0


def test_G28_equal_constants_are_distinct_sources():
    a, b = tf.constant(1.0), tf.constant(1.0)
    tape, y = record(lambda a, b: a * 2.0 + b * 5.0, a, b)

    assert [float(g) for g in tape.gradient(y, [a, b])] == [2.0, 5.0]


@pytest.mark.parametrize(("value", "expected"), [(1.0, 2.0), (-1.0, 5.0)])
def test_G29_only_the_branch_that_ran_is_recorded(value, expected):
    x = tf.constant(value)
    tape, y = record(lambda x: x * 2.0 if float(x) > 0 else x * 5.0, x)

    assert float(tape.gradient(y, x)) == expected


def test_G29_loops_record_every_turn(x):
    def cube(x):
        y = tf.constant(1.0)
        for _ in range(3):
            y = y * x
        return y

    tape, y = record(cube, x)

    assert float(tape.gradient(y, x)) == 27.0


UPDATES = {
    "assign": lambda v: v.assign([7.0, 7.0]),
    "assign_add": lambda v: v.assign_add([7.0, 7.0]),
    "assign_sub": lambda v: v.assign_sub([7.0, 7.0]),
}


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_G30_a_gradient_after_an_update_uses_the_old_values(update):
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = v * v
    update(v)

    assert tape.gradient(y, v).numpy().tolist() == [2.0, 4.0]


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_G30_values_read_before_an_update_stay_as_they_were(update):
    v = tf.Variable([1.0, 2.0])
    before = v.value()
    update(v)

    assert before.numpy().tolist() == [1.0, 2.0]


def test_G30_changing_the_array_a_variable_was_made_from_changes_nothing():
    array = np.array([1.0, 2.0])
    v = tf.Variable(array)
    array[0] = 9.0

    assert v.numpy().tolist() == [1.0, 2.0]


def test_G30_changing_what_numpy_gave_changes_nothing():
    v = tf.Variable([1.0, 2.0])
    v.numpy()[0] = 9.0

    assert v.numpy().tolist() == [1.0, 2.0]


def test_a_single_number_that_is_cut_and_used_elsewhere():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        m = 2.0 * x
        y = tf.reduce_sum(m[..., None] * tf.constant([1.0, 2.0])) + m * m + m

    assert float(tape.gradient(y, x)) == 2.0 * (3.0 + 12.0 + 1.0)
