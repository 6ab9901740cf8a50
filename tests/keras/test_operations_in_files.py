"""Operations of functional models: operators of symbolic tensors, and their records in files."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapegrad import keras

X = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")

OPERATORS: dict[str, Callable[[Any], Any]] = {
    "!=": lambda x: x != 0,
    "and": lambda x: (x > -1) & (x < 1),
    "or": lambda x: (x < -1) | (x > 1),
    "xor": lambda x: (x > -1) ^ (x > 1),
    "not": lambda x: ~(x > 0),
    "round": lambda x: round(x),
    "reshape": lambda x: x.reshape((-1, 3, 2)),
    "squeeze": lambda x: x[:, None].squeeze(1),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_of_symbolic_tensors(name: str, tmp_path: Path) -> None:
    function = OPERATORS[name]
    x = keras.Input((6,))
    model = keras.Model(x, function(x))
    model.save(tmp_path / "model.keras")

    wanted = np.round(X) if name == "round" else function(X)
    for one in (model, keras.models.load_model(tmp_path / "model.keras")):
        found = np.asarray(one(X))
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_a_mask_of_a_comparison_is_an_input_of_a_layer() -> None:
    class Masked(keras.layers.Layer):  # type: ignore[misc]
        def call(self, source: Any, source_mask: Any) -> Any:
            return source * keras.ops.cast(source_mask[:, :, None], "float32")

    numbers = keras.Input((None,), dtype="int32")
    rows = keras.layers.Embedding(5, 3)(numbers)
    model = keras.Model(numbers, Masked()(source=rows, source_mask=numbers != 0))

    found = np.asarray(model(np.array([[1, 0, 2]])))
    assert model.output_shape == (None, None, 3)
    assert (found != 0).all(axis=2).tolist() == [[True, False, True]]


# What the constructors of Keras 3.15's operations are called with, and their positional arguments.
RECORDS: dict[str, tuple[Callable[[Any], Any], str, dict[str, Any], int]] = {
    "reshape": (lambda x: keras.ops.reshape(x, (-1, 3)), "Reshape", {"newshape": [-1, 3]}, 1),
    "tile": (lambda x: keras.ops.tile(x, (1, 2)), "Tile", {"repeats": [1, 2]}, 1),
    "clip": (lambda x: keras.ops.clip(x, 0, 1), "Clip", {"x_min": 0, "x_max": 1}, 1),
    "slice": (lambda x: keras.ops.slice(x, [0, 1], [4, 2]), "Slice", {"shape": [4, 2]}, 2),
    "einsum": (
        lambda x: keras.ops.einsum("bi,bj->bij", x, x), "Einsum", {"subscripts": "bi,bj->bij"}, 2,
    ),
    "full_like": (lambda x: keras.ops.full_like(x, 2.0), "FullLike", {}, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDS)
def test_records_have_the_arguments_of_keras(name: str, tmp_path: Path) -> None:
    function, kind, options, operands = RECORDS[name]
    x = keras.Input(batch_shape=(4, 6))
    keras.Model(x, function(x)).save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as archive:
        record = json.loads(archive.read("config.json"))["config"]["layers"][1]

    config = {key: value for key, value in record["config"].items() if key != "name"}
    assert (record["class_name"], config) == (kind, options)
    assert len(record["inbound_nodes"][0]["args"]) == operands
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(X), function(X))
