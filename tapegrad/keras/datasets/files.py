"""Read the files of the datasets."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from tapegrad.keras.utils.get_file import get_file

ORIGIN = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
Split = tuple[tuple[Any, Any], tuple[Any, Any]]


def arrays_of(path: str, name: str, file_hash: str) -> dict[str, Any]:
    """Return the arrays of an .npz file."""
    file = get_file(path, f"{ORIGIN}{name}.npz", file_hash=file_hash)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


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
