"""Model files: errors on saving and loading, after which nothing has changed."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tapegrad import keras
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras import Input, Model, Sequential, layers
from tapegrad.keras.models import load_model, model_from_json, save_model
from tests.keras.test_model_files import Scaled, X, same, stacked


class Undescribed(Model):
    def __init__(self, unknown: Any = object) -> None:
        super().__init__()
        self.line = layers.Dense(2)

    def call(self, inputs: Any) -> Any:
        return self.line(inputs)


class Unknown(layers.Dense):
    pass


def called(model: Any) -> Any:
    model(X)
    return model


def compiled_with(loss: Any) -> Any:
    model = Sequential([Input((4,)), layers.Dense(2)])
    model.compile("sgd", loss)
    return model


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: called(Undescribed()),
            r"Undescribed '.*Define get_config .* or use save_weights\.",
        ),
        (lambda: Sequential([Undescribed()]), "Define get_config"),
        (lambda: Sequential([Scaled(layers.Dense(2), object())]), "'factor' of Scaled.* object"),
        (lambda: layers.Dense(2), "Only models can be saved. Got Dense"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_on_saving(
    make: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match=sentence):
        save_model(make(), tmp_path / "model.keras")

    assert list(tmp_path.iterdir()) == []


def test_a_function_is_named_and_never_called() -> None:
    record = {"module": "keras.activations", "class_name": "relu", "config": [1.0]}

    assert keras.saving.deserialize_keras_object(record) is keras.activations.relu


def test_a_schedule_without_a_configuration_is_refused(tmp_path: Path) -> None:
    class Falling:
        def __call__(self, step: Any) -> Any:
            return 0.1

    model = compiled_with("mse")
    model.optimizer = keras.optimizers.SGD(Falling())

    with pytest.raises(ArgumentTypeError, match=r"'learning_rate' of SGD .* is a Falling"):
        model.save(tmp_path / "model.keras")


def test_a_model_that_was_built_without_a_call_is_refused(tmp_path: Path) -> None:
    class Built(Model):
        def build(self, input_shape: Any) -> None:
            self.factor = self.add_weight((input_shape[-1],), name="factor")

        def call(self, inputs: Any) -> Any:
            return inputs * self.factor

    model = Built()
    model.build((None, 4))
    with pytest.raises(ArgumentError, match="call the model on a batch first"):
        model.save(tmp_path / "model.keras")


def test_an_unknown_class_is_named(tmp_path: Path) -> None:
    model = Sequential([Input((4,)), Unknown(2)])
    model.save(tmp_path / "model.keras")

    with pytest.raises(ArgumentError, match=r"no 'Unknown'.*custom_objects=.*register_keras_seri"):
        load_model(tmp_path / "model.keras")

    loaded = load_model(tmp_path / "model.keras", {"Unknown": Unknown})
    same(loaded.get_weights(), model.get_weights())


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("operator", "attrgetter"),
        ("keras.layers.core", "Callable"),
        ("keras.saving", "load_model"),
        ("keras.models", "save_model"),
        ("keras.losses", "deserialize"),
        ("keras.layers", "Input"),
        ("tests.keras.test_model_file_refusals", "Unknown"),
        (["keras.layers"], "Dense"),
    ],
)
def test_a_file_cannot_name_anything_else(module: Any, name: str) -> None:
    record = {"module": module, "class_name": name, "config": {}}
    for crafted in (record, {"class_name": "__name__", "config": record}):
        with pytest.raises(ArgumentError, match=f"tapegrad.keras has no {name!r}"):
            keras.saving.deserialize_keras_object([crafted])
    with pytest.raises(ArgumentError, match=r"tapegrad.keras has no 'Unknown'"):
        keras.saving.deserialize_keras_object({"class_name": "Unknown", "config": {}})


@pytest.mark.parametrize("name", ["model", "model.keras.zip"])
def test_another_suffix_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"must end in '\.keras'"):
        stacked().save(tmp_path / name)


def test_nothing_is_overwritten_unless_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    stacked().save(path, overwrite=False)
    before = path.read_bytes()

    with pytest.raises(ArgumentError, match=r"already exists, and overwrite=False"):
        stacked().save(str(path), overwrite=False)

    assert path.read_bytes() == before


def test_a_crash_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.keras"
    stacked().save(path)
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"no space left"):
        stacked().save(path)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_was_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    model, path = stacked(), tmp_path / "model.keras"
    model.compile("adam", "mse")
    model.save(path)
    whole = path.read_bytes()

    for size in [*range(0, len(whole), 97), *range(len(whole) - 60, len(whole))]:
        path.write_bytes(whole[:size])
        with pytest.raises(ArgumentError, match=r"model.keras' is not a readable model|is damaged"):
            load_model(path)


def test_changed_bytes_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    stacked().save(path)
    whole = path.read_bytes()
    weights = whole.index(b"kernel")

    for place in (weights, whole.index(b'"units"'), weights + 2000):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ArgumentError, match=r"model.keras' is (not a readable model|damaged)"):
            load_model(path)


def archive_with(path: Path, **parts: Any) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name.replace("__", "."), content)
    return path


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.keras"
    with pytest.raises(ArgumentError, match=r"does not exist"):
        load_model(path)
    with pytest.raises(ArgumentError, match=r"is a folder without a model"):
        load_model(tmp_path)
    stacked().save_weights(path)
    with pytest.raises(ArgumentError, match=r"is not a readable model.*load_weights"):
        load_model(path)
    with pytest.raises(ArgumentError, match=r"an archive, but not a model file"):
        load_model(archive_with(path, notes__txt="hello"))
    with pytest.raises(ArgumentError, match=r"an archive, but not a model file"):
        load_model(archive_with(path, metadata__json="[]"))
    with pytest.raises(ArgumentError, match=r"is not a readable model"):
        load_model(archive_with(path, metadata__json="{"))
    with pytest.raises(ArgumentError, match=r"config\.json is not JSON"):
        load_model(archive_with(path, metadata__json="{}", model__weights__h5="", config__json=""))
    with pytest.raises(ArgumentError, match=r"JSON is not a model"):
        model_from_json("{}")


def rewritten(path: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change one of the JSON files in an archive."""
    with zipfile.ZipFile(path) as archive:
        parts = {one: archive.read(one) for one in archive.namelist()}
    parts[name] = json.dumps(change(json.loads(parts[name]))).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for one, content in parts.items():
            archive.writestr(one, content)


def test_weights_that_do_not_fit_and_other_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.keras"

    def wider(config: Any) -> Any:
        config["model"]["config"]["layers"][-1]["config"]["units"] = 5
        return config

    def worse(config: Any) -> Any:
        config["model"]["config"]["layers"][-1]["config"]["units"] = "many"
        return config

    stacked().save(path)
    rewritten(path, "config.json", wider)
    with pytest.raises(ArgumentError, match=r"do not match.*float32\[8, 5\] here.*\[8, 2\] in the"):
        load_model(path)
    rewritten(path, "config.json", worse)
    with pytest.raises(ArgumentError, match=r"Dense 'last' cannot be recreated.*'many'"):
        load_model(path)
    rewritten(path, "config.json", lambda config: {**config, "layers": []})
    with pytest.raises(ArgumentError, match=r"'many'|had 0 layers when it was saved"):
        load_model(path)
    rewritten(path, "metadata.json", lambda about: {**about, "version": 2})
    with pytest.raises(ArgumentError, match=r"metadata is.*'version': 2"):
        load_model(path)


def test_a_class_without_get_config_is_not_registered() -> None:
    with pytest.raises(ArgumentTypeError, match=r"Plain has none"):

        @keras.saving.register_keras_serializable()
        class Plain:
            pass
