"""Arguments and results of `gradient`."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.autodiff import arguments

Pair = namedtuple("Pair", "a b")


@pytest.fixture
def x():
    return tf.constant(3.0)


@pytest.fixture
def few_times(monkeypatch):
    """Let the warnings about dtypes be given again."""
    monkeypatch.setattr(arguments, "_few_times", [5])


def record(function, *inputs, persistent=False):
    """Run a function on watched inputs; return the tape and the result."""
    with tf.GradientTape(persistent=persistent) as tape:
        tape.watch(list(inputs))
        result = function(*inputs)
    return tape, result


SOURCES = {
    "bare": lambda a, b: a,
    "list": lambda a, b: [a, b],
    "tuple": lambda a, b: (a, b),
    "namedtuple": Pair,
    "dict": lambda a, b: {"z": a, "y": b},
    "OrderedDict": lambda a, b: OrderedDict(z=a, y=b),
    "mixed": lambda a, b: {"x": [a, (b, [a])]},
    "empty": lambda a, b: [],
}


def floats(structure):
    """The same structure with Python floats."""
    if isinstance(structure, dict):
        return type(structure)((key, floats(value)) for key, value in structure.items())
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*map(floats, structure))
    if isinstance(structure, list | tuple):
        return type(structure)(map(floats, structure))
    return float(structure)


@pytest.mark.parametrize("build", SOURCES.values(), ids=SOURCES)
def test_G1_the_result_has_the_structure_of_the_sources(build):
    a, b = tf.constant(2.0), tf.constant(5.0)
    tape, y = record(lambda a, b: a * b, a, b)

    result = floats(tape.gradient(y, build(a, b)))

    assert result == build(5.0, 2.0)
    assert type(result) is type(build(5.0, 2.0))


def test_G2_targets_may_be_any_nest_and_are_summed(x):
    tape, targets = record(lambda x: {"a": [x * x, (x * 2.0,)], "b": x}, x)

    assert float(tape.gradient(targets, x)) == 6.0 + 2.0 + 1.0


def test_G2_all_elements_of_a_target_are_summed():
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    tape, y = record(lambda x: x * x, x)

    assert tape.gradient(y, x).numpy().tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_G3_a_target_listed_twice_counts_twice(x):
    tape, y = record(lambda x: x * x, x)

    assert float(tape.gradient([y, y], x)) == 12.0


def test_G4_a_watched_target_that_is_a_source_contributes_ones(x):
    tape, y = record(lambda x: x * x, x)

    assert float(tape.gradient([x, y], x)) == 7.0


def test_G4_an_unwatched_tensor_is_its_own_derivative():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        pass

    assert tape.gradient(x, x).numpy().tolist() == [1.0, 1.0]


def test_G4_a_variable_never_read_is_its_own_derivative():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        pass

    assert tape.gradient(v, v).numpy().tolist() == [1.0, 1.0]


def test_G4_output_gradients_weigh_a_target_that_is_a_source(x):
    with tf.GradientTape() as tape:
        tape.watch(x)

    assert float(tape.gradient(x, x, output_gradients=5.0)) == 5.0


def test_G5_intermediates_are_sources_and_derivatives_are_total(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * y

    assert [float(g) for g in tape.gradient(z, [x, y])] == [108.0, 18.0]


def test_G5_an_intermediate_alone_is_a_source(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * y

    assert float(tape.gradient(z, y)) == 18.0


def test_G5_a_target_that_another_target_uses_keeps_its_own_share(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * 2.0

    assert [float(g) for g in tape.gradient([z, y], [x, y])] == [18.0, 3.0]


def test_G6_a_source_listed_twice_has_the_full_gradient_twice(x):
    tape, y = record(lambda x: x * x, x)

    assert [float(g) for g in tape.gradient(y, [x, x])] == [6.0, 6.0]


def test_G7_an_unwatched_input_of_a_recorded_operation_gives_none(x):
    w = tf.constant(2.0)
    tape, y = record(lambda x: x * w, x)

    assert tape.gradient(y, [x, w])[1] is None


def cut_by_numpy(x):
    return tf.constant(x.numpy() * 2.0)


def cut_by_integers(x):
    return tf.cast(tf.cast(x, "int32"), "float32") * 2.0


def cut_by_state(x):
    return tf.Variable(0.0).assign(x) * 2.0


def cut_by_stop_gradient(x):
    return tf.stop_gradient(x) * 2.0


def cut_by_an_operation(x):
    return tf.zeros_like(x) * 2.0


def cut_by_the_branch(x):
    return x * 2.0 if float(x) < 0 else tf.constant(1.0) * 2.0


@pytest.mark.parametrize(
    "function",
    [
        cut_by_numpy,
        cut_by_integers,
        cut_by_state,
        cut_by_stop_gradient,
        cut_by_an_operation,
        cut_by_the_branch,
    ],
)
def test_G8_none_when_no_recorded_path_exists(x, function):
    tape, y = record(function, x)

    assert tape.gradient(y, x) is None


def test_G8_none_when_a_variable_was_replaced_by_a_tensor():
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        replaced = v + 1.0
    with tf.GradientTape() as tape:
        y = replaced * 2.0

    assert tape.gradient(y, replaced) is None


def test_G8_the_second_derivative_of_a_linear_function_is_none(x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        tape, y = record(lambda x: x * 2.0, x)
        first = tape.gradient(y, x)

    assert outer.gradient(first, x) is None


@pytest.mark.parametrize("mode", [tf.UnconnectedGradients.NONE, "none"])
def test_G9_none_is_the_default_for_unconnected_sources(x, mode):
    tape, y = record(lambda x: x * x, x)

    assert tape.gradient(y, tf.constant(1.0), unconnected_gradients=mode) is None


@pytest.mark.parametrize("mode", [tf.UnconnectedGradients.ZERO, "zero"])
@pytest.mark.parametrize("kind", [tf.constant, tf.Variable])
def test_G9_zero_has_the_shape_and_dtype_of_the_source(x, mode, kind):
    source = kind(np.ones((2, 3), "float64"))
    tape, y = record(lambda x: x * x, x)

    gradient = tape.gradient(y, source, unconnected_gradients=mode)

    assert gradient.dtype == "float64"
    assert gradient.numpy().tolist() == [[0.0] * 3] * 2


def test_G9_other_modes_are_quoted(x):
    tape, y = record(lambda x: x * x, x)

    with pytest.raises(ValueError, match=r"'none' or 'zero'. Got 'nought'"):
        tape.gradient(y, x, unconnected_gradients="nought")


SEEDS = {
    "number": 2.0,
    "list": [2.0],
    "array": np.array(2.0),
    "tensor": tf.constant(2.0),
    "variable": tf.Variable(2.0),
}


@pytest.mark.parametrize("seed", SEEDS.values(), ids=SEEDS)
def test_G10_output_gradients_are_converted(x, seed):
    tape, y = record(lambda x: x * x, x)

    assert float(tape.gradient(y, x, output_gradients=seed)) == 12.0


def test_G10_a_vector_seed_gives_the_vector_jacobian_product():
    x = tf.constant([1.0, 2.0])
    tape, y = record(lambda x: x * x, x)

    assert tape.gradient(y, x, output_gradients=[3.0, 5.0]).numpy().tolist() == [6.0, 20.0]


def test_G10_none_means_ones(x):
    tape, targets = record(lambda x: [x * x, x * 2.0], x)

    assert float(tape.gradient(targets, x, output_gradients=[None, 10.0])) == 26.0


def test_G10_targets_and_seeds_are_paired_by_flattening(x):
    tape, targets = record(lambda x: {"a": x * x, "b": x * 2.0}, x)

    assert float(tape.gradient(targets, x, output_gradients={"b": 10.0, "a": 1.0})) == 26.0


def test_G10_a_seed_for_a_target_that_another_target_uses_adds_up(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = y * 2.0

    assert float(tape.gradient([z, y], x, output_gradients=[1.0, 100.0])) == 612.0


def test_G10_a_watched_seed_can_be_differentiated(x):
    seed = tf.constant(2.0)
    with tf.GradientTape() as outer:
        outer.watch(seed)
        tape, y = record(lambda x: x * x, x)
        product = tape.gradient(y, x, output_gradients=seed)

    assert float(outer.gradient(product, seed)) == 6.0


def test_G10_the_wrong_number_of_seeds_is_refused(x):
    tape, targets = record(lambda x: [x * x, x], x)

    with pytest.raises(ValueError, match=r"one entry per target: 2. Got 1"):
        tape.gradient(targets, x, output_gradients=[1.0])


def test_G10_the_wrong_shape_of_a_seed_is_refused(x):
    tape, y = record(lambda x: x * x, x)

    with pytest.raises(ValueError, match=r"output_gradients\[0\].*shape \(\). Got \(2,\)"):
        tape.gradient(y, x, output_gradients=tf.constant([1.0, 2.0]))


def test_G10_a_seed_of_another_dtype_does_not_change_the_gradients_dtype(x):
    tape, y = record(lambda x: x * x, x)

    gradient = tape.gradient(y, x, output_gradients=tf.constant(2.0, dtype="float64"))

    assert gradient.dtype == "float32"


def test_G11_target_none_is_refused(x):
    with tf.GradientTape() as tape:
        tape.watch(x)

    with pytest.raises(TypeError, match=r"target.*Got None"):
        tape.gradient(None, x)


@pytest.mark.parametrize("leaf", [1.0, np.ones(2), "x"], ids=lambda leaf: type(leaf).__name__)
@pytest.mark.parametrize("argument", ["target", "sources"])
def test_G12_other_values_are_refused_by_position_and_type(x, argument, leaf):
    tape, y = record(lambda x: x * x, x)
    arguments = {"target": [y, y], "sources": [x, x]}
    arguments[argument][1] = leaf

    with pytest.raises(TypeError, match=f"{argument}.*Entry 1 is {type(leaf).__name__}"):
        tape.gradient(**arguments)


def test_G13_no_sources_give_no_gradients(x):
    tape, y = record(lambda x: x * x, x)

    assert tape.gradient(y, []) == []


def test_G13_no_targets_give_none(x):
    tape, _ = record(lambda x: x * x, x)

    assert tape.gradient([], [x]) == [None]


def test_G14_an_integer_target_gives_none(x):
    tape, y = record(lambda x: tf.cast(x, "int32"), x)

    assert tape.gradient(y, x) is None


def test_G14_an_integer_is_not_its_own_derivative(few_times):
    n = tf.constant(3)
    with tf.GradientTape() as tape:
        pass
    with pytest.warns(UserWarning, match="int32"):
        assert tape.gradient(n, n) is None


def test_G14_an_integer_source_warns(x, few_times):
    n = tf.constant(3)
    tape, y = record(lambda x: x * 2.0, x)

    with pytest.warns(UserWarning, match="A source has dtype int32"):
        assert tape.gradient(y, n) is None


def test_G15_a_variable_as_target_is_a_leaf(x):
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        v.assign(x * x)

    assert [g if g is None else float(g) for g in tape.gradient(v, [v, x])] == [1.0, None]


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (2, 1), (2, 3), (1, 1, 1)])
def test_G16_the_gradient_has_the_shape_of_its_source(shape):
    x = tf.constant(np.ones(shape, "float32"))
    other = tf.constant(np.ones((4, 2, 3), "float32"))
    tape, y = record(lambda x: x * other, x)

    gradient = tape.gradient(y, x)

    assert gradient.shape == shape
    assert gradient.numpy().sum() == 24.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_G16_the_gradient_has_the_dtype_of_its_source(dtype):
    x = tf.constant(np.ones(2, dtype))
    other = tf.constant(np.ones(2, "float64"))
    tape, y = record(lambda x: x * other + x, x)

    assert tape.gradient(y, x).dtype == dtype
