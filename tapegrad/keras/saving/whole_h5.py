"""Whole models in HDF5 files, as Keras writes them for names that end in ".h5"."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from tapegrad.core.files.atomic import StrPath
from tapegrad.core.files.formats import damage_explained, parse_json
from tapegrad.core.files.limits import count, limited
from tapegrad.errors import ArgumentError
from tapegrad.keras.registry import custom_object_scope
from tapegrad.keras.saving.hdf5 import HDF5Arrays, put, reading, texts, writing
from tapegrad.keras.saving.keras_file import KERAS_VERSION, keras_model_record, model_of
from tapegrad.keras.saving.objects import deserialize_keras_object
from tapegrad.keras.saving.optimizer_order import optimizer_variables
from tapegrad.keras.saving.weights_h5 import assign_in_order, assign_weights, write_old_groups

_MODEL, _TRAINING = "model_config", "training_config"
_WEIGHTS, _OPTIMIZER = "model_weights", "optimizer_weights"


def save_model_h5(model: Any, path: StrPath) -> None:
    """Write a Sequential or functional model with its training state to an HDF5 file."""
    if not hasattr(model, "inputs"):
        raise ArgumentError(
            f"An HDF5 file can hold Sequential and functional models only, and {model.name!r} is a "
            f"{type(model).__name__}. Save it to a name that ends in '.keras', or its weights to "
            "one that ends in '.weights.h5'."
        )
    record = keras_model_record(model)
    given = dict(record.pop("compile_config"))
    optimizer: Any = getattr(model, "optimizer", None)
    with writing(path) as file:
        file.attrs["keras_version"], file.attrs["backend"] = KERAS_VERSION, "tapegrad"
        file.attrs[_MODEL] = json.dumps(record)
        if given:
            training = {**_EMPTY, **given, "optimizer_config": given.pop("optimizer", None)}
            training.pop("optimizer", None)
            file.attrs[_TRAINING] = json.dumps(training)
        write_old_groups(file.create_group(_WEIGHTS), model)
        variables = None if optimizer is None else optimizer_variables(optimizer)
        if variables:
            _write_state(file.create_group(_OPTIMIZER), optimizer.name, variables)


_EMPTY = dict.fromkeys(("loss", "metrics", "weighted_metrics", "loss_weights"))


def _write_state(group: Any, optimizer: str, variables: Any) -> None:
    names = [f"{optimizer}/{number}" for number in range(len(variables))]
    group.attrs["weight_names"] = texts(names)
    for name, variable in zip(names, variables):
        put(group, name, variable.numpy())


def load_model_h5(
    path: StrPath, custom_objects: Mapping[str, Any] | None, compile: bool, safe_mode: bool
) -> Any:
    """Load a model from an HDF5 file that Keras or `save_model_h5` wrote."""
    with reading(path) as file, custom_object_scope(custom_objects):
        config = file.text("", _MODEL)
        if config is None:
            raise ArgumentError(
                f"{file.path!r} has no description of a model. Create the model with its code, and "
                "load the weights with load_weights."
            )
        record = _with_modules(parse_json(config, file.path, _MODEL))
        sizes = [count(entry.shape) for entry in file.entries.values()]
        guard = limited(f"The model in {file.path!r}", sizes) if safe_mode else nullcontext()
        with guard, damage_explained(file.path, "the description of its model"):
            model = model_of(record)
            assign_weights(model, file)
        if compile and file.text("", _TRAINING) is not None:
            with damage_explained(file.path, "its compile arguments"):
                _compile(model, file)
            _assign_state(model, file)
    return model


def _compile(model: Any, file: HDF5Arrays) -> None:
    given = parse_json(file.text("", _TRAINING), file.path, _TRAINING)
    given["optimizer"] = given.pop("optimizer_config", None)
    known = {name: value for name, value in given.items() if name not in ("sample_weight_mode",)}
    model.compile_from_config(deserialize_keras_object(_with_modules(known)))


def _assign_state(model: Any, file: HDF5Arrays) -> None:
    names = file.text(_OPTIMIZER, "weight_names") if _OPTIMIZER in file.attributes else None
    if names and model.optimizer is not None:
        assign_in_order(model, [f"{_OPTIMIZER}/{name}" for name in names], file)


def _with_modules(value: Any) -> Any:
    """Mark the records of older files, which do not say where their classes are."""
    if isinstance(value, list):
        return [_with_modules(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _with_modules(one) for key, one in value.items()}
    is_record = isinstance(found.get("class_name"), str) and "config" in found
    return {"module": None, **found} if is_record else found
