"""Files of Keras: those that Keras 3.15.1 wrote load here, and ours have the same layout."""

from __future__ import annotations

import builtins
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tapegrad import keras
from tapegrad.errors import ArgumentError, BackendUnavailableError, FileFormatError
from tapegrad.keras import layers
from tapegrad.keras.models import load_model
from tests.keras.interchange_models import (
    FOLDER,
    MODELS,
    inputs,
    outputs,
    trained,
    with_other_weights,
)

OF_KERAS = np.load(FOLDER / "outputs.npz")
WHOLE = [f"{name}.keras" for name in MODELS] + ["stack.h5", "recurrent.h5", "images.h5"]


def assert_outputs(model: Any, name: str) -> None:
    for number, found in enumerate(outputs(model, name)):
        np.testing.assert_allclose(found, OF_KERAS[f"{name}{number}"], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("file", WHOLE)
def test_models_that_keras_saved_load_here(file: str) -> None:
    assert_outputs(load_model(FOLDER / file), file.split(".")[0])


@pytest.mark.parametrize("name", MODELS)
def test_weights_that_keras_saved_load_here(name: str) -> None:
    model = with_other_weights(MODELS[name](keras), 7)
    model.load_weights(FOLDER / f"{name}.weights.h5")
    assert_outputs(model, name)

    model = with_other_weights(MODELS[name](keras), 8)
    model.load_weights(FOLDER / f"{name}.keras")
    assert_outputs(model, name)


@pytest.mark.parametrize("file", ["stack.keras", "stack.h5"])
def test_training_of_a_model_of_keras_goes_on(file: str) -> None:
    losses = trained(load_model(FOLDER / file))

    np.testing.assert_allclose(losses, OF_KERAS["losses"], rtol=1e-5)


def arrays(file: Any) -> dict[str, tuple[Any, ...]]:
    found = {}

    def visit(name: str, value: Any) -> None:
        if isinstance(value, h5py.Dataset):
            found[name] = value.shape, value.dtype

    file.visititems(visit)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_our_weight_files_have_the_layout_of_keras(name: str, tmp_path: Path) -> None:
    model = with_other_weights(MODELS[name](keras), 7)
    model.load_weights(FOLDER / f"{name}.weights.h5")
    if name == "stack":
        trained(model)
    model.save_weights(tmp_path / "a.weights.h5")

    paths = tmp_path / "a.weights.h5", FOLDER / f"{name}.weights.h5"
    with h5py.File(paths[0]) as ours, h5py.File(paths[1]) as theirs:
        assert arrays(ours) == arrays(theirs)
        for path in arrays(ours) if name != "stack" else ():
            np.testing.assert_array_equal(ours[path][()], theirs[path][()])


def described(record: Any) -> list[str]:
    """The classes in a description, without those that only one of both writes."""
    if isinstance(record, list):
        return [name for one in record for name in described(one)]
    if not isinstance(record, dict):
        return []
    inner = [name for key in ("layers", "config", "layer") for name in described(record.get(key))]
    own = [record["class_name"]] if "inbound_nodes" in record else []
    return own + inner


@pytest.mark.parametrize("name", ["graph", "nested", "attention"])
def test_our_model_files_describe_the_graph_as_keras_does(name: str, tmp_path: Path) -> None:
    MODELS[name](keras).save(tmp_path / "a.keras")

    found = []
    for path in (tmp_path / "a.keras", FOLDER / f"{name}.keras"):
        with zipfile.ZipFile(path) as archive:
            assert {"config.json", "metadata.json", "model.weights.h5"} <= {*archive.namelist()}
            found.append(json.loads(archive.read("config.json")))
    renamed = {"GroupedQueryAttention": "GroupQueryAttention"}
    theirs = [renamed.get(name, name) for name in described(found[1]["config"])]
    assert sorted(described(found[0]["config"])) == sorted(theirs)
    assert found[0]["class_name"] == found[1]["class_name"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("suffix", ["keras", "h5", "weights.h5"])
def test_our_own_files_come_back(name: str, suffix: str, tmp_path: Path) -> None:
    model = with_other_weights(MODELS[name](keras), 4)
    path = tmp_path / f"a.{suffix}"
    if suffix == "weights.h5":
        model.save_weights(path)
        again = with_other_weights(MODELS[name](keras), 5)
        again.load_weights(path)
    else:
        model.save(path)
        again = load_model(path)

    for one, other in zip(outputs(again, name), outputs(model, name), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_our_model_files_are_read_without_h5py(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS["stack"](keras)
    trained(model)
    model.save(tmp_path / "a.keras")
    without_h5py(monkeypatch)

    again = load_model(tmp_path / "a.keras")

    assert trained(again) == trained(model)
    again.save(tmp_path / "b.keras")
    with zipfile.ZipFile(tmp_path / "b.keras") as archive:
        assert "model.weights.h5" not in archive.namelist()


def without_h5py(monkeypatch: pytest.MonkeyPatch) -> None:
    find = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "h5py":
            raise ImportError(name)
        return find(name, *args, **kwargs)

    monkeypatch.setattr("tapegrad.keras.saving.hdf5.importlib.import_module", refuse)


def test_a_missing_h5py_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["nested"](keras)
    without_h5py(monkeypatch)

    for use in (
        lambda: model.save(tmp_path / "a.h5"),
        lambda: model.save_weights(tmp_path / "a.weights.h5"),
        lambda: model.load_weights(FOLDER / "nested.weights.h5"),
        lambda: load_model(FOLDER / "nested.keras"),
        lambda: load_model(FOLDER / "stack.h5"),
    ):
        with pytest.raises(BackendUnavailableError, match=r"needs the package h5py.*pip install"):
            use()
    assert not list(tmp_path.iterdir())


def test_weights_of_half_precision_come_back(tmp_path: Path) -> None:
    def make() -> Any:
        return keras.Sequential([keras.Input((3,)), layers.Dense(2, dtype="bfloat16")])

    model, again = make(), make()
    model.save_weights(tmp_path / "a.weights.h5")
    again.load_weights(tmp_path / "a.weights.h5")

    assert again.weights[0].dtype.name == "bfloat16"
    for one, other in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    with h5py.File(tmp_path / "a.weights.h5") as file:
        assert file["layers/dense/vars/0"].attrs["dtype"] == "bfloat16"


def test_layers_in_attributes_have_the_paths_of_keras(tmp_path: Path) -> None:
    class Block(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.stack = [layers.Dense(2), layers.Dense(2)]
            self.norms = {"n": layers.LayerNormalization()}
            self._last = layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self._last(self.norms["n"](self.stack[1](self.stack[0](x))))

    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.zero = Block(), layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.zero(self.body(x))

    model = Net()
    model(np.ones((1, 2), "float32"))
    model.save_weights(tmp_path / "a.weights.h5")

    # Attributes come in alphabetical order, so that "layers" comes before "zero".
    with h5py.File(tmp_path / "a.weights.h5") as file:
        assert {path.rpartition("/vars/")[0] for path in arrays(file)} == {
            *("body/stack/dense", "body/stack/dense_1", "body/norms/layer_normalization"),
            *("body/_last", "layers/dense"),
        }


def test_files_that_do_not_fit_change_nothing() -> None:
    model = with_other_weights(MODELS["stack"](keras), 2)
    before = model.get_weights()

    with pytest.raises(ArgumentError, match=r"do not match, and nothing was loaded.*conv2d"):
        model.load_weights(FOLDER / "images.weights.h5")
    with pytest.raises(FileFormatError, match=r"weights of 4 layers, and model .* has 3 layers"):
        model.load_weights(FOLDER / "images.h5")

    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_links_to_other_files_are_refused(tmp_path: Path) -> None:
    model = MODELS["stack"](keras)
    path = tmp_path / "a.weights.h5"
    model.save_weights(path)
    with h5py.File(path, "a") as file:
        file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "/")
    with pytest.raises(FileFormatError, match=r"elsewhere is a link to another place"):
        model.load_weights(path)

    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(FileFormatError, match=r"is not a readable HDF5 file"):
        model.load_weights(path)


def test_code_in_a_file_of_keras_is_not_run(tmp_path: Path) -> None:
    def with_lambda(config: Any) -> Any:
        code = {"class_name": "__lambda__", "config": {"value": ["4wEAAAA=", None, None]}}
        config["config"]["layers"][1]["config"]["activation"] = code
        return config

    rewritten(FOLDER / "stack.keras", tmp_path / "a.keras", with_lambda)
    with pytest.raises(ArgumentError, match=r"holds a lambda, which is Python code"):
        load_model(tmp_path / "a.keras")


def test_arguments_that_are_unknown_here_are_named(tmp_path: Path) -> None:
    def with_new(config: Any) -> Any:
        config["config"]["layers"][1]["config"]["speed"] = 3
        return config

    rewritten(FOLDER / "stack.keras", tmp_path / "a.keras", with_new)
    with pytest.raises(ArgumentError, match=r"Dense of tapegrad.keras does not have speed=3"):
        load_model(tmp_path / "a.keras")


def rewritten(source: Path, target: Path, change: Any) -> None:
    with zipfile.ZipFile(source) as archive:
        parts = {one: archive.read(one) for one in archive.namelist()}
    parts["config.json"] = json.dumps(change(json.loads(parts["config.json"]))).encode()
    with zipfile.ZipFile(target, "w") as archive:
        for one, content in parts.items():
            archive.writestr(one, content)


def test_models_of_keras_2_load(tmp_path: Path) -> None:
    """Keras 2 writes calls as lists, and shapes of inputs under another name."""
    model = with_other_weights(
        keras.Sequential([keras.Input((3,)), layers.Dense(2, name="d")], name="s"), 3
    )
    model.save(tmp_path / "a.h5")
    dense = {"class_name": "Dense", "config": {"name": "d", "units": 2, "activation": "linear"}}
    first = {"batch_input_shape": [None, 3], "dtype": "float32", "sparse": False, "name": "x"}
    config = {
        "name": "m",
        "layers": [
            {"class_name": "InputLayer", "config": first, "name": "x", "inbound_nodes": []},
            {**dense, "name": "d", "inbound_nodes": [[["x", 0, 0, {}]]]},
        ],
        "input_layers": [["x", 0, 0]],
        "output_layers": [["d", 0, 0]],
    }
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Functional", "config": config})

    x = np.ones((2, 3), "float32")
    np.testing.assert_allclose(load_model(tmp_path / "a.h5")(x), model(x))


def test_a_subclassed_model_is_not_written_to_h5(tmp_path: Path) -> None:
    class Net(keras.Model):
        def call(self, x: Any) -> Any:
            return x

    with pytest.raises(ArgumentError, match=r"Sequential and functional models only.*\.keras"):
        Net().save(tmp_path / "a.h5")


def test_inputs_of_the_files_are_those_of_the_tests() -> None:
    assert {*MODELS} == {path.name.removesuffix(".keras") for path in FOLDER.glob("*.keras")}
    assert inputs("recurrent").shape == (3, 4)
