"""Model files: a zip archive with a JSON description and arrays in safetensors format."""

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

from tapegrad.core.values.variable import Variable
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
from tapegrad.ops.random.generator import Generator, get_global_generator
from tapegrad.optimizers.base import Optimizer

_ABOUT = {"format": "tapegrad.keras", "version": 1}
_KEYS = {"model", "dtype_policy", "called_with", "layers"}
_METADATA, _CONFIG = "metadata.json", "config.json"
_WEIGHTS, _STATE = "model.weights.safetensors", "state.safetensors"


def save_model(model: Any, filepath: StrPath, overwrite: bool = True) -> None:
    """Write a model, its compile arguments and the state of its optimizer to a file.

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
            f"The path of a whole model must end in '.keras'. Got {str(path)!r}; save_weights "
            "writes only the weights, under any name."
        )
    if not overwrite and path.exists():
        raise ArgumentError(f"File {str(path)!r} already exists, and overwrite=False.")
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
    """Load a model that `save_model` wrote; `custom_objects` are user-defined classes by name.

    Files hold no code, so `safe_mode` is ignored. Training continues as if it was never
    interrupted.

    >>> load_model("nowhere.keras")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: File 'nowhere.keras' does not exist.
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
            # Slots that are not in the file were created by compiling and keep initial values.
            _assign(_state(model, weights), file, set())
    return model


def model_from_json(json_string: str, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Create a model from the result of `model.to_json`, with new weights.

    >>> from tapegrad.keras import Sequential, layers
    >>> model_from_json(Sequential([layers.Dense(2, name="last")]).to_json()).layers
    [<Dense name=last, built=False>]
    """
    with custom_object_scope(custom_objects):
        return made_of(json.loads(json_string))


def description(model: Any) -> dict[str, Any]:
    """Return the configuration and the call arguments of a model as JSON values."""
    if not hasattr(model, "get_compile_config"):
        raise ArgumentTypeError(f"Only models can be saved. Got {type(model).__name__}.")
    called = model.__dict__.get("_called_with")
    if model.built and called is None and not hasattr(model, "inputs"):
        raise ArgumentError(
            f"Model {model.name!r} was built, but not by a call. A file stores the arguments of "
            "that call: call the model on a batch first."
        )
    return {
        "model": serialize_keras_object(model),
        "dtype_policy": model.dtype_policy.name,
        "called_with": serialize_keras_object(called and called()),
        # Attributes of layers that may have changed after construction.
        "layers": [[one.name, one._automatic, one.trainable] for one in _layers(model)],
    }


def made_of(config: Mapping[str, Any]) -> Any:
    """Create a model from its description; the global random state is restored afterwards."""
    if not isinstance(config, dict) or not config.keys() >= _KEYS:
        raise ArgumentError("This JSON is not a model. Use JSON from to_json() or save().")
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
            "now. Its classes must be the same as at that time."
        )
    for layer, (name, automatic, trainable) in zip(layers, notes):
        layer._name, layer._automatic = name, automatic
        layer.trainable = trainable  # also sets it on sublayers, which come later in the loop
    return model


def _layers(layer: Any) -> Iterator[Any]:
    yield layer
    for inner in layer._inner_layers():
        yield from _layers(inner)


def _compile(model: Any, config: Any) -> None:
    methods = type(model).compile, type(model).compile_from_config
    if [method.__module__.startswith("tapegrad.") for method in methods] == [False, True]:
        warnings.warn(
            f"{type(model).__name__} overrides compile but not compile_from_config, so the model "
            "is not compiled.",
            stacklevel=3,
        )
        return
    model.compile_from_config(deserialize_keras_object(config))


def _tracked(model: Any) -> Tracked:
    return track({name: v for name, v in vars(model).items() if isinstance(v, Optimizer)})


def _state(model: Any, weights: Mapping[str, Variable]) -> dict[str, Variable]:
    """Return the training state besides weights: optimizers, and generators of random layers."""
    values = [value for layer in _layers(model) for value in vars(layer).values()]
    generators = {id(one): one for one in values if isinstance(one, Generator)}.values()
    found = {f"~random/{number}": one.state for number, one in enumerate(generators)}
    tracked = _tracked(model)
    for name, optimizer in tracked.optimizers.items():
        found |= slots_of(name, optimizer, weights)
    return {**found, **tracked.variables}


def _assign(variables: Mapping[str, Variable], file: TensorFile, unpaired: set[str]) -> None:
    """Assign the arrays of a file, or raise if any does not match or has no counterpart."""
    wrong = [*differences(variables, file.entries).values()]
    wrong += [f"{name!r} is only {'in the file' if name in file else 'here'}" for name in unpaired]
    if wrong:
        raise ArgumentError(
            f"The weights in {file.path!r} do not match its model: {shortened(sorted(wrong))}. The "
            "classes of the model must be the same as when it was saved."
        )
    assign_all(variables, {name: file[name] for name in file if name in variables})


@contextmanager
def _opened(filepath: StrPath) -> Iterator[ZipFile]:
    path = os.fspath(filepath)
    if not os.path.isfile(path):
        raise ArgumentError(f"File {path!r} does not exist.")
    with open(path, "rb") as file:
        try:
            archive = ZipFile(file)
            if archive.testzip() is not None:
                raise BadZipFile("a checksum does not match")
            names = set(archive.namelist())
            about = json.loads(archive.read(_METADATA)) if _METADATA in names else None
        except (BadZipFile, EOFError, OSError, RuntimeError, ValueError, struct.error) as error:
            raise ArgumentError(
                f"{path!r} is not a readable model file: {error}. It is truncated, damaged, or of "
                "another kind; use load_weights for a file of weights."
            ) from error
        if "model.weights.h5" in names:
            raise ArgumentError(
                f"{path!r} was written by Keras, with weights in HDF5, which tapegrad does not "
                "read. Create the model with its code, and set the weights from get_weights() in "
                "Keras."
            )
        known = isinstance(about, dict) and {key: about.get(key) for key in _ABOUT} == _ABOUT
        if not known or not names >= {_CONFIG, _WEIGHTS, _STATE}:
            raise ArgumentError(
                f"{path!r} is an archive, but not a model file of this tapegrad ({_ABOUT}). Its "
                f"metadata is: {about}."
            )
        yield archive


def _tensors(archive: ZipFile, name: str) -> TensorFile:
    return TensorFile(str(archive.filename), archive.open(name), archive.getinfo(name).file_size)
