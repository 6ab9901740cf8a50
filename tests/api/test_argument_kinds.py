"""Public functions refuse arguments of the wrong kind by name, and never cut or guess."""

from __future__ import annotations

import contextlib
import inspect
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.checked_calls import check_function
from tapegrad.core.failed_calls import explained
from tapegrad.errors import ArgumentKindError, OutOfRangeError, ShapeError, TapegradError

function: Any = tf
keras: Any = tf.keras


def x() -> Any:
    return tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


# What was cut or read as digits before.
CUT: dict[str, tuple[Callable[[], Any], str]] = {
    "a fraction of a size": (lambda: tf.zeros([2.9]), "shape"),
    "an integral float as a size": (lambda: tf.zeros([2.0]), "shape"),
    "digits as a shape": (lambda: tf.reshape(x(), "32"), "shape"),
    "digits in a shape": (lambda: tf.reshape(x(), ["3", "2"]), "shape"),
    "floats as a shape": (lambda: tf.reshape(x(), tf.constant([3.0, 2.0])), "shape"),
    "a fraction of an axis": (lambda: tf.argmax(x(), axis=1.9), "axis"),
    "a fraction of an axis in vmap": (
        lambda: tf.vmap(lambda row: tf.argmax(row, axis=0.5))(x()),
        "axis",
    ),
    "a fraction of a place": (lambda: tnp.roll(x(), 1.5), "shift"),
    "a fraction of a place along an axis": (lambda: tf.roll(x(), 1.5, 0), "shift"),
    "a fraction of a depth": (lambda: tf.one_hot([0], 2.9), "depth"),
    "digits as a depth": (lambda: tf.one_hot([0], "3"), "depth"),
    "a fraction of a stride": (
        lambda: tf.nn.avg_pool(tf.ones([1, 4, 4, 1]), 2, [1.5], "VALID"),
        "strides",
    ),
    "a fraction of a length": (lambda: tf.signal.fft(x(), 2.5), "n"),
    "a fraction of a band": (lambda: tf.linalg.band_part(x(), 0.5, 0), "num_lower"),
    "a fraction of parts": (lambda: tf.split(x(), 1.5), "num_or_size_splits"),
    "a fraction of a branch": (lambda: tf.switch_case(0.5, [lambda: 1]), "branch_index"),
    "fractions of a random shape": (lambda: tf.random.normal([2.9]), "shape"),
    "an array as a flag": (lambda: tnp.sum(x(), keepdims=np.ones(2)), "keepdims"),
    "a tensor as an option": (lambda: tnp.reshape(x(), 6, order=x()), "order"),
    "a module as an axis": (lambda: tf.reduce_sum(x(), axis=np), "axis"),
    "a class of arrays as a flag": (lambda: tf.transpose(x(), conjugate=tf.Tensor), "conjugate"),
    "a dtype as a size": (lambda: tf.zeros(np.int8), "shape"),
    "a class of numbers as a size": (lambda: tf.one_hot([0], np.int8), "depth"),
    "a layer as a flag": (
        lambda: tf.reduce_sum(x(), keepdims=keras.layers.Dense(1)),
        "keepdims",
    ),
    "text as a flag": (lambda: tf.reduce_sum(x(), keepdims="yes"), "keepdims"),
}


@pytest.mark.parametrize("name", CUT)
def test_a_value_of_another_kind_is_refused_by_the_name_of_its_argument(name: str) -> None:
    call, argument = CUT[name]

    with pytest.raises(TapegradError, match=argument) as caught:
        call()

    assert isinstance(caught.value, TypeError | ValueError)


@pytest.mark.parametrize("size", [2, np.int64(2), np.array(2), tf.constant(2), True + 1])
def test_integers_of_every_kind_are_sizes(size: Any) -> None:
    assert tf.zeros([size]).shape == (2,)
    assert tf.reshape(x(), (size, -1)).shape == (2, 3)
    assert tf.one_hot([0], size).shape == (1, 2)


ROUNDS: dict[str, Callable[[], Any]] = {
    "polyint": lambda: tnp.polyint([1.0, 2.0], 2**31),
    "the power of a polynomial": lambda: tnp.poly1d([1.0, 1.0]) ** 2**31,
    "the power of a series": lambda: tnp.polynomial.polynomial.polypow([1.0, 1.0], 2**31),
    "the integral of a series": lambda: tnp.polynomial.legendre.legint([1.0, 2.0], 2**31),
    "antiderivative": (
        lambda: tf.scipy.interpolate.CubicSpline([0.0, 1.0], [1.0, 2.0]).antiderivative(2**31)
    ),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_work_without_end_is_refused(name: str) -> None:
    with pytest.raises(TapegradError, match=f"of {name} must be at most 100,000"):
        ROUNDS[name]()


def test_more_derivatives_than_terms_leave_nothing() -> None:
    assert tnp.polyder([1.0, 2.0, 3.0], 2**31).shape == (0,)


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "diff": lambda: tnp.diff(x(), n=2**70),
    "lrn": lambda: tf.nn.lrn(x(), depth_radius=2**70),
    "dynamic_partition": lambda: tf.dynamic_partition([1.0], [0], 2**70),
    "polyint": lambda: tnp.polynomial.polynomial.polyint([1.0], 2**70),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_count_beyond_64_bits_is_refused_instead_of_counted_to(name: str) -> None:
    with pytest.raises(OutOfRangeError, match="64 bits"):
        TOO_LARGE[name]()


def test_more_differences_than_elements_leave_nothing() -> None:
    assert tnp.diff(x(), n=2**40).shape == (2, 0)
    assert tnp.diff(tf.constant([True, False]), n=2**40).shape == (0,)


def test_a_radius_beyond_the_channels_reaches_all_of_them() -> None:
    wide, all_of_them = tf.nn.lrn(x(), 2**40).numpy(), tf.nn.lrn(x(), 3).numpy()

    np.testing.assert_allclose(wide, all_of_them, rtol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, tf.constant])
def test_tolerances_of_isclose_may_be_arrays(make: Callable[[Any], Any]) -> None:
    a, b = np.array([1.0, np.inf, np.nan, 2.0]), np.array([1.1, np.inf, np.nan, np.inf])
    rtol = np.array([0.2, 0.1, 0.1, 0.1])

    for equal_nan in (False, True):
        found = tnp.isclose(tf.constant(a), b, rtol=make(rtol), equal_nan=equal_nan)
        expected = np.isclose(a, b, rtol=rtol, equal_nan=equal_nan)
        assert found.numpy().tolist() == expected.tolist()


# The mechanism


def _scaled() -> Any:
    unit = 10

    def scaled(x: Any, /, times: int = 1, *more: Any, by: float = 1.0, **rest: Any) -> Any:
        """Use parameters of all kinds, and a variable of the outer function."""
        return unit * x * times * by, more, rest

    return scaled


def test_the_first_call_passes_parameters_of_all_kinds() -> None:
    plain, checked = _scaled(), check_function(_scaled())
    signature = inspect.signature(plain)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((2.0,), {}),
        ((2.0, 3), {"by": 0.5}),
        ((2.0, 3, "a", "b"), {"by": 0.5, "c": 1, "x": 2}),
    ]
    assert inspect.signature(checked) == signature
    for args, kwargs in calls:
        first = check_function(_scaled())
        assert first(*args, **kwargs) == plain(*args, **kwargs)
        assert first(*args, **kwargs) == checked(*args, **kwargs) == plain(*args, **kwargs)
    assert inspect.signature(checked) == signature


def test_the_first_call_refuses_wrong_arguments() -> None:
    with pytest.raises(TapegradError, match="scaled needs an integer for the argument times"):
        check_function(_scaled())(2.0, 1.5)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        check_function(_scaled())()


def test_checks_are_compiled_only_when_a_function_is_called() -> None:
    checked = check_function(_scaled())
    waiting = checked.__code__
    assert checked.__code__ is waiting
    checked(1)
    ready = checked.__code__
    checked(1)
    assert ready is not waiting
    assert checked.__code__ is ready


def test_the_error_of_an_inner_line_names_the_argument() -> None:
    def halves(values: Any) -> Any:
        return [value / 2 for value in values]

    halves.__globals__["__name__"], kept = "tapegrad.made_up", halves.__globals__["__name__"]
    try:
        with pytest.raises(TapegradError, match="halves cannot take 3 as the argument values"):
            check_function(halves)(3)
    finally:
        halves.__globals__["__name__"] = kept


def test_errors_of_the_callers_own_code_are_left_alone() -> None:
    def wrong(_: Any) -> Any:
        raise KeyError("mine")

    for call in (
        lambda: tf.map_fn(wrong, x()),
        lambda: tnp.apply_along_axis(wrong, 0, x()),
        lambda: keras.layers.Lambda(wrong)(x()),
    ):
        with pytest.raises(KeyError, match="mine"):
            call()


def test_an_internal_error_without_a_strange_argument_is_not_blamed_on_the_caller() -> None:
    assert explained(tf.reshape, (x(), (3, 2)), {}, KeyError("inner")) is None
    assert explained(tf.reshape, (x(), (3, 2)), {}, ShapeError("said already")) is None


def test_a_checked_function_is_the_same_object_and_shows_its_own_line() -> None:
    assert tf.reshape is tf.reshape
    assert pickle.loads(pickle.dumps(tnp.linspace)) is tnp.linspace
    assert keras.activations.get("softmax") is keras.activations.softmax
    try:
        tnp.linspace(0.0, 1.0, 2.5)
    except ArgumentKindError as error:
        shown = "".join(traceback.format_tb(error.__traceback__))
        assert "def linspace" in shown
    else:
        pytest.fail("linspace took 2.5 points.")


def test_checks_run_in_a_recorded_function_too() -> None:
    @tf.function
    def cut(v: Any) -> Any:
        return tf.argmax(v, axis=1.9)

    with pytest.raises(ArgumentKindError, match="axis"):
        cut(x())


MASKS: dict[str, Callable[[], Any]] = {
    "of a tensor": lambda: x()[tf.constant([True, False, True])],
    "of an array": lambda: x()[np.array([True, False, True])],
    "of a list": lambda: x()[[True, False, True]],
    "of the second axis": lambda: x()[:, np.array([True, False])],
    "in boolean_mask": lambda: tf.boolean_mask(x(), [True, False, True]),
    "in index_update": lambda: tf.index_update(x(), np.array([True, False, True]), 0.0),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_of_the_wrong_shape_is_an_index_error_as_in_numpy(name: str) -> None:
    with pytest.raises(IndexError, match="mask") as caught:
        MASKS[name]()

    assert isinstance(caught.value, ShapeError)


FLAT: dict[str, Callable[[], Any]] = {
    "split": lambda: tf.split(tf.constant(1.5), 1),
    "moments": lambda: tf.nn.moments(tf.constant(1.5), [0]),
    "flatten": lambda: keras.layers.Flatten()(tf.constant(1.5)),
}


@pytest.mark.parametrize("name", FLAT)
def test_a_scalar_where_axes_are_needed_is_named(name: str) -> None:
    with pytest.raises(ShapeError, match=rf"(?i){name}.* dimensions"):
        FLAT[name]()

    with pytest.raises(ShapeError, match=rf"(?i){name}.* dimensions"):
        tf.vmap(lambda _: FLAT[name]())(tf.ones([2]))


def test_a_scalar_has_no_axis_in_vmap_either() -> None:
    for function in (lambda v: tf.reduce_sum(v, axis=0), lambda v: tf.nn.l2_normalize(v, 0)):
        for call in (lambda f=function: f(tf.constant(1.5)), lambda f=function: tf.vmap(f)(x()[0])):
            with pytest.raises(ShapeError, match="axis 0 for a tensor of 0 dimensions"):
                call()

    assert tf.vmap(tf.argmax)(x()[0]).tolist() == [0, 0, 0]


DTYPES: dict[str, Callable[[], Any]] = {
    "softmax of integers": lambda: tf.nn.softmax(tf.constant([1, 2])),
    "log_softmax of booleans": lambda: tf.nn.log_softmax(tf.constant([True])),
    "one_hot of floats": lambda: tf.one_hot(tf.constant([1.5]), 3),
}


@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype_that_a_function_cannot_use_is_named(name: str) -> None:
    with pytest.raises(tf.errors.DTypeError, match=name.split()[0]):
        DTYPES[name]()


@pytest.mark.parametrize("value", ["abc", None, object(), {"a": 1}, ["a"]])
def test_what_no_tensor_can_hold_is_refused_by_the_name_of_its_argument(value: Any) -> None:
    with pytest.raises(TapegradError, match="argument x"):
        tf.nn.l2_normalize(value)
    with pytest.raises(TapegradError, match="argument a"):
        tnp.sum(value)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def itself() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


NO_TENSORS: dict[str, Callable[[], Any]] = {
    "a class of tensors": lambda: tf.Tensor,
    "a class of arrays": lambda: np.ndarray,
    "a deep list": lambda: nested(5000),
    "more dimensions than NumPy broadcasts": lambda: nested(60),
    "a list that contains itself": itself,
}
TAKERS: dict[str, Callable[[Any], Any]] = {
    "cos": tf.cos,
    "+": lambda value: x() + value,
    "numpy.sum": lambda value: tnp.add(x(), value),
    "keras.ops": lambda value: keras.ops.add(x(), value),
    "assert_near": lambda value: tf.debugging.assert_near(1.0, 1.0, atol=value),
    "grad": tf.grad,
    "Sequential": keras.Sequential,
    "apply_gradients": lambda value: keras.optimizers.SGD().apply_gradients(value),
    "from_dlpack": lambda value: tnp.from_dlpack(value),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("name", NO_TENSORS)
def test_what_is_nested_too_deeply_or_a_class_is_refused_in_words(name: str, taker: str) -> None:
    value = NO_TENSORS[name]()
    if taker == "grad" and isinstance(value, type):
        return  # a class can be called
    if name.startswith("more dimensions"):
        with contextlib.suppress(TapegradError):  # an empty array with 60 axes may be broadcast
            TAKERS[taker](value)
        return
    with pytest.raises(TapegradError) as raised:
        TAKERS[taker](value)
    assert len(str(raised.value)) < 500


def test_text_in_lists_is_not_read_as_digits_in_scipys_functions() -> None:
    with pytest.raises(TapegradError, match=r"argument z.* not numbers"):
        tf.scipy.special.gamma(["3"])
    with pytest.raises(TapegradError, match="different lengths"):
        tf.scipy.sparse.csr_array(np.eye(2)) @ [[1.0], [1.0, 2.0]]


def test_a_dtype_is_equal_to_no_array() -> None:
    assert tf.float32 != np.array([1, 2])


def test_there_is_no_program_for_a_generator() -> None:
    with pytest.raises(TapegradError, match="can be read only once"):
        tf.function(lambda value: value).program(one for one in [1])


@pytest.mark.parametrize("index", [nested(60), 0])
def test_items_that_no_tensor_can_hold_are_refused_in_words(index: Any) -> None:
    with pytest.raises(TapegradError):
        tnp.ones(3)[index] = tf.Tensor


def test_checks_and_messages_read_nothing_from_a_device() -> None:
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            on_device = tf.ones([2, 3])
            with strict.forbidding_reads():
                for call in (
                    lambda: tf.reshape(on_device, "32"),
                    lambda: tf.reduce_sum(on_device, axis=on_device),
                    lambda: tnp.sum(on_device, keepdims=on_device),
                    lambda: tf.nn.l2_normalize(on_device, epsilon="a"),
                    lambda: tf.split(tf.ones([]), 1),
                ):
                    with pytest.raises(TapegradError, match=r"argument|dimensions"):
                        call()
    finally:
        unregister_backend("strict")
