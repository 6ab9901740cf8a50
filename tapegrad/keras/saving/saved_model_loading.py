"""Read what `saved_model.save` wrote: an object with the same variables and functions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tapegrad.core.files.atomic import StrPath
from tapegrad.core.files.formats import damage_explained, parse_json, refuse
from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, FileFormatError
from tapegrad.keras.saving.saved_model import FORMAT, GLOBAL_RANDOM, PROGRAMS
from tapegrad.keras.saving.signature import Signature
from tapegrad.keras.saving.tensor_file import TensorFile
from tapegrad.ops.random.generator import get_global_generator
from tapegrad.program.saved.extensions import decoded, parts_of
from tapegrad.program.saved.saved_function import SavedFunction

_MOST_BYTES = 2**30


class SavedObject:
    """A part of what was saved: variables, functions and further parts are its attributes."""

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables of this part and of those in it."""
        found: dict[int, Variable] = {}
        for value in vars(self).values():
            inner = value.variables if isinstance(value, SavedObject) else (value,)
            found.update((v.number, v) for v in inner if isinstance(v, Variable))
        return tuple(found.values())

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(variable for variable in self.variables if variable.trainable)

    def __getitem__(self, key: Any) -> Any:
        return vars(self)[str(key)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = vars(self).get("__call__")
        if function is None:
            raise ArgumentError(
                "This object was saved without a function `__call__`. Decorate the method with "
                "tapegrad.function, and give it an input_signature or call it before it is saved."
            )
        return function(*args, **kwargs)


class LoadedModel(SavedObject):
    """What `saved_model.load` returns; `signatures` has the functions for serving by name."""

    signatures: dict[str, Any]

    @property
    def functions(self) -> dict[str, RestoredFunction]:
        """The functions of the object itself by name."""
        found = vars(self).items()
        return {name: value for name, value in found if isinstance(value, RestoredFunction)}


class RestoredFunction:
    """A function for the arguments with which it was saved."""

    def __init__(self, name: str, trees: Sequence[Any], arrays: Any, variables: Any) -> None:
        self._name = name
        self._candidates = [
            (SavedFunction(name, tree, arrays, variables), tree["arguments"]) for tree in trees
        ]
        self._names = self._candidates[0][0].names
        for candidate, template in self._candidates:
            positional, by_name = template["tuple"]
            parts = {"list": positional["tuple"]}, {"dict": by_name["dict"]}
            tensors = [number for part in parts for number in _tensors(part)]
            if sorted(tensors) != [*range(len(candidate.input_signature))]:
                raise FileFormatError(f"The arguments of {name!r:.60} are damaged.")

    @property
    def input_signature(self) -> Any:
        """The shapes and dtypes of the tensors of the first saved call."""
        return self._candidates[0][0].input_signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        by_name = dict(kwargs)
        for candidate, template in self._candidates:
            found = _matched(template, args, by_name, self._names, candidate)
            if found is not None:
                return candidate(*found)
        known = "; ".join(str(one.input_signature) for one, _ in self._candidates)
        leaves = [_described(one) for one in nest.flatten((args, kwargs))]
        raise ArgumentError(
            f"{self._name!r} was saved for the arguments {known}. Got {', '.join(leaves)}."
        )

    def __repr__(self) -> str:
        return f"<restored function {self._name!r} of {len(self._candidates)} signatures>"


def _matched(
    template: Any, args: Any, kwargs: Mapping[str, Any], names: Sequence[str],
    candidate: SavedFunction,
) -> list[Any] | None:  # fmt: skip
    """Return the tensors of a call if it has the saved form, or None."""
    positional, by_name = template["tuple"]
    wanted, rest = list(positional["tuple"]), dict(by_name["dict"])
    given = list(args)
    more = dict(kwargs)
    for position in range(len(given), len(wanted)):
        name = names[position] if position < len(names) else None
        if name is not None and name in more:
            given.append(more.pop(name))
        elif not _tensors(wanted[position]):
            given.append(decoded(wanted[position]))
        else:
            return None
    if len(given) != len(wanted) or {*more} - {*rest}:
        return None
    found: dict[int, Any] = {}
    pairs = [*zip(wanted, given), *((rest[key], more[key]) for key in more)]
    if not all(_fits(one, value, found) for one, value in pairs):
        return None
    specs = candidate.input_signature
    if len(found) != len(specs):
        return None
    tensors = []
    for number, spec in enumerate(specs):
        value = found[number]
        is_tensor = isinstance(value, Tensor | Variable | np.ndarray)
        tensors.append(to_tensor(value) if is_tensor else to_tensor(value, spec.dtype))
    return tensors if candidate.fits(tensors) else None


def _tensors(tree: Any) -> list[int]:
    """Return the numbers of the tensors in the form of an argument."""
    if isinstance(tree, str) and tree.startswith("tensor "):
        return [int(tree.removeprefix("tensor "))]
    if not isinstance(tree, dict):
        return []
    ((kind, inner),) = tree.items()
    if kind not in ("dict", "extension", "list", "tuple"):
        raise FileFormatError(f"An argument has the kind {kind!r:.60}.")
    parts = inner.values() if kind == "dict" else inner[3] if kind == "extension" else inner
    return [number for one in parts for number in _tensors(one)]


def _fits(tree: Any, value: Any, found: dict[int, Any]) -> bool:
    """Whether an argument has the saved form; the tensors in it are added to `found`."""
    if isinstance(tree, str) and tree.startswith("tensor "):
        found[int(tree.removeprefix("tensor "))] = value
        return True
    if not isinstance(tree, dict):
        return type(tree) is type(value) and bool(tree == value)
    ((kind, content),) = tree.items()
    if kind == "extension":
        fields = parts_of(content, value, decoded)
        pairs = zip(content[3], fields or ())
        return fields is not None and all(_fits(one, part, found) for one, part in pairs)
    if kind == "dict":
        return (
            isinstance(value, Mapping)
            and {*value} == {*content}
            and all(_fits(content[key], value[key], found) for key in content)
        )
    return (
        isinstance(value, list | tuple)
        and len(value) == len(content)
        and all(_fits(one, part, found) for one, part in zip(content, value))
    )


def _described(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return (
        repr(value)[:60] if dtype is None else f"{getattr(dtype, 'name', dtype)}{list(value.shape)}"
    )


def contains_saved_model(export_dir: StrPath) -> bool:
    """Return whether a folder holds what `save` wrote.

    >>> contains_saved_model("nowhere")
    False
    """
    return os.path.isfile(os.path.join(os.fspath(export_dir), PROGRAMS))


def read_saved_model(export_dir: StrPath) -> LoadedModel:
    """Return an object with the variables and functions of the one that was saved."""
    folder = Path(os.fspath(export_dir))
    if not contains_saved_model(folder):
        hint = ""
        if (folder / "saved_model.pb").is_file():
            hint = " It holds a SavedModel of TensorFlow, whose graphs tapegrad does not run."
        raise ArgumentError(f"There is no saved model in {str(folder)!r}.{hint}")
    path = str(folder / PROGRAMS)
    if os.path.getsize(path) > _MOST_BYTES:
        refuse(path, "it is too large")
    content = (folder / PROGRAMS).read_bytes()
    while True:
        try:
            tree = parse_json(content, path, "it")
            with damage_explained(path, "its content"):
                return _restored(folder, tree)
        except (FileFormatError, OSError):
            # Another process may have saved meanwhile, and have removed the older arrays.
            before, content = content, (folder / PROGRAMS).read_bytes()
            if content == before:
                raise


def _restored(folder: Path, tree: Any) -> LoadedModel:
    if not isinstance(tree, dict) or {key: tree.get(key) for key in FORMAT} != FORMAT:
        raise FileFormatError(f"{str(folder)!r} holds no saved model of this version ({FORMAT}).")
    name = tree["arrays"]
    if not isinstance(name, str) or Path(name).name != name:
        raise FileFormatError(f"{str(folder)!r} names arrays in another folder.")
    if not (folder / name).is_file():
        raise FileFormatError(f"{str(folder)!r} lacks its file of arrays, {name!r:.99}.")
    with TensorFile(folder / name) as file:
        arrays = {key: file[key] for key in file}
    variables = {
        key: Variable(arrays[f"variables/{key}"], trainable=is_trained is True, name=_last(key))
        for key, is_trained in tree["variables"].items()
    }
    known = {GLOBAL_RANDOM: get_global_generator().state, **variables}
    loaded = LoadedModel()
    for key, variable in variables.items():
        *places, last = key.split("/")
        _part(loaded, places).__dict__[last] = variable
    for key, trees in tree["functions"].items():
        *places, last = key.split(".")
        _part(loaded, places).__dict__[last] = RestoredFunction(key, trees, arrays, known)
    loaded.signatures = {
        key: Signature(key, one if isinstance(one, list) else [one], arrays, known)
        for key, one in tree["signatures"].items()
    }
    return loaded


def _last(name: str) -> str:
    return name.rpartition("/")[2] or "variable"


def _part(root: SavedObject, places: Sequence[str]) -> SavedObject:
    for place in places:
        inner = root.__dict__.setdefault(place, SavedObject())
        if not isinstance(inner, SavedObject):
            raise FileFormatError(f"{place!r:.60} is a variable and also holds others.")
        root = inner
    return root
