"""Memory that another library can write: no write reaches what a tape has saved."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tests.raw_arrays import raw_arrays

from_dlpack = tf.experimental.dlpack.from_dlpack


def imported(array):
    return from_dlpack(array)


def imported_by_numpy(array):
    return tnp.from_dlpack(array)


def shared_by_asarray(array):
    return tnp.asarray(array, copy=False)


def slice_of_imported(array):
    return from_dlpack(array)[:]


def reshaped_import(array):
    return tf.reshape(from_dlpack(array), (3, 1))[:, 0]


def identity_of_import(array):
    return tf.identity(from_dlpack(array))


IMPORTS = [
    imported,
    imported_by_numpy,
    shared_by_asarray,
    slice_of_imported,
    reshaped_import,
    identity_of_import,
]


@pytest.mark.parametrize("import_", IMPORTS)
def test_a_tape_keeps_the_values_that_it_saved(import_):
    array = raw_arrays().array([1.0, 2.0, 3.0])
    shared = import_(array)
    w = tf.Variable([1.0, 1.0, 1.0], dtype="float64")
    with tf.GradientTape() as tape:
        y = w * shared
    array[...] = 100.0

    assert tape.gradient(y, w).numpy().tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("import_", IMPORTS)
def test_a_watched_import_keeps_its_values(import_):
    array = raw_arrays().array([1.0, 2.0, 3.0])
    x = import_(array)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    array[...] = 100.0

    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0, 6.0]


def test_a_function_under_a_tape_keeps_its_arguments():
    array = raw_arrays().array([1.0, 2.0])
    shared = from_dlpack(array)
    w = tf.Variable([1.0, 1.0], dtype="float64")
    step = tf.function(lambda x: w * x)
    for _ in range(2):
        array[...] = raw_arrays().array([1.0, 2.0])
        with tf.GradientTape() as tape:
            y = step(shared)
        array[...] = 100.0
        assert tape.gradient(y, w).numpy().tolist() == [1.0, 2.0]
        shared = from_dlpack(array)


def test_a_result_of_a_function_that_is_its_argument_is_copied_when_a_tape_uses_it():
    array = raw_arrays().array([1.0, 2.0])
    w = tf.Variable([1.0, 1.0], dtype="float64")
    same = tf.function(lambda x: (x, x[:1]))
    for _ in range(2):
        array[...] = raw_arrays().array([1.0, 2.0])
        whole, part = same(from_dlpack(array))
        with tf.GradientTape() as tape:
            y = w * whole + w[0] * part[0]
        array[...] = 100.0
        assert tape.gradient(y, w).numpy().tolist() == [3.0, 2.0]


def test_a_function_takes_raw_arrays_as_inputs():
    runs = []
    double = tf.function(lambda x: (runs.append(1), x * 2.0)[1])
    for k in range(3):
        array = raw_arrays().array([float(k)])
        assert double(from_dlpack(array)).numpy() == double(array).numpy() == [2.0 * k]
    assert len(runs) == 1


def test_a_gradient_does_not_share_the_memory_of_its_seed():
    seed, x = raw_arrays().array([1.0, 2.0]), tf.constant([1.0, 2.0], dtype="float64")
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x + 1.0
    gradient = tape.gradient(y, x, from_dlpack(seed))
    seed[...] = 9.0

    assert gradient.numpy().tolist() == [1.0, 2.0]


def test_memory_is_shared_without_a_tape():
    array = raw_arrays().array([1.0, 2.0])
    x = from_dlpack(array)
    part = x[1:]
    array[1] = 9.0

    assert x.numpy().tolist() == [1.0, 9.0]
    assert part.numpy().tolist() == [9.0]


def test_a_variable_does_not_share_the_memory_of_an_import():
    array = raw_arrays().array([1.0, 2.0])
    v, w = tf.Variable(from_dlpack(array)), tf.Variable([0.0, 0.0], dtype="float64")
    w.assign(from_dlpack(array))
    array[...] = 9.0

    assert v.numpy().tolist() == w.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("copy", [tnp.copy, tnp.array, lambda x: x.copy(), lambda x: x.flatten()])
def test_a_copy_of_an_import_has_memory_of_its_own(copy):
    array = raw_arrays().array([1.0, 2.0])
    copied = copy(from_dlpack(array))
    array[...] = 9.0

    assert copied.numpy().tolist() == [1.0, 2.0]


# Exports


def test_an_export_shares_memory_that_nothing_else_holds():
    x = tf.constant([1.0, 2.0])
    array = raw_arrays().from_dlpack(x)
    writable(array)[0] = 9.0

    assert x.numpy().tolist() == [9.0, 2.0]


def writable(array):
    """NumPy imports host memory of others as read-only; torch and CuPy do not."""
    if not isinstance(array, np.ndarray):
        return array
    address, _ = array.__array_interface__["data"]
    interface = {**array.__array_interface__, "data": (address, False)}
    holder = type("Holder", (), {"__array_interface__": interface, "keeps": array})()
    return np.asarray(holder)


def test_an_export_does_not_expose_what_a_tape_saved():
    x, w = tf.constant([1.0, 2.0]), tf.Variable([1.0, 1.0])
    with tf.GradientTape() as tape:
        y = w * x
    array = writable(raw_arrays().from_dlpack(x))
    array[...] = 9.0

    assert x.numpy().tolist() == [9.0, 9.0]
    assert tape.gradient(y, w).numpy().tolist() == [1.0, 2.0]


def test_an_export_does_not_expose_other_tensors():
    x = tf.constant([1.0, 2.0])
    part, same, v = x[:1], tf.identity(x), tf.Variable(x)
    writable(raw_arrays().from_dlpack(x))[...] = 9.0
    writable(raw_arrays().from_dlpack(v))[...] = 7.0

    assert part.numpy().tolist() == [1.0]
    assert same.numpy().tolist() == v.numpy().tolist() == [1.0, 2.0]


def test_an_exported_tensor_is_copied_when_a_tape_uses_it():
    x, w = tf.constant([1.0, 2.0]), tf.Variable([1.0, 1.0])
    array = writable(raw_arrays().from_dlpack(x))
    with tf.GradientTape() as tape:
        y = w * x
    array[...] = 9.0

    assert tape.gradient(y, w).numpy().tolist() == [1.0, 2.0]


def test_copy_false_shares_the_memory_as_it_is():
    v = tf.Variable([1.0, 2.0])
    exported = raw_arrays().from_dlpack(v, copy=False)

    assert raw_arrays().shares_memory(exported, v.array)
