"""Bad input: each message says what is allowed and what was passed, and state is unchanged."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf


def vector():
    return tf.constant([1.0, 2.0])


def matrix():
    return tf.constant(np.ones((2, 3)))


FUNCTIONS = {
    "shapes of +": (
        lambda: vector() + tf.constant([1.0, 2.0, 3.0]),
        ValueError,
        r"add.*\[2\].*\[3\]",
    ),
    "shapes of @": (lambda: matrix() @ matrix(), ValueError, r"matmul.*\[2, 3\]"),
    "reshape": (lambda: tf.reshape(vector(), (3,)), ValueError, r"reshape.*\(2,\).*\(3,\)"),
    "broadcast_to": (lambda: tf.broadcast_to(vector(), (3,)), ValueError, r"\(2,\) to \(3,\)"),
    "concat of nothing": (lambda: tf.concat([], 0), ValueError, r"concat.*at least one.*none"),
    "concat of ranks": (
        lambda: tf.concat([vector(), matrix()], 0),
        ValueError,
        r"concat.*\(2, 3\)",
    ),
    "axis": (lambda: tf.reduce_sum(vector(), axis=3), ValueError, r"sum got axis 3.*1 dimensions"),
    "axis twice": (lambda: tf.reduce_sum(matrix(), axis=(0, 0)), ValueError, r"sum.*axis twice"),
    "axis of text": (lambda: tf.reduce_sum(vector(), axis="rows"), TypeError, r"sum.*axis.*'rows'"),
    "axis of float": (lambda: tf.reduce_sum(vector(), axis=0.5), TypeError, r"sum.*axis.*0.5"),
    "permutation": (lambda: tf.transpose(matrix(), [0, 0]), ValueError, r"permutation.*\(0, 0\)"),
    "text": (lambda: tf.constant("abc", tf.float32), TypeError, r"numbers.*text 'abc'"),
    "None": (lambda: tf.constant(None), TypeError, r"numbers.*None"),
    "ragged list": (
        lambda: tf.constant([[1.0, 2.0], [3.0]]),
        TypeError,
        r"list.*different lengths",
    ),
    "object": (lambda: tf.constant(object()), TypeError, r"object.*not numbers"),
    "dtype": (
        lambda: tf.constant(1.0, dtype="float33"),
        TypeError,
        r"'float33' is not a data type",
    ),
    "cast": (lambda: tf.cast(vector(), "nought"), TypeError, r"'nought' is not a data type"),
    "float index": (lambda: tf.gather(vector(), [0.5]), TypeError, r"gather.*integer.*float32"),
    "index": (lambda: tf.gather(vector(), [5]), IndexError, r"gather got index 5.*length 2"),
    "too many indices": (lambda: vector()[0, 0], IndexError, r"Too many indices.*\(2,\)"),
    "device": (lambda: tf.to_device(vector(), "toaster"), ValueError, r"device 'toaster'.*cpu"),
    "einsum": (lambda: tf.einsum("ij", matrix(), matrix()), ValueError, r"'ij' names 1.*Got 2"),
    "solve": (lambda: tf.linalg.solve(matrix(), matrix()), ValueError, r"solve.*square.*\(2, 3\)"),
}


@pytest.mark.parametrize(("call", "kind", "words"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_name_what_came(call, kind, words):
    with pytest.raises(kind, match=words) as error:
        call()

    assert isinstance(error.value, tf.errors.TapegradError)


@pytest.mark.parametrize(
    "transform",
    [
        tf.grad,
        tf.value_and_grad,
        tf.jacobian,
        tf.hessian,
        tf.vmap,
        tf.custom_gradient,
        tf.recompute_grad,
        tf.grad_pass_through,
        lambda f: tf.vjp(f, 1.0),
        lambda f: tf.jvp(f, [1.0], [1.0]),
    ],
)
def test_what_is_no_function_cannot_be_transformed(transform):
    with pytest.raises(TypeError, match=r"takes a function. Got float"):
        transform(3.0)


TAPE_CALLS = {
    "target None": (lambda t, y, x: t.gradient(None, x), TypeError, r"target.*None"),
    "target number": (lambda t, y, x: t.gradient(3.0, x), TypeError, r"target.*float"),
    "sources None": (lambda t, y, x: t.gradient(y, None), TypeError, r"sources.*NoneType"),
    "sources array": (lambda t, y, x: t.gradient(y, np.ones(2)), TypeError, r"sources.*ndarray"),
    "unconnected": (
        lambda t, y, x: t.gradient(y, x, unconnected_gradients="zeros"),
        ValueError,
        r"unconnected_gradients must be 'none' or 'zero'. Got 'zeros'",
    ),
    "number of seeds": (
        lambda t, y, x: t.gradient([y, y], x, output_gradients=[y]),
        ValueError,
        r"output_gradients.*2. Got 1",
    ),
    "shape of a seed": (
        lambda t, y, x: t.gradient(y, x, output_gradients=np.ones(3)),
        ValueError,
        r"output_gradients\[0\].*\(2,\). Got \(3,\)",
    ),
    "seed of text": (
        lambda t, y, x: t.gradient(y, x, output_gradients="text"),
        TypeError,
        r"text 'text'",
    ),
    "jacobian's target": (lambda t, y, x: t.jacobian("y", x), TypeError, r"target.*str"),
    "jacobian's sources": (
        lambda t, y, x: t.jacobian(y, [x, 1]),
        TypeError,
        r"sources.*Entry 1.*int",
    ),
    "chunk_size": (
        lambda t, y, x: t.jacobian(y, x, chunk_size=0),
        ValueError,
        r"chunk_size.*Got 0",
    ),
    "rank": (lambda t, y, x: t.batch_jacobian(y, x), ValueError, r"rank at least 2.*\(2,\)"),
    "batch_jacobian's source": (
        lambda t, y, x: t.batch_jacobian(y, [x]),
        TypeError,
        r"source.*list",
    ),
    "hessian": (lambda t, y, x: t.hessian(y, x), RuntimeError, r"hessian\(\).*persistent"),
    "explain": (lambda t, y, x: t.explain(y, 3.0), TypeError, r"source.*float"),
    "reset": (lambda t, y, x: t.reset(), ValueError, r"reset\(\).*recording"),
    "watch": (lambda t, y, x: t.watch(x), RuntimeError, r"watch\(\).*enter the tape"),
    "watch of a number": (lambda t, y, x: t.watch(3.0), ValueError, r"watch\(\).*float"),
}


@pytest.mark.parametrize(("call", "kind", "words"), TAPE_CALLS.values(), ids=TAPE_CALLS)
def test_a_refused_call_leaves_the_tape_as_it_was(call, kind, words):
    x = vector()
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(kind, match=words) as error:
        call(tape, y, x)

    assert isinstance(error.value, tf.errors.TapegradError)
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


ASSIGNMENTS = {
    "shape": ([1.0, 2.0, 3.0], ValueError, r"'w:0' expects shape \(2,\). Got \(3,\)"),
    "dtype": (tf.constant([1, 2]), ValueError, r"'w:0' expects float32.*int32"),
    "text": ("abc", TypeError, r"'w:0'.*text 'abc'"),
    "None": (None, TypeError, r"'w:0'.*None"),
    "ragged": ([[1.0], [2.0, 3.0]], TypeError, r"'w:0'.*different lengths"),
}


@pytest.mark.parametrize(("value", "kind", "words"), ASSIGNMENTS.values(), ids=ASSIGNMENTS)
@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
def test_a_refused_assignment_leaves_the_variable_as_it_was(method, value, kind, words):
    v = tf.Variable([1.0, 2.0], name="w")
    with pytest.raises(kind, match=f"{method} on {words}") as error:
        getattr(v, method)(value)

    assert isinstance(error.value, tf.errors.TapegradError)
    assert v.numpy().tolist() == [1.0, 2.0]


def test_an_error_inside_the_block_leaves_the_recording_intact():
    x = vector()
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(ValueError, match="add"):
            x + tf.constant([1.0, 2.0, 3.0])
        y = x * x

    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


def test_an_error_in_a_forward_function_under_vmap_leaves_no_batch_open():
    with pytest.raises(KeyError):
        tf.vmap(lambda a: {}["missing"])(vector())
    with tf.GradientTape() as tape:
        x = vector()
        tape.watch(x)
        y = x * x

    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


def test_an_error_in_a_custom_function_leaves_no_recorder_behind():
    @tf.custom_gradient
    def broken(x):
        raise KeyError("body")

    x = vector()
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(KeyError):
            broken(x)
        y = x * x

    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


def test_every_error_is_also_the_builtin_that_users_expect():
    expected = {
        "ArgumentError": ValueError,
        "ShapeError": ValueError,
        "IndexOutOfRangeError": IndexError,
        "DeviceError": ValueError,
        "ArgumentTypeError": TypeError,
        "TapeError": RuntimeError,
        "InPlaceError": RuntimeError,
        "BackendUnavailableError": RuntimeError,
        "MissingRuleError": LookupError,
        "UnconnectedGradientError": ValueError,
    }

    for name, builtin in expected.items():
        kind = getattr(tf.errors, name)
        assert issubclass(kind, builtin)
        assert issubclass(kind, tf.errors.TapegradError)
