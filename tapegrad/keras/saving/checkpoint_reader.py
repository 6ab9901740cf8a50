"""Look into checkpoints without the objects that they were saved from."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tapegrad.core.files.atomic import StrPath
from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.errors import ArgumentError
from tapegrad.keras.saving.checkpoint import file_of, latest_checkpoint
from tapegrad.keras.saving.tensor_file import TensorFile

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
"""The end of the names of variables in TensorFlow's checkpoints."""


class CheckpointReader:
    """The variables of a checkpoint by name; names end as in TensorFlow's checkpoints.

    >>> import tapegrad, tempfile
    >>> path = tapegrad.train.Checkpoint(w=tapegrad.Variable([1.0, 2.0])).write(
    ...     tempfile.mkdtemp() + "/one")
    >>> reader = load_checkpoint(path)
    >>> reader.get_variable_to_shape_map()["w/.ATTRIBUTES/VARIABLE_VALUE"]
    [2]
    >>> reader.get_tensor("w").tolist()
    [1.0, 2.0]
    """

    def __init__(self, path: StrPath) -> None:
        with TensorFile(file_of(path)) as file:
            self._arrays = {name: np.array(file[name]) for name in file if name[0] != "~"}
        self._path = os.fspath(path)

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return the shapes by name."""
        return {name + _SUFFIX: list(array.shape) for name, array in self._arrays.items()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """Return the dtypes by name."""
        return {name + _SUFFIX: as_dtype(array.dtype) for name, array in self._arrays.items()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Return whether there is a variable of this name."""
        return tensor_str.removesuffix(_SUFFIX) in self._arrays

    def get_tensor(self, tensor_str: str) -> np.ndarray:
        """Return the value of a variable as a NumPy array."""
        if not self.has_tensor(tensor_str):
            names = ", ".join(sorted(self._arrays))
            raise ArgumentError(
                f"Checkpoint {self._path!r} has no variable {tensor_str!r}. It has: {names}."
            )
        return self._arrays[tensor_str.removesuffix(_SUFFIX)].copy()


def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """Return a reader of a checkpoint, or of the last one in a folder.

    >>> load_checkpoint("a folder that is not there")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: There is no checkpoint at 'a folder that is not there'.
    """
    path = os.fspath(ckpt_dir_or_file)
    found = latest_checkpoint(path) if os.path.isdir(path) else path
    if found is None or not os.path.exists(file_of(found)):
        raise ArgumentError(f"There is no checkpoint at {path!r}.")
    return CheckpointReader(found)


def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """Return the names and shapes of the variables in a checkpoint.

    >>> import tapegrad, tempfile
    >>> path = tapegrad.train.Checkpoint(w=tapegrad.Variable(1.0)).write(tempfile.mkdtemp() + "/c")
    >>> list_variables(path)[-1]
    ('w/.ATTRIBUTES/VARIABLE_VALUE', [])
    """
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file: Any, name: str) -> np.ndarray:
    """Return one variable of a checkpoint as a NumPy array.

    >>> import tapegrad, tempfile
    >>> path = tapegrad.train.Checkpoint(w=tapegrad.Variable(1.0)).write(tempfile.mkdtemp() + "/c")
    >>> float(load_variable(path, "w"))
    1.0
    """
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name)
