"""Weights of a model in files, also of a model that has no variables yet."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import is_zipfile

from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.trial import trial_call
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.calling import NOT_BUILT
from tapegrad.keras.layers.context import current_pass
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.saving.checkpoint import CheckpointStatus
from tapegrad.keras.saving.hdf5 import is_hdf5, is_hdf5_name
from tapegrad.keras.saving.model_file import load_model_weights
from tapegrad.keras.saving.tensor_file import TensorFile
from tapegrad.keras.saving.weights import load_weights, save_weights
from tapegrad.keras.saving.weights_h5 import load_weights_h5, save_weights_h5
from tapegrad.ops.creation import zeros
from tapegrad.program.graph_mode import init_scope


class _Awaited(NamedTuple):
    path: Any
    skip_mismatch: bool
    status: CheckpointStatus | None


class WeightFiles(Layer):
    """A layer that writes its variables to files and reads them."""

    _awaited: _Awaited | None = None
    """The file that was loaded when the layer had no variables."""

    def named_variables(self) -> dict[str, Any]:
        """Return all variables by their paths, such as "dense/kernel"."""
        return self._named(is_saved=False)

    def _named(self, is_saved: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for path, variable in _paths(self, "", is_saved):
            name, number = path, 1
            while name in found and found[name] is not variable:
                number += 1
                name = f"{path}_{number}"
            found[name] = variable
        return found

    def save_weights(
        self, filepath: Any, overwrite: bool = True, save_format: str | None = None
    ) -> None:
        """Write all variables to a safetensors file, or to an HDF5 file if the name says so.

        A name that ends in ".weights.h5" gets the layout of Keras 3, which needs h5py; so does any
        name with `save_format="h5"`.
        """
        if not overwrite and Path(filepath).exists():
            raise ArgumentError(f"File {str(filepath)!r} already exists, and overwrite=False.")
        self._check_built("save")
        if save_format == "h5" or is_hdf5_name(filepath):
            save_weights_h5(self, filepath)
        else:
            save_weights(self._named(is_saved=True), filepath)

    def load_weights(self, filepath: Any, skip_mismatch: bool = False) -> CheckpointStatus | None:
        """Read all variables from a file of weights, or from the ".keras" file of a whole model.

        If one does not match, no variable is changed. A model that has no weights yet takes those
        of the file when it is built. Programs that call `expect_partial()` on the result may.
        """
        if not self.built and not self.variables:
            return self._await_weights(filepath, skip_mismatch)
        self._check_built("load")
        if is_hdf5(filepath):
            load_weights_h5(self, filepath, skip_mismatch)
        elif is_zipfile(filepath):
            load_model_weights(self, filepath, skip_mismatch)
        else:
            named = self._named(is_saved=True)
            load_weights(named, filepath, skip_mismatch)
            return CheckpointStatus(os.fspath(filepath), [], [], named.keys())
        return None

    def _check_built(self, what: str) -> None:
        if not self.variables:
            raise ArgumentError(f"Model {self.name!r} has no weights to {what} yet. {NOT_BUILT}")

    def _await_weights(self, path: Any, skip_mismatch: bool) -> CheckpointStatus | None:
        """Load the file as soon as there are variables; raise at once if it cannot be read."""
        status = None
        if not is_hdf5(path) and not is_zipfile(path):
            with TensorFile(path) as file:
                status = CheckpointStatus(os.fspath(path), [], list(file), set())
        self.__dict__["_awaited"] = _Awaited(path, skip_mismatch, status)
        return status

    def _build_and_load(self, build: Callable[[], Any]) -> bool:
        """Create the weights by `build` and load the awaited ones; return whether there are any.

        Both happen eagerly, so that a function that is being recorded finds the loaded values. If
        the file does not fit, the next call tries again: it must not use the initial values.
        """
        awaited = self._awaited
        if awaited is None:
            return False
        self.__dict__["_awaited"] = None
        try:
            with init_scope():
                build()
                self.built = True
                self.load_weights(awaited.path, awaited.skip_mismatch)
        except BaseException:
            self.__dict__["_awaited"], self.built = awaited, False
            raise
        if awaited.status is not None:
            awaited.status.used, awaited.status.unused = awaited.status.unused, []
        return True

    def _call_on_zeros_like(self, args: Any, kwargs: Any) -> None:
        """Create the weights by a call with zeros in place of the tensors."""
        given, named = nest.map_structure(_zeros_for, [list(args), dict(kwargs)])
        with trial_call(), _outside_of_passes():
            self(*given, **named, training=False)


def _zeros_for(x: Any) -> Any:
    return zeros(x.shape, x.dtype) if isinstance(x, Tensor) else x


@contextmanager
def _outside_of_passes() -> Iterator[None]:
    """Leave the running forward pass, so that it does not count the losses of the block."""
    running = current_pass.get()
    current_pass.set(None)
    try:
        yield
    finally:
        current_pass.set(running)


def _paths(layer: Layer, prefix: str, is_saved: bool) -> Iterator[tuple[str, Any]]:
    """Yield variables with their paths.

    The paths for files do not depend on how many layers the process has created.
    """
    seen: set[int] = set()
    counts: Counter[str] = Counter()
    for inner in layer._inner_layers():
        name, kind = inner.name, inner._automatic
        if is_saved and kind:
            name = f"{kind}_{counts[kind]}" if counts[kind] else kind
            counts[kind] += 1
        for path, variable in _paths(inner, f"{prefix}{name}/", is_saved):
            seen.add(variable.number)
            yield path, variable
    for variable in layer._own_variables():
        if variable.number not in seen:
            yield f"{prefix}{variable.name.removesuffix(':0')}", variable
