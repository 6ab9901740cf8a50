"""The weights in a model file: an HDF5 member that Keras reads, with an index for tapegrad.

The arrays are contiguous in the HDF5 member. The index has the offset of each, so that reading them
here needs no other package.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from zipfile import ZipFile

from tapegrad.core.files.formats import parse_json, refuse
from tapegrad.core.values.variable import Variable
from tapegrad.keras.saving.hdf5 import h5py_for
from tapegrad.keras.saving.layer_paths import named_by_path
from tapegrad.keras.saving.tensor_file import TensorFile
from tapegrad.keras.saving.tensor_header import dtype_word, parse_entry
from tapegrad.keras.saving.weights_h5 import saved_groups, write_groups

H5_WEIGHTS, INDEX = "model.weights.h5", "model.weights.index.json"
_CHUNK = 2**20


class H5Part(NamedTuple):
    """The HDF5 member of a model file, and where each array is in it, by kind and name."""

    chunks: Iterable[bytes]
    places: dict[str, dict[str, Any]]


@contextmanager
def h5_part(model: Any, **kinds: Mapping[str, Variable]) -> Iterator[H5Part]:
    """Write the weights of a model to a temporary file; `kinds` are the names for the index."""
    groups = saved_groups(model)
    paths = {variable.number: path for path, variable in named_by_path(groups).items()}
    library = h5py_for(H5_WEIGHTS)
    with tempfile.TemporaryFile() as file:
        with library.File(file, "w") as content:
            arrays = write_groups(content, groups)
            content.flush()
            index: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
            for kind, named in kinds.items():
                for name, variable in named.items():
                    entry = _index_entry(arrays.get(paths.get(variable.number, "")), variable)
                    if entry is not None:
                        index[kind][name] = entry
        file.seek(0)
        yield H5Part(iter(lambda: file.read(_CHUNK), b""), index)


def _index_entry(array: Any, variable: Variable) -> dict[str, Any] | None:
    """Return where the bytes of an array are, or None if they are not those of the variable."""
    word = dtype_word(variable.dtype.name)
    if array is None or word is None or array.dtype.itemsize != variable.dtype.dtype.itemsize:
        return None
    start = array.id.get_offset()
    if start is None and array.size:
        return None
    stop = (start or 0) + array.size * array.dtype.itemsize
    return {"dtype": word, "shape": list(array.shape), "data_offsets": [start or 0, stop]}


class IndexedArrays(TensorFile):
    """The arrays of the HDF5 member of a model file by name, found through its index."""

    def __init__(self, archive: ZipFile, kind: str) -> None:
        path = os.fspath(str(archive.filename))
        index = parse_json(archive.read(INDEX), path, INDEX)
        index = index.get(kind) if isinstance(index, dict) else None
        if not isinstance(index, dict):
            refuse(path, f"{INDEX} is damaged")
        self.path, self._begin, self.metadata = path, 0, {}
        self.entries = {name: parse_entry(name, value, path) for name, value in index.items()}
        size = archive.getinfo(H5_WEIGHTS).file_size
        for name, entry in self.entries.items():
            if entry.stop > size:
                refuse(path, f"array {name!r} ends after its member {H5_WEIGHTS!r}")
        self._file = archive.open(H5_WEIGHTS)
