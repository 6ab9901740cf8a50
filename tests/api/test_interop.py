"""Memory shared with other libraries, on the CPU; tests/gpu has the same for CUDA."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend

# Tensor.dtype looks a dtype up among NumPy's first and asks the backend when it is not there.
pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

dlpack = tf.experimental.dlpack
LEAVES = "A tensor that a tape follows became an array of another library through __dlpack__"


@pytest.fixture(autouse=True)
def on_the_cpu():
    with tf.device("cpu"):
        yield


@pytest.fixture
def device_array():
    """A raw array of a backend that is not the host."""
    register_backend(strict.StrictBackend())
    with tf.device("strict:0"):
        yield tf.constant([1.0, 2.0]).array
    unregister_backend("strict")


class Elsewhere:
    """An array of some library on a device that is not ours."""

    def __init__(self, kind):
        self.kind = kind

    def __dlpack_device__(self):
        return (self.kind, 0)

    def __dlpack__(self, **_):
        raise BufferError("this one cannot be exported.")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float64", "complex64"])
def test_numpy_and_tensors_share_memory_both_ways(dtype):
    array = np.array([[0, 1], [1, 0]], dtype)

    x = dlpack.from_dlpack(array)
    back = np.from_dlpack(x)

    assert x.dtype == dtype
    assert np.shares_memory(x.array, array)
    assert np.shares_memory(back, array)


def test_a_capsule_is_taken_over_once():
    x = tf.constant([1.0, 2.0])
    capsule = dlpack.to_dlpack(x)

    y = dlpack.from_dlpack(capsule)

    assert np.shares_memory(x.array, y.array)
    with pytest.raises(TypeError, match="taken over once only"):
        dlpack.from_dlpack(capsule)


def test_a_versioned_capsule_says_its_device_too():
    capsule = np.ones(3).__dlpack__(max_version=(1, 0))

    assert dlpack.from_dlpack(capsule).numpy().tolist() == [1.0, 1.0, 1.0]


def test_scalars_and_variables_are_exported():
    v = tf.Variable([1.0, 2.0])

    assert np.from_dlpack(tf.reduce_sum(v)) == 3.0
    assert not np.shares_memory(np.from_dlpack(v), v.array)
    assert np.shares_memory(np.from_dlpack(v, copy=False), v.array)
    assert v.__dlpack_device__() == (1, 0)


def test_a_value_on_the_cpu_has_no_cuda_interface():
    for value in (tf.constant([1.0]), tf.Variable([1.0])):
        assert not hasattr(value, "__cuda_array_interface__")
        assert not hasattr(value, "__cupy_get_ndarray__")
    with pytest.raises(AttributeError, match="float32 on cpu has no __cuda_array_interface__"):
        _ = tf.constant([1.0]).__cuda_array_interface__


def test_a_watched_tensor_keeps_its_place_and_the_way_out_is_explained():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * 2.0
        with pytest.warns(UserWarning, match=LEAVES):
            foreign = dlpack.from_dlpack(np.from_dlpack(y) * 3.0)
        z = y * foreign

    assert tape.gradient(z, x).numpy().tolist() == [12.0, 24.0]
    assert tape.gradient(foreign, x) is None
    assert "left the tape through __dlpack__" in str(tape.explain(foreign, x))


@pytest.mark.parametrize("kind", [tf.constant, tf.Variable], ids=["tensor", "variable"])
def test_a_followed_value_that_goes_out_warns_once_per_place(kind):
    x = kind([1.0, 2.0])
    with warnings.catch_warnings(record=True) as caught, tf.GradientTape() as tape:
        warnings.simplefilter("default")
        tape.watch(x)
        for _ in range(3):
            np.from_dlpack(x)

    assert [str(each.message).split(":")[0] for each in caught] == [LEAVES]
    assert "give it tapegrad.stop_gradient(x) where" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_what_no_tape_follows_goes_out_in_silence():
    x, other = tf.constant([1.0]), tf.constant([2.0])

    @tf.custom_gradient
    def doubled(x):
        return dlpack.from_dlpack(np.from_dlpack(x) * 2.0), lambda upstream: upstream * 2.0

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = doubled(x)
        np.from_dlpack(other)
        np.from_dlpack(tf.stop_gradient(x))

    assert tape.gradient(y, x).numpy().tolist() == [2.0]


def test_libraries_that_ask_a_value_for_its_ufuncs_leave_operators_to_it():
    for value in (tf.constant([1.0]), tf.Variable([1.0])):
        assert value.__array_ufunc__ is None
        assert callable(type(value).__array_ufunc__)


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match="takes an array with __dlpack__"):
        dlpack.from_dlpack([1.0, 2.0])


def test_other_devices_are_named_by_their_number():
    with pytest.raises(ValueError, match=r"Got one on a device of DLPack's type 7"):
        dlpack.from_dlpack(Elsewhere(7))


def test_an_export_that_fails_becomes_a_sentence():
    with pytest.raises(
        TypeError, match=r"cannot take this Elsewhere: this one cannot be exported\."
    ):
        dlpack.from_dlpack(Elsewhere(1))


def test_an_array_on_a_device_without_backend_says_what_is_missing(monkeypatch):
    def unavailable(name):
        raise tf.errors.BackendUnavailableError("Backend 'cupy' needs CuPy.")

    monkeypatch.setattr("tapegrad.core.values.dlpack.backend_for", unavailable)
    with pytest.raises(RuntimeError, match="needs CuPy"):
        tf.convert_to_tensor(Elsewhere(2))


def test_a_devices_raw_array_becomes_a_tensor_without_a_copy(device_array):
    assert tf.convert_to_tensor(device_array).array is device_array
    assert (tf.constant([1.0, 1.0]) + device_array).numpy().tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "make",
    {
        "constant": tf.constant,
        "Variable": tf.Variable,
        "assign": lambda array: tf.Variable([0.0, 0.0]).assign(array),
    }.values(),
    ids=["constant", "Variable", "assign"],
)
def test_what_may_live_longer_copies_a_devices_raw_array(make, device_array):
    value = make(device_array)

    device_array[0] = 9.0

    assert value.device == "strict:0"
    assert value.numpy().tolist() == [1.0, 2.0]


def test_a_devices_raw_array_is_cast_on_its_device(device_array):
    with tf.debug.transfers("raise"):
        for make in (tf.convert_to_tensor, tf.constant, tf.Variable):
            assert make(device_array, dtype="float64").dtype == tf.float64


def test_a_devices_raw_array_serves_as_index(device_array):
    index = tf.constant([1, 0, 1]).array

    with tf.debug.transfers("raise"):
        picked = tf.constant([5.0, 6.0])[index]

    assert picked.numpy().tolist() == [6.0, 5.0, 6.0]


def test_numpys_questions_take_variables():
    one, other = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 3.0])

    assert np.array_equal(one, one)
    assert not np.array_equal(one, other)
    assert np.allclose(one, tf.Variable([1.0, 2.0 + 1e-7]))
