"""Weight files: variables are loaded by name, all or none, each on its device."""

import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.saving import TensorFile, load_weights, save_weights


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.safetensors"


@pytest.fixture
def device():
    """A device that is not the host, as a GPU is none."""
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


def model(scale):
    return {
        "dense/kernel": tf.Variable(np.full((2, 3), scale, "float32")),
        "dense/bias": tf.Variable(np.full(3, scale, "float64")),
        "steps": tf.Variable(int(scale), dtype="int64"),
    }


def numbers(variables):
    return {name: variable.numpy().tolist() for name, variable in variables.items()}


def test_saved_weights_come_back_to_other_variables_of_the_same_names(path):
    old, new = model(2.0), model(0.0)

    save_weights(old, path, {"epoch": "7"})
    load_weights(dict(reversed(new.items())), path)

    assert numbers(new) == numbers(old)
    with TensorFile(path) as file:
        assert file.metadata == {"epoch": "7"}


def test_bfloat16_and_complex_variables_come_back(path):
    old = {
        "half": tf.Variable(np.array([1.5, -2], ml_dtypes.bfloat16)),
        "wave": tf.Variable(np.array([1 + 2j], "complex128")),
    }
    new = {
        "half": tf.Variable(np.zeros(2, ml_dtypes.bfloat16)),
        "wave": tf.Variable(np.zeros(1, "complex128")),
    }

    save_weights(old, path)
    load_weights(new, path)

    assert new["half"].dtype == "bfloat16"
    assert new["half"].numpy().astype("float32").tolist() == [1.5, -2.0]
    assert new["wave"].numpy().tolist() == [1 + 2j]


def test_all_mismatches_are_listed_in_one_error_and_no_variable_changes(path):
    save_weights({**model(2.0), "old/kernel": tf.Variable(1.0)}, path)
    here = model(0.0)
    here["dense/kernel"] = tf.Variable(np.zeros((3, 3), "float32"))
    here["dense/bias"] = tf.Variable(np.zeros(3, "float32"))
    here["new/kernel"] = tf.Variable(0.0)
    before = numbers(here)

    with pytest.raises(ArgumentError) as caught:
        load_weights(here, path)

    message = str(caught.value)
    assert str(path) in message
    assert "Missing in the file: new/kernel. " in message
    assert "Only in the file: old/kernel. " in message
    assert "'dense/kernel' is float32[3, 3] here and float32[2, 3] in the file" in message
    assert "'dense/bias' is float32[3] here and float64[3] in the file" in message
    assert numbers(here) == before


def test_of_many_mismatches_ten_are_shown_and_the_others_counted(path):
    save_weights({f"old{n:02}": tf.Variable(1.0) for n in range(12)}, path)

    with pytest.raises(ArgumentError) as caught:
        load_weights({f"new{n:02}": tf.Variable(1.0) for n in range(11)}, path)

    message = str(caught.value)
    assert "new09 and 1 more." in message
    assert "old09 and 2 more." in message
    assert "new10" not in message
    assert "old10" not in message


def test_what_does_not_fit_is_skipped_if_asked_for_and_named(path):
    save_weights({"a": tf.Variable([1.0]), "b": tf.Variable(2.0), "d": tf.Variable(3.0)}, path)
    here = {"a": tf.Variable([4.0, 5.0]), "b": tf.Variable(0.0), "c": tf.Variable(0.0)}

    with pytest.warns(UserWarning, match="Missing in the file: c. Only in the file: d. ") as told:
        load_weights(here, path, skip_mismatch=True)

    assert "'a' is float32[2] here and float32[1] in the file" in str(told[0].message)
    assert here["a"].numpy().tolist() == [4.0, 5.0]
    assert (float(here["b"]), float(here["c"])) == (2.0, 0.0)


def test_a_second_model_of_the_same_kind_gets_the_weights_of_the_first(path):
    def make() -> tf.keras.Sequential:
        layers = tf.keras.layers
        inner = tf.keras.Sequential([layers.Dense(2), layers.BatchNormalization()])
        model = tf.keras.Sequential([layers.Dense(3), inner, layers.Dense(2), layers.Dense(1)])
        model(tf.zeros((1, 4)))
        return model

    first, second = make(), make()
    first.save_weights(path)

    second.load_weights(path)

    for one, other in zip(first.variables, second.variables, strict=True):
        assert one.numpy().tolist() == other.numpy().tolist()


def test_weights_must_be_variables(path):
    with pytest.raises(ArgumentTypeError, match="Got Tensor for 'a'"):
        save_weights({"a": tf.constant(1.0)}, path)


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_values_leave_their_device_once_and_go_back_to_it(path, device):
    with tf.device(device):
        variables = {"a": tf.Variable([1.0, 2.0]), "b": tf.Variable([[3, 4]])}
    there = {"a": tf.Variable([0.0, 0.0]), "b": tf.Variable([[0, 0]])}

    with tf.debug.transfers("count") as seen:
        save_weights(variables, path)
    for variable in variables.values():
        variable.assign(variable * 0)
    load_weights(variables, path)
    load_weights(there, path)

    assert seen.count == 2
    assert {variable.device for variable in variables.values()} == {device}
    assert numbers(variables) == numbers(there) == {"a": [1.0, 2.0], "b": [[3, 4]]}
