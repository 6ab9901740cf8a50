"""Model files: a zip archive with a JSON description and arrays in safetensors format."""

from __future__ import annotations

import json
import lzma
import os
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, LargeZipFile, ZipFile

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.call_site import warn_outside
from tapegrad.core.files.atomic import StrPath, replacing
from tapegrad.core.files.formats import (
    damage_explained,
    member_problem,
    parse_json,
    read_start,
    refuse,
)
from tapegrad.core.files.limits import count, limited
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, FileFormatError
from tapegrad.keras.configured import keeping_objects
from tapegrad.keras.dtype_policies import dtype_policy, set_dtype_policy
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.registry import custom_object_scope
from tapegrad.keras.saving.archive_weights import H5_WEIGHTS, INDEX, IndexedArrays, h5_part
from tapegrad.keras.saving.assets import asset_parts, load_assets
from tapegrad.keras.saving.hdf5 import HDF5Arrays, has_h5py, is_hdf5, is_hdf5_name, reading
from tapegrad.keras.saving.keras_file import KERAS_VERSION, keras_model_record, model_of
from tapegrad.keras.saving.objects import deserialize_keras_object, serialize_keras_object
from tapegrad.keras.saving.own_stores import load_stores, store_parts
from tapegrad.keras.saving.slots import are_labels, labels_of, make_slots, slots_of
from tapegrad.keras.saving.tensor_file import TensorFile, tensor_chunks
from tapegrad.keras.saving.tracking import Tracked, track
from tapegrad.keras.saving.weights import assign_all, differences, load_from, shortened
from tapegrad.keras.saving.weights_h5 import assign_optimizer, assign_weights
from tapegrad.keras.saving.whole_h5 import load_model_h5, save_model_h5
from tapegrad.keras.symbolic import called_on_zeros
from tapegrad.ops.random.generator import Generator, get_global_generator
from tapegrad.optimizers.base import Optimizer

_ABOUT = {"format": "tapegrad.keras", "version": 1}
_MOST_METADATA = 2**16
_KEYS = {"model", "dtype_policy", "called_with", "layers"}
_METADATA, _CONFIG = "metadata.json", "config.json"
_IN_FOLDER = "model.keras"
_WEIGHTS, _STATE = "model.weights.safetensors", "state.safetensors"


def save_model(
    model: Any,
    filepath: StrPath,
    overwrite: bool = True,
    include_optimizer: bool = True,
    save_format: str | None = None,
    zipped: bool | None = None,
) -> None:
    """Write a model, its compile arguments and the state of its optimizer to a file.

    With `save_format="tf"` it is a folder that `tapegrad.saved_model.load` reads as well.
    `include_optimizer` has no effect.

    >>> import tempfile
    >>> from tapegrad.keras import Sequential, layers
    >>> model = Sequential([layers.Input((3,)), layers.Dense(2)], name="small")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/small.keras")
    ...     load_model(f"{folder}/small.keras").name
    'small'
    """
    path = Path(filepath)
    if zipped is False:
        raise ArgumentError("A model file is one archive. Got zipped=False.")
    if save_format is not None:
        check_choice("save_format", save_format, ("keras", "h5", "tf"))
    if save_format == "tf":
        _save_folder(model, path, overwrite)
        return
    if path.suffix != ".keras" and not is_hdf5_name(path):
        raise ArgumentError(
            f"The path of a whole model must end in '.keras', or in '.h5' for an HDF5 file. Got "
            f"{str(path)!r}; save_weights writes only the weights, under any name."
        )
    if not overwrite and path.exists():
        raise ArgumentError(f"File {str(path)!r} already exists, and overwrite=False.")
    if is_hdf5_name(path):
        save_model_h5(model, path)
        return
    config = description(model)
    with keeping_objects():
        given = model.get_compile_config()
    config["compile_config"] = serialize_keras_object(given)
    weights = model._named(is_saved=True)
    labels = {name: labels_of(one, weights) for name, one in _tracked(model).optimizers.items()}
    about = {**_ABOUT, "tapegrad_version": sys.modules["tapegrad"].__version__}
    state = _state(model, weights)
    parts: dict[str, Iterable[Any]] = {**asset_parts(model), **store_parts(model)}
    with ExitStack() as stack:
        if has_h5py():
            about["keras_version"] = KERAS_VERSION
            config |= keras_model_record(model)
            part = stack.enter_context(h5_part(model, weights=weights, state=state))
            parts |= {H5_WEIGHTS: part.chunks, INDEX: [json.dumps(part.places).encode()]}
            state = {name: v for name, v in state.items() if name not in part.places["state"]}
        if H5_WEIGHTS not in parts or {*part.places["weights"]} != {*weights}:
            parts[_WEIGHTS] = tensor_chunks(weights)
        parts[_STATE] = tensor_chunks(state, {"optimizers": json.dumps(labels)})
        parts[_METADATA], parts[_CONFIG] = (
            [json.dumps(about).encode()],
            [json.dumps(config).encode()],
        )
        with replacing(path) as file, ZipFile(file, "w") as archive:
            for name in sorted(parts):
                with archive.open(name, "w", force_zip64=True) as member:
                    for chunk in parts[name]:
                        member.write(chunk)


def _save_folder(model: Any, path: Path, overwrite: bool) -> None:
    if not overwrite and path.exists():
        raise ArgumentError(f"{str(path)!r} already exists, and overwrite=False.")
    try:
        model.export(path)
    except ArgumentError as error:
        path.mkdir(parents=True, exist_ok=True)
        warn_outside(f"{str(path)!r} holds the model for load_model alone. {error}")
    save_model(model, path / _IN_FOLDER)


def load_model(
    filepath: StrPath,
    custom_objects: Mapping[str, Any] | None = None,
    compile: bool = True,
    safe_mode: bool = True,
) -> Any:
    """Load a model that `save_model` wrote; `custom_objects` are user-defined classes by name.

    Files hold no code. The description of the model is compared with its weights, and the work of
    loading is limited, unless `safe_mode` is False. Training continues as if it was never
    interrupted.

    >>> load_model("nowhere.keras")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: File 'nowhere.keras' does not exist.
    """
    path = os.fspath(filepath)
    if os.path.isdir(path):
        path = os.path.join(path, _IN_FOLDER)
        if not os.path.isfile(path):
            raise ArgumentError(
                f"{os.fspath(filepath)!r} is a folder without a model of Keras. Use "
                "tapegrad.saved_model.load, or keras.layers.TFSMLayer."
            )
    if is_hdf5(path):
        return load_model_h5(path, custom_objects, compile, safe_mode)
    with _opened(path) as archive, custom_object_scope(custom_objects):
        config = parse_json(archive.read(_CONFIG), path, _CONFIG)
        if not _is_ours(_about(archive)):
            return _model_of_keras(archive, config, compile, safe_mode)
        with _weights_in(archive) as file:
            # Before the model is built, which allocates its weights.
            sizes = [count(entry.shape) for entry in file.entries.values()]
            guard = limited(f"The model in {path!r}", sizes) if safe_mode else nullcontext()
            with guard, damage_explained(path, "the description of its model"):
                model = made_of(config)
                weights = model._named(is_saved=True)
                _assign(weights, file, {*weights} ^ {*file})
                if compile and config.get("compile_config"):
                    _compile(model, config["compile_config"])
        with _tensors(archive, _STATE) as file, damage_explained(path, "its training state"):
            labels = _labels_in(file)
            for name, optimizer in _tracked(model).optimizers.items():
                if name in labels:
                    make_slots(optimizer, labels[name], weights)
            # Slots that are not in the file were created by compiling and keep initial values.
            state = _state(model, weights)
            _assign(state, file, set())
        if INDEX in archive.namelist():
            with IndexedArrays(archive, "state") as indexed:
                _assign(state, indexed, set())
        load_assets(model, archive)
        load_stores(model, archive)
    return model


def _model_of_keras(archive: ZipFile, config: Any, compile: bool, safe_mode: bool) -> Any:
    """Load a model from a file that Keras wrote."""
    path = str(archive.filename)
    with archive.open(H5_WEIGHTS) as member, reading(path, member) as file:
        model = _built(config, file, safe_mode)
        assign_weights(model, file)
        if compile and config.get("compile_config"):
            with damage_explained(path, "its compile arguments"):
                _compile(model, config["compile_config"])
            assign_optimizer(model, file)
    load_assets(model, archive)
    load_stores(model, archive)
    return model


def _built(config: Any, file: HDF5Arrays, safe_mode: bool) -> Any:
    """Create the model of a configuration of Keras; limited by the weights in the file."""
    sizes = [count(entry.shape) for entry in file.entries.values()]
    guard = limited(f"The model in {file.path!r}", sizes) if safe_mode else nullcontext()
    with guard, damage_explained(file.path, "the description of its model"):
        return model_of(config)


def load_model_weights(model: Any, filepath: StrPath, skip_mismatch: bool = False) -> None:
    """Assign the weights of a model file to the variables of another model of the same kind."""
    with _opened(os.fspath(filepath)) as archive:
        if not _is_ours(_about(archive)):
            with archive.open(H5_WEIGHTS) as member, reading(filepath, member) as stored:
                assign_weights(model, stored, skip_mismatch)
            return
        with _weights_in(archive) as file:
            load_from(model._named(is_saved=True), file, skip_mismatch)


def _labels_in(file: TensorFile) -> dict[str, Any]:
    labels = parse_json(file.metadata.get("optimizers", ""), file.path, "the list of optimizers")
    for one in labels.values() if isinstance(labels, dict) else [labels]:
        if not are_labels(one):
            refuse(file.path, "its list of optimizers is damaged")
    return dict(labels)


def model_from_json(json_string: str, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Create a model from the result of `model.to_json`, with new weights.

    >>> from tapegrad.keras import Sequential, layers
    >>> model_from_json(Sequential([layers.Dense(2, name="last")]).to_json()).layers
    [<Dense name=last, built=False>]
    """
    what = "The JSON of the model"
    config = parse_json(json_string, "json_string", "this text")
    with custom_object_scope(custom_objects), limited(what), damage_explained("json_string", "it"):
        return made_of(config)


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
        raise FileFormatError("This JSON is not a model. Use JSON from to_json() or save().")
    notes = config["layers"]
    if not isinstance(notes, list) or not all(map(_is_note, notes)):
        raise FileFormatError("The list of layers in this JSON is damaged.")
    policy, random = dtype_policy(), get_global_generator().state
    before = random.read_value()
    set_dtype_policy(config["dtype_policy"])
    try:
        model = deserialize_keras_object(config["model"])
        called = deserialize_keras_object(config["called_with"])
        if called is not None and not model.built:
            called_on_zeros(model, called, 1)
    finally:
        set_dtype_policy(policy)
        random.assign(before, read_value=False)
    if not isinstance(model, Layer):
        raise FileFormatError(f"This JSON describes a {type(model).__name__} and not a model.")
    layers = list(_layers(model))
    if len(layers) != len(notes):
        raise ArgumentError(
            f"Model {model.name!r} had {len(notes)} layers when it was saved and has {len(layers)} "
            "now. Its classes must be the same as at that time."
        )
    for layer, (name, automatic, trainable) in zip(layers, notes):
        layer._name, layer._automatic = name, automatic
        layer.trainable = trainable  # also sets it on sublayers, which come later in the loop
    return model


def _is_note(note: Any) -> bool:
    """Whether this is the name of a layer, its automatic name, and whether it is trainable."""
    return isinstance(note, list) and [type(part) for part in note] == [str, str, bool]


def _layers(layer: Any) -> Iterator[Any]:
    yield layer
    for inner in layer._inner_layers():
        yield from _layers(inner)


def _compile(model: Any, config: Any) -> None:
    methods = type(model).compile, type(model).compile_from_config
    if [method.__module__.startswith("tapegrad.") for method in methods] == [False, True]:
        warn_outside(
            f"{type(model).__name__} overrides compile but not compile_from_config, so the model "
            "is not compiled.",
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
def _opened(path: str) -> Iterator[ZipFile]:
    if not os.path.isfile(path):
        raise ArgumentError(f"File {path!r} does not exist.")
    with open(path, "rb") as file:
        try:
            archive = ZipFile(file)
            names = set(archive.namelist())
            about = _about(archive) if _METADATA in names else None
            problem = member_problem(archive, os.fstat(file.fileno()).st_size)
            is_model = _is_ours(about) or H5_WEIGHTS in names
            if is_model and problem is not None:
                raise BadZipFile(problem)
            if is_model and archive.testzip() is not None:
                raise BadZipFile("a checksum does not match")
        except (*_UNREADABLE, EOFError, OSError, RuntimeError, ValueError, LookupError) as error:
            raise FileFormatError(
                f"{path!r} is not a readable model file: {error}. It is truncated, damaged, or of "
                "another kind; use load_weights for a file of weights."
            ) from error
        has_weights = _WEIGHTS in names or {H5_WEIGHTS, INDEX} <= names
        is_ours = _is_ours(about) and has_weights and {_CONFIG, _STATE} <= names
        is_of_keras = isinstance(about, dict) and "format" not in about
        if not is_ours and not (is_of_keras and {H5_WEIGHTS, _CONFIG} <= names):
            raise ArgumentError(
                f"{path!r} is an archive, but not a model file of this tapegrad ({_ABOUT}). Its "
                f"metadata is: {about!r:.500}."
            )
        yield archive


_UNREADABLE = (BadZipFile, LargeZipFile, struct.error, zlib.error, lzma.LZMAError)


def _about(archive: ZipFile) -> Any:
    return json.loads(read_start(archive, _METADATA, _MOST_METADATA))


def _is_ours(about: Any) -> bool:
    return isinstance(about, dict) and {key: about.get(key) for key in _ABOUT} == _ABOUT


def _weights_in(archive: ZipFile) -> TensorFile:
    is_safetensors = _WEIGHTS in archive.namelist()
    return _tensors(archive, _WEIGHTS) if is_safetensors else IndexedArrays(archive, "weights")


def _tensors(archive: ZipFile, name: str) -> TensorFile:
    return TensorFile(str(archive.filename), archive.open(name), archive.getinfo(name).file_size)
