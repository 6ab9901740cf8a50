"""What layers store in a model file by their own `save_own_variables`.

The weights of such layers are in the file, too. `load_own_variables` is called after them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any
from zipfile import ZipFile

import numpy as np

from tapegrad.core.files.formats import damage_explained
from tapegrad.keras.layers.members import Members
from tapegrad.keras.saving.layer_paths import layers_by_path

_FOLDER = "own_variables"
_PREFIX = "store."  # a layer may use names that are parameters of numpy.savez


def store_parts(model: Any) -> dict[str, list[bytes]]:
    """Return what the layers of a model store themselves, as the content of files by place."""
    found: dict[str, list[bytes]] = {}
    for path, layer in _storing(model):
        store: dict[str, Any] = {}
        layer.save_own_variables(store)
        content = io.BytesIO()
        arrays: dict[str, Any] = {_PREFIX + name: np.asarray(x) for name, x in store.items()}
        np.savez(content, **arrays)
        found[_place(path)] = [content.getvalue()]
    return found


def load_stores(model: Any, archive: ZipFile) -> None:
    """Let the layers of a model read what they stored in an archive."""
    known = {*archive.namelist()}
    for path, layer in _storing(model):
        if _place(path) not in known:
            continue
        content = archive.read(_place(path))
        with (
            damage_explained(str(archive.filename), f"what layer {layer.name!r} stored"),
            np.load(io.BytesIO(content), allow_pickle=False) as file,
        ):
            store = {name.removeprefix(_PREFIX): file[name] for name in file.files}
        layer.load_own_variables(store)


def _place(path: str) -> str:
    return str(PurePosixPath(_FOLDER, path or "model")) + ".npz"


def _storing(model: Any) -> Iterator[tuple[str, Any]]:
    for path, layer in layers_by_path(model).items():
        kind = type(layer)
        own = kind.save_own_variables, kind.load_own_variables
        if own != (Members.save_own_variables, Members.load_own_variables):
            yield path, layer
