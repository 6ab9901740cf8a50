"""The backend protocol and the registry that finds the backend of an array.

A backend runs primitives on one kind of array and knows nothing about derivatives. Backends in
the tree are listed in a table; others are found through the entry-point group
"tapegrad.backends". No array library is imported just to ask about it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tapegrad.errors import ArgumentTypeError, BackendUnavailableError, DeviceError

Array = Any
"""A raw array of some backend."""


class Reading(Protocol):
    """A copy to the host that may still be under way."""

    def done(self) -> bool:
        """Whether `result` would return at once."""

    def result(self) -> np.ndarray:
        """Wait for the copy and return it."""


class ReadAtOnce:
    """A `Reading` of values that need no waiting for."""

    def __init__(self, value: np.ndarray) -> None:
        self._value = value

    def done(self) -> bool:
        return True

    def result(self) -> np.ndarray:
        return self._value


class Memory(Protocol):
    """The memory of one device, as far as a backend can tell."""

    @property
    def description(self) -> str:
        """The device in a few words for `tapegrad info`, e.g. its name and size; "" for none."""

    def libraries(self) -> Sequence[tuple[str, str]]:
        """Name and state of the libraries that speed this device up, for `tapegrad info`."""

    def read_later(self, array: Array) -> Reading:
        """Begin to copy the present values of an array to the host, and do not wait for it."""

    def used(self) -> tuple[int | None, int | None]:
        """Bytes in use now, and the most since `reset_peak`; None for what nobody counted."""

    def reset_peak(self) -> None:
        """Count the peak from now on."""

    def release(self) -> None:
        """Give back what is cached but not in use, because an operation found no room."""


class Backend(Protocol):
    """What a backend provides. `tapegrad.testing.check_backend` tests all of it."""

    name: str
    """The registry's name, also the prefix of its devices unless `devices()` says otherwise."""

    xp: Any
    """The Array API namespace; its dtype arguments accept NumPy dtypes."""

    array_types: tuple[type, ...]
    """The Python types of the arrays (and scalars) that this backend computes with."""

    kernels: Mapping[str, Callable[..., Any]]
    """Kernels that replace a primitive's generic one, by primitive name.

    `NAME.vjp` may hold one for all rules of an elementwise primitive: a function of the cotangent,
    what the node saved, which inputs are wanted, the params, and whether to conjugate, that returns
    one share per input or None to leave it to the rules. `add.into` adds an array to another,
    and `NAME.into` adds the primitive's result to its first argument and says whether it could.
    `NAME.over` may write a result over the primitive's first operand, which nobody needs any more.
    `loops` takes fused loops (see loop.py) and returns a callable for each, or None for those that
    it has no code for. `capture` turns the run of a program (see program/lowering.py) into one
    that is cheaper to repeat, given the positions of the variables that it changes, and of those
    among them whose arrays it writes over: these it gives arrays that nobody else holds.
    `cast.many` takes arrays and a dtype for each, and casts them all at once.
    `update.group` makes the steps of many variables at once (tapegrad/optimizers/groups.py says
    how), and `clip.group` takes arrays and a limit and clips them by their global norm.
    """

    def devices(self) -> Sequence[str]:
        """Names of the devices that can be used now, best first."""

    def device_of(self, array: Array) -> str:
        """Name of the device that holds `array`."""

    def dtype_of(self, array: Array) -> np.dtype[Any]:
        """The NumPy dtype that describes `array`."""

    def from_host(self, value: np.ndarray, device: str) -> Array:
        """A new array on `device` with the host's values; later changes to `value` do not show."""

    def to_host(self, array: Array) -> np.ndarray:
        """A new NumPy array with the values of `array`."""

    def memory(self, device: str) -> Memory:
        """The memory of one of `devices()`."""


IN_TREE = {"numpy": "tapegrad_numpy", "cupy": "tapegrad_cupy"}
"""Backends of this project: name -> module with a `load()` function that returns the backend."""

_loaded: dict[str, Backend] = {}
_by_type: dict[type, Backend] = {}


def by_name(*kernels: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return functions that have the names of primitives as a table of kernels."""
    return {kernel.__name__: kernel for kernel in kernels}


def register_backend(backend: Backend) -> None:
    """Add a backend object to the registry under its own name (used by tests and notebooks)."""
    _loaded[backend.name] = backend


def unregister_backend(name: str) -> None:
    """Forget a backend, e.g. one that a test registered."""
    gone = _loaded.pop(name, None)
    for kind in [kind for kind, backend in _by_type.items() if backend is gone]:
        del _by_type[kind]


def adopt(kind: type, backend: Any) -> None:
    """Let `backend` compute with values of type `kind`, without being one that users can name."""
    _by_type[kind] = backend


def backend_names() -> list[str]:
    """Names of all backends that could be loaded: in the tree, registered, or installed.

    >>> "numpy" in backend_names()
    True
    """
    plugins = (point.name for point in _entry_points())
    return list(dict.fromkeys([*IN_TREE, *_loaded, *plugins]))


def is_backend(name: str) -> bool:
    """Tell whether there is such a backend; installed packages are looked through only if need be.

    >>> is_backend("numpy"), is_backend("abacus")
    (True, False)
    """
    return name in IN_TREE or name in _loaded or name in backend_names()


def get_backend(name: str) -> Backend:
    """Return the backend called `name`, importing it on first use.

    >>> get_backend("numpy").devices()
    ['cpu']
    """
    backend = _loaded.get(name)
    if backend is None:
        backend = _loaded[name] = _load(name)
    return backend


def _load(name: str) -> Backend:
    if name in IN_TREE:
        return _import(name).load()  # type: ignore[no-any-return]
    for point in _entry_points():
        if point.name == name:
            return point.load()()  # type: ignore[no-any-return]
    raise DeviceError(f"There is no backend {name!r}. Backends: {', '.join(backend_names())}.")


def _import(name: str) -> Any:
    """Import the module of a backend in the tree, or say that it is not there."""
    module = IN_TREE[name]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise BackendUnavailableError(
            f"Backend {name!r} is not part of this installation: there is no module {module!r}."
        ) from None


def _entry_points() -> Iterable[Any]:
    # Imported here because it is slow to import and only needed when a device is looked up.
    from importlib.metadata import entry_points

    return entry_points(group="tapegrad.backends")


def describe_backends() -> list[tuple[str, str]]:
    """One line per backend: its devices, or why it cannot be used here."""
    lines = []
    for name in backend_names():
        try:
            lines.append((name, "devices: " + ", ".join(get_backend(name).devices())))
        except BackendUnavailableError as error:
            lines.append((name, f"unavailable: {error}"))
    return lines


def backend_of(array: Array) -> Backend:
    """Return the backend that computes with `array`.

    >>> backend_of(np.ones(3)).name
    'numpy'
    """
    backend = find_backend(type(array))
    if backend is None:
        raise ArgumentTypeError(
            f"No backend computes with {type(array).__module__}.{type(array).__qualname__}. "
            f"Backends: {', '.join(backend_names())}."
        )
    return backend


def find_backend(kind: type) -> Backend | None:
    """Return the backend for arrays of type `kind`, or None if it is no array type."""
    backend = _by_type.get(kind)
    if backend is not None:
        return backend
    library = kind.__module__.partition(".")[0]
    if library in IN_TREE and library not in _loaded and kind.__name__ == "ndarray":
        get_backend(library)
    # The nearest base class decides: a backend's own kind of ndarray is not NumPy's.
    for base in kind.__mro__:
        for backend in _loaded.values():
            if base in backend.array_types:
                _by_type[kind] = backend
                return backend
    return None
