"""Save variables by name, and load them all or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from tapegrad.core.call_site import warn_outside
from tapegrad.core.commit import assign_together
from tapegrad.core.files.atomic import StrPath
from tapegrad.core.values import host
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.saving.tensor_file import TensorFile, write_tensors
from tapegrad.keras.saving.tensor_header import Entry, describe

_SHOWN = 10


def save_weights(
    named_variables: Mapping[str, Variable],
    path: StrPath,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write variables to a safetensors file; an old file is kept until the new one is complete.

    >>> import tempfile
    >>> w = Variable([1.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights({"dense/kernel": w}, f"{folder}/w.safetensors")
    ...     _ = w.assign([0.0, 0.0])
    ...     load_weights({"dense/kernel": w}, f"{folder}/w.safetensors")
    >>> w.numpy()
    array([1., 2.], dtype=float32)
    """
    _check_variables(named_variables)
    write_tensors(path, named_variables, metadata)


def load_weights(
    named_variables: Mapping[str, Variable],
    path: StrPath,
    skip_mismatch: bool = False,
) -> None:
    """Assign the arrays of a safetensors file to the variables of the same names.

    Nothing is assigned unless all names, shapes and dtypes match. With `skip_mismatch=True` the
    matching ones are assigned, and a warning names the others.

    >>> import tempfile
    >>> a = Variable(1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights({"a": Variable(5.0)}, f"{folder}/w.safetensors")
    ...     load_weights({"a": a}, f"{folder}/w.safetensors")
    >>> float(a)
    5.0
    """
    _check_variables(named_variables)
    with TensorFile(path) as file:
        load_from(named_variables, file, skip_mismatch)


class Arrays(Protocol):
    """The arrays of an open file by name."""

    path: str
    entries: dict[str, Entry]

    def __getitem__(self, name: str) -> np.ndarray: ...

    def __iter__(self) -> Iterator[str]: ...

    def __contains__(self, name: object) -> bool: ...


def load_from(
    named_variables: Mapping[str, Variable], file: Arrays, skip_mismatch: bool = False
) -> None:
    """Assign the arrays of an open file, as `load_weights` does."""
    _check_variables(named_variables)
    missing = [name for name in named_variables if name not in file]
    unexpected = [name for name in file if name not in named_variables]
    different = differences(named_variables, file.entries)
    what = (
        f"{_listed('Missing in the file', missing)}"
        f"{_listed('Only in the file', unexpected)}"
        f"{_listed('Different', list(different.values()))}"
    )
    if what and not skip_mismatch:
        raise ArgumentError(
            f"The weights in {file.path!r} do not match, and nothing was loaded. {what}Build "
            "the same model as the one that was saved, or pass skip_mismatch=True."
        )
    if what:
        warn_outside(f"Not all weights in {file.path!r} were loaded. {what}")
    fit = [name for name in named_variables if name in file and name not in different]
    # Read all arrays before the first assignment: an unreadable file changes nothing.
    values = {name: file[name] for name in fit}
    assign_all(named_variables, values)


def _check_variables(named_variables: Mapping[str, Variable]) -> None:
    for name, variable in named_variables.items():
        if not isinstance(variable, Variable):
            raise ArgumentTypeError(
                "Weights must be a mapping from names to variables. "
                f"Got {type(variable).__name__} for {name!r}."
            )


def differences(
    named_variables: Mapping[str, Variable], entries: Mapping[str, Entry]
) -> dict[str, str]:
    """Describe each variable whose array in a file has another dtype or shape.

    >>> differences({"w": Variable([1.0])}, {"w": Entry("float32", (2,), 0, 8)})
    {'w': "'w' is float32[1] here and float32[2] in the file"}
    """
    texts = {}
    for name, variable in named_variables.items():
        entry = entries.get(name)
        here = describe(variable.dtype.name, tuple(variable.shape))
        if entry is not None and str(entry) != here:
            texts[name] = f"{name!r} is {here} here and {entry} in the file"
    return texts


def assign_all(named_variables: Mapping[str, Variable], values: Mapping[str, np.ndarray]) -> None:
    """Assign host arrays to the variables of the same names, each on its device, all at once.

    >>> w = Variable([1.0])
    >>> assign_all({"w": w}, {"w": np.array([3.0], "float32")})
    >>> float(w)
    3.0
    """
    variables = [named_variables[name] for name in values]
    assign_together(variables, [placed_like(v, x) for v, x in zip(variables, values.values())])


def placed_like(variable: Variable, value: np.ndarray) -> Tensor:
    """Return a host array as a tensor on the device of a variable."""
    return wrap(host.place_like(value, variable.array))


def _listed(title: str, items: Sequence[str]) -> str:
    return f"{title}: {shortened(items)}. " if items else ""


def shortened(items: Sequence[str]) -> str:
    """Return the first items as text, and the number of further items.

    >>> shortened(["a", "b"])
    'a, b'
    """
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
