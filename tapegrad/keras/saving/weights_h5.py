"""Weights in HDF5 files: the layout of Keras 3, and the older one with a group for each layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tapegrad.core.call_site import warn_outside
from tapegrad.core.files.atomic import StrPath
from tapegrad.core.values.variable import Variable
from tapegrad.errors import FileFormatError
from tapegrad.keras.saving.hdf5 import Group, HDF5Arrays, put, reading, texts, writing
from tapegrad.keras.saving.layer_paths import layer_groups, named_by_path
from tapegrad.keras.saving.optimizer_order import optimizer_variables
from tapegrad.keras.saving.tensor_header import Entry
from tapegrad.keras.saving.weights import assign_all, differences, load_from

_OPTIMIZER = "optimizer"
_WHOLE_MODEL = "model_weights"
_BEFORE_THE_FIRST_STEP = ("iterations", "learning_rate")


def save_weights_h5(model: Any, path: StrPath) -> None:
    """Write the weights of a model to an HDF5 file that Keras 3 reads.

    A name that ends in ".weights.h5" gets the layout of Keras 3, any other one the older layout.
    """
    with writing(path) as file:
        if str(path).endswith(".weights.h5"):
            write_groups(file, saved_groups(model))
        else:
            write_old_groups(file, model)


def load_weights_h5(model: Any, path: StrPath, skip_mismatch: bool = False) -> None:
    """Assign the arrays of an HDF5 file to the weights of a model, all or none."""
    with reading(path) as file:
        assign_weights(model, file, skip_mismatch)
        optimizer = getattr(model, "optimizer", None)
        if optimizer is not None and optimizer._slots:
            assign_optimizer(model, file)


def assign_weights(model: Any, file: HDF5Arrays, skip_mismatch: bool = False) -> None:
    """Assign the arrays of an open HDF5 file of either layout to the weights of a model."""
    root = _WHOLE_MODEL if _WHOLE_MODEL in file.attributes else ""
    if file.text(root, "layer_names") is not None:
        variables = _old_pairs(model, file, root)
        load_from(variables, _Cast(file, variables, lambda name: name in variables), skip_mismatch)
        return
    variables = named_by_path(layer_groups(model))
    load_from(variables, _Cast(file, variables), skip_mismatch)


def saved_groups(model: Any) -> dict[str, Group]:
    """Return the variables of a model and its optimizer by their paths in files of Keras 3."""
    groups = layer_groups(model)
    optimizer: Any = getattr(model, "optimizer", None)
    found = None if optimizer is None else optimizer_variables(optimizer)
    if found is not None:
        groups[_OPTIMIZER] = Group(optimizer.name, found)
    return groups


def write_groups(file: Any, groups: Mapping[str, Group]) -> dict[str, Any]:
    """Write variables to an open HDF5 file, and return its arrays by path."""
    written = {}
    for path, group in groups.items():
        place = file.create_group(f"{path}/vars" if path else "vars")
        place.attrs["name"] = group.name
        for number, variable in enumerate(group.variables):
            value = variable.numpy()
            if value.dtype == np.int64 and path == _OPTIMIZER:
                value = value.astype(np.int32)  # Keras counts steps in 32 bits
            written[f"{path}/vars/{number}".lstrip("/")] = put(place, str(number), value)
    return written


def assign_optimizer(model: Any, file: HDF5Arrays) -> None:
    """Assign the state of the optimizer, if the file has one and the model is compiled."""
    stored = [name for name in file if _is_of_optimizer(name)]
    if stored and getattr(model, "optimizer", None) is not None:
        names = [f"{_OPTIMIZER}/vars/{number}" for number in range(len(stored))]
        assign_in_order(model, names, file)


def assign_in_order(model: Any, names: list[str], file: HDF5Arrays) -> None:
    """Assign arrays of these names to the state of the optimizer, or warn that they do not fit."""
    optimizer = model.optimizer
    optimizer.build(model.trainable_variables)
    state = optimizer_variables(optimizer) or []
    if len(names) <= len(_BEFORE_THE_FIRST_STEP):
        state = state[: len(names)]
    variables = dict(zip(names, state))
    cast = _Cast(file, variables, lambda name: name in variables)
    fits = len(names) == len(state) and not differences(variables, cast.entries)
    if not fits or variables.keys() != cast.entries.keys():
        warn_outside(
            f"The state of optimizer {optimizer.name!r} was not loaded: {file.path!r} has "
            f"{len(names)} arrays for it, and it has {len(state)} variables of other shapes.",
        )
        return
    assign_all(variables, {name: cast[name] for name in variables})


class _Cast:
    """The arrays of a file that belong to these variables, in the dtypes of the variables.

    Keras also casts numbers to the dtype of the variable.
    """

    def __init__(
        self,
        file: HDF5Arrays,
        variables: Mapping[str, Variable],
        is_meant: Callable[[str], bool] | None = None,
    ) -> None:
        self._file, self._variables, self.path = file, variables, file.path
        is_meant = is_meant or _is_weight
        entries = {name: entry for name, entry in file.entries.items() if is_meant(name)}
        self.entries = {name: self._entry(name, entry) for name, entry in entries.items()}

    def _entry(self, name: str, entry: Entry) -> Entry:
        variable = self._variables.get(name)
        if variable is None:
            return entry
        kinds = {_kind(entry.dtype), _kind(variable.dtype.name)}
        return entry._replace(dtype=variable.dtype.name) if len(kinds) == 1 else entry

    def __getitem__(self, name: str) -> np.ndarray:
        value = self._file[name]
        return value.astype(self._variables[name].dtype.dtype, copy=False)

    def __iter__(self) -> Any:
        return iter(sorted(self.entries))

    def __contains__(self, name: object) -> bool:
        return name in self.entries


def _is_weight(name: str) -> bool:
    return not _is_of_optimizer(name) and "seed_generator/" not in name


def _is_of_optimizer(name: str) -> bool:
    return name.startswith(f"{_OPTIMIZER}/vars/")


def _kind(dtype: str) -> str:
    return dtype.rstrip("0123456789").removeprefix("b").removeprefix("u")


def write_old_groups(file: Any, model: Any) -> None:
    """Write weights as Keras 2 did: a group for each layer, with the names of its weights."""
    layers = model.layers
    file.attrs["layer_names"] = texts([layer.name for layer in layers])
    file.attrs["backend"], file.attrs["keras_version"] = "tapegrad", "3.15.1"
    for layer in layers:
        group = file.create_group(layer.name)
        names = _unique([f"{layer.name}/{v.name.removesuffix(':0')}" for v in _old_order(layer)])
        group.attrs["weight_names"] = texts(names)
        for name, variable in zip(names, _old_order(layer)):
            put(group, name, variable.numpy())
    top = file.create_group("top_level_model_weights")
    top.attrs["weight_names"] = texts([])


def _unique(names: list[str]) -> list[str]:
    return [f"{name}_{names[:i].count(name)}" if name in names[:i] else name
            for i, name in enumerate(names)]  # fmt: skip


def _old_order(layer: Any) -> list[Variable]:
    return [*layer.trainable_variables, *layer.non_trainable_variables]


def _old_pairs(model: Any, file: HDF5Arrays, root: str) -> dict[str, Variable]:
    """Return the variables of a model by the paths of their arrays, layer after layer."""
    prefix = f"{root}/" if root else ""
    stored = []
    for name in file.text(root, "layer_names"):
        weights = file.text(f"{prefix}{name}", "weight_names") or []
        if weights:
            stored.append((name, [f"{prefix}{name}/{weight}" for weight in weights]))
    layers = [layer for layer in model.layers if layer.variables]
    if len(stored) != len(layers):
        raise FileFormatError(
            f"{file.path!r} has weights of {len(stored)} layers, and model {model.name!r} has "
            f"{len(layers)} layers with weights. Build the same model as the one that was saved."
        )
    pairs: dict[str, Variable] = {}
    for layer, (name, paths) in zip(layers, stored):
        variables = _old_order(layer)
        if len(variables) != len(paths):
            raise FileFormatError(
                f"{file.path!r} has {len(paths)} weights of layer {name!r}, and layer "
                f"{layer.name!r} of the model has {len(variables)}. Build the same model as the "
                "one that was saved."
            )
        pairs.update(zip(paths, variables))
    return pairs
