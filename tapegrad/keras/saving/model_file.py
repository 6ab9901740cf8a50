"""Whole models in one file: a zip archive with a description in JSON and arrays in safetensors."""

from __future__ import annotations

import json
import os
import struct
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.configured import keeping_objects
from tapegrad.keras.dtype_policies import dtype_policy, set_dtype_policy
from tapegrad.keras.registry import custom_object_scope
from tapegrad.keras.saving.atomic import StrPath, replacing
from tapegrad.keras.saving.objects import deserialize_keras_object, serialize_keras_object
from tapegrad.keras.saving.slots import labels_of, make_slots, slots_of
from tapegrad.keras.saving.tensor_file import TensorFile, tensor_chunks
from tapegrad.keras.saving.tracking import Tracked, track
from tapegrad.keras.saving.weights import assign_all, differences, shortened
from tapegrad.keras.symbolic import called_on_zeros
from tapegrad.ops.random_generator import Generator, get_global_generator
from tapegrad.optimizers.base import Optimizer

_ABOUT = {"format": "tapegrad.keras", "version": 1}
_KEYS = {"model", "dtype_policy", "called_with", "layers"}
_METADATA, _CONFIG = "metadata.json", "config.json"
_WEIGHTS, _STATE = "model.weights.safetensors", "state.safetensors"


def save_model(model: Any, filepath: StrPath, overwrite: bool = True) -> None:
    """Write a model, what it was compiled with and the state of its optimizer to a file.

    >>> import tempfile
    >>> from tapegrad.keras import Sequential, layers
    >>> model = Sequential([layers.Input((3,)), layers.Dense(2)], name="small")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/small.keras")
    ...     load_model(f"{folder}/small.keras").name
    'small'
    """
    path = Path(filepath)
    if path.suffix != ".keras":
        raise ArgumentError(
            f"The name of a file with a whole model ends in '.keras'. Got {str(path)!r}; "
            "save_weights writes only the weights, under any name."
        )
    if not overwrite and path.exists():
        raise ArgumentError(f"There is a file {str(path)!r} already, and overwrite=False.")
    config = description(model)
    with keeping_objects():
        given = model.get_compile_config()
    config["compile_config"] = serialize_keras_object(given)
    weights = model._named(is_saved=True)
    labels = {name: labels_of(one, weights) for name, one in _tracked(model).optimizers.items()}
    about = {**_ABOUT, "tapegrad_version": sys.modules["tapegrad"].__version__}
    parts = {
        _METADATA: [json.dumps(about).encode()],
        _CONFIG: [json.dumps(config).encode()],
        _WEIGHTS: tensor_chunks(weights),
        _STATE: tensor_chunks(_state(model, weights), {"optimizers": json.dumps(labels)}),
    }
    with replacing(path) as file, ZipFile(file, "w") as archive:
        for name, chunks in parts.items():
            with archive.open(name, "w", force_zip64=True) as part:
                for chunk in chunks:
                    part.write(chunk)


def load_model(
    filepath: StrPath,
    custom_objects: Mapping[str, Any] | None = None,
    compile: bool = True,
    safe_mode: bool = True,
) -> Any:
    """Make the model that `save_model` wrote; `custom_objects` are classes of yours by name.

    Files hold no code, so that both modes are safe. Training goes on as if never interrupted.

    >>> load_model("nowhere.keras")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: There is no file 'nowhere.keras'.
    """
    with _opened(filepath) as archive, custom_object_scope(custom_objects):
        config = json.loads(archive.read(_CONFIG))
        model = made_of(config)
        weights = model._named(is_saved=True)
        with _tensors(archive, _WEIGHTS) as file:
            _assign(weights, file, {*weights} ^ {*file})
        if compile and config["compile_config"]:
            _compile(model, config["compile_config"])
        with _tensors(archive, _STATE) as file:
            labels = json.loads(file.metadata["optimizers"])
            for name, optimizer in _tracked(model).optimizers.items():
                if name in labels:
                    make_slots(optimizer, labels[name], weights)
            # Slots that the file does not have were made by compiling: they are new there too.
            _assign(_state(model, weights), file, set())
    return model


def model_from_json(json_string: str, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Make a model from what `model.to_json` returned, with weights of its own.

    >>> from tapegrad.keras import Sequential, layers
    >>> model_from_json(Sequential([layers.Dense(2, name="last")]).to_json()).layers
    [<Dense name=last, built=False>]
    """
    with custom_object_scope(custom_objects):
        return made_of(json.loads(json_string))


def description(model: Any) -> dict[str, Any]:
    """Return how a model is made and built, as what JSON can hold."""
    if not hasattr(model, "get_compile_config"):
        raise ArgumentTypeError(f"Only models are saved. Got {type(model).__name__}.")
    called = model.__dict__.get("_called_with")
    if model.built and called is None and not hasattr(model, "inputs"):
        raise ArgumentError(
            f"Model {model.name!r} was built, but not by a call, and a file only knows calls. "
            "Call it on a batch first."
        )
    return {
        "model": serialize_keras_object(model),
        "dtype_policy": model.dtype_policy.name,
        "called_with": serialize_keras_object(called and called()),
        # Also what a program said to layers after it had made them.
        "layers": [[one.name, one._automatic, one.trainable] for one in _layers(model)],
    }


def made_of(config: Mapping[str, Any]) -> Any:
    """Make a model of its description; what weights are drawn from is as it was before."""
    if not isinstance(config, dict) or not config.keys() >= _KEYS:
        raise ArgumentError("This JSON describes no model: to_json() and save() write what does.")
    policy, random = dtype_policy(), get_global_generator().state
    before = random.value()
    set_dtype_policy(config["dtype_policy"])
    try:
        model = deserialize_keras_object(config["model"])
        called = deserialize_keras_object(config["called_with"])
        if called is not None and not model.built:
            called_on_zeros(model, called, 1)
    finally:
        set_dtype_policy(policy)
        random.assign(before, read_value=False)
    layers, notes = list(_layers(model)), config["layers"]
    if len(layers) != len(notes):
        raise ArgumentError(
            f"Model {model.name!r} had {len(notes)} layers when it was saved and has {len(layers)} "
            "now. Its classes must be what they were."
        )
    for layer, (name, automatic, trainable) in zip(layers, notes):
        layer._name, layer._automatic = name, automatic
        layer.trainable = trainable  # also of inner layers, whose turn comes after this one
    return model


def _layers(layer: Any) -> Iterator[Any]:
    yield layer
    for inner in layer._inner_layers():
        yield from _layers(inner)


def _compile(model: Any, config: Any) -> None:
    methods = type(model).compile, type(model).compile_from_config
    if [method.__module__.startswith("tapegrad.") for method in methods] == [False, True]:
        warnings.warn(
            f"{type(model).__name__} has a compile of its own and no compile_from_config, so that "
            "the model is not compiled.",
            stacklevel=3,
        )
        return
    model.compile_from_config(deserialize_keras_object(config))


def _tracked(model: Any) -> Tracked:
    return track({name: v for name, v in vars(model).items() if isinstance(v, Optimizer)})


def _state(model: Any, weights: Mapping[str, Variable]) -> dict[str, Variable]:
    """What training goes on from besides weights: optimizers, and generators of random layers."""
    values = [value for layer in _layers(model) for value in vars(layer).values()]
    generators = {id(one): one for one in values if isinstance(one, Generator)}.values()
    found = {f"~random/{number}": one.state for number, one in enumerate(generators)}
    tracked = _tracked(model)
    for name, optimizer in tracked.optimizers.items():
        found |= slots_of(name, optimizer, weights)
    return {**found, **tracked.variables}


def _assign(variables: Mapping[str, Variable], file: TensorFile, unpaired: set[str]) -> None:
    """Assign what is in the file, unless some of it does not fit or has no counterpart."""
    wrong = [*differences(variables, file.entries).values()]
    wrong += [f"{name!r} is only {'in the file' if name in file else 'here'}" for name in unpaired]
    if wrong:
        raise ArgumentError(
            f"The weights in {file.path!r} do not fit its model: {shortened(sorted(wrong))}. The "
            "classes of the model must be what they were when it was saved."
        )
    assign_all(variables, {name: file[name] for name in file if name in variables})


@contextmanager
def _opened(filepath: StrPath) -> Iterator[ZipFile]:
    path = os.fspath(filepath)
    if not os.path.isfile(path):
        raise ArgumentError(f"There is no file {path!r}.")
    with open(path, "rb") as file:
        try:
            archive = ZipFile(file)
            if archive.testzip() is not None:
                raise BadZipFile("its bytes are not those that were written")
            names = set(archive.namelist())
            about = json.loads(archive.read(_METADATA)) if _METADATA in names else None
        except (BadZipFile, EOFError, OSError, RuntimeError, ValueError, struct.error) as error:
            raise ArgumentError(
                f"{path!r} holds no model that can be read: {error}. It was cut off, damaged, or "
                "is of another kind; a file of weights goes to load_weights."
            ) from error
        if "model.weights.h5" in names:
            raise ArgumentError(
                f"{path!r} was written by Keras, with weights in HDF5, which tapegrad does not "
                "read. Make the model by its program, and give it Keras' get_weights()."
            )
        known = isinstance(about, dict) and {key: about.get(key) for key in _ABOUT} == _ABOUT
        if not known or not names >= {_CONFIG, _WEIGHTS, _STATE}:
            raise ArgumentError(
                f"{path!r} is an archive, but not one of a model as this tapegrad writes it "
                f"({_ABOUT}). It says of itself: {about}."
            )
        yield archive


def _tensors(archive: ZipFile, name: str) -> TensorFile:
    return TensorFile(str(archive.filename), archive.open(name), archive.getinfo(name).file_size)
