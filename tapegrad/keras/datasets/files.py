"""Read the files of the datasets."""

from __future__ import annotations

import pickle
import zipfile
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, FileFormatError
from tapegrad.keras.utils.get_file import get_file

ORIGIN = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
Split = tuple[tuple[Any, Any], tuple[Any, Any]]


def arrays_of(path: str, name: str, file_hash: str) -> dict[str, Any]:
    """Return the arrays of an .npz file."""
    file = get_file(path, f"{ORIGIN}{name}.npz", file_hash=file_hash)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def objects_of(path: str, name: str, file_hash: str) -> dict[str, Any]:
    """Return the arrays of an .npz file, some of which hold lists; nothing else is unpickled."""
    file = get_file(path, f"{ORIGIN}{name}.npz", file_hash=file_hash)
    found: dict[str, Any] = {}
    try:
        with zipfile.ZipFile(file) as archive:
            for entry in archive.namelist():
                with archive.open(entry) as data:
                    found[entry.removesuffix(".npy")] = _read_array(data)
    except (zipfile.BadZipFile, pickle.UnpicklingError, EOFError) as error:
        raise FileFormatError(f"{file} is not a file of the dataset {name}: {error}") from error
    return found


def _read_array(data: Any) -> Any:
    version = np.lib.format.read_magic(data)
    read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
    shape, is_fortran, dtype = read(data)
    if dtype.hasobject:
        return _Arrays(data, encoding="bytes").load()
    values = np.frombuffer(data.read(), dtype)
    return values.reshape(shape, order="F" if is_fortran else "C")


def check_test_split(test_split: float) -> None:
    """Raise an error unless a fraction is at least 0 and below 1."""
    if not 0 <= test_split < 1:
        raise ArgumentError(f"test_split must be at least 0 and below 1. Got {test_split}.")


def split_rows(x: Any, y: Any, test_split: float, seed: int) -> Split:
    """Shuffle rows, as Keras does with the same seed, and keep the last ones for tests."""
    check_test_split(test_split)
    order = np.arange(len(x))
    np.random.RandomState(seed).shuffle(order)
    count = int(len(x) * (1 - test_split))
    return (x[order[:count]], y[order[:count]]), (x[order[count:]], y[order[count:]])


_KNOWN = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("_codecs", "encode"),
}


class _Arrays(pickle.Unpickler):
    """Unpickler that reads only arrays and plain values, and refuses all other classes."""

    def find_class(self, module: str, name: str) -> Any:
        if (module.replace("numpy._core", "numpy.core"), name) in _KNOWN:
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise pickle.UnpicklingError(f"A dataset file must not contain {module}.{name}.")


def pictures(file: Any, labels: str) -> tuple[Any, Any]:
    """Return the images `[number, 32, 32, 3]` and the labels `[number, 1]` of a CIFAR file."""
    found = _Arrays(file, encoding="bytes").load()
    x = np.asarray(found[b"data"], np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return x, np.asarray(found[labels.encode()]).reshape(-1, 1)
