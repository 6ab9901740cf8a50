"""The registry: finds the backend of an array or of a name.

Backends in the tree are listed in a table; others are found through the entry-point group
"tapegrad.backends". No array library is imported just to look up its arrays.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from tapegrad.core.backend.capabilities import NO_CAPABILITIES, Capabilities
from tapegrad.core.backend.protocol import Array, Backend
from tapegrad.errors import ArgumentTypeError, BackendUnavailableError, DeviceError

IN_TREE = {"numpy": "tapegrad_numpy", "cupy": "tapegrad_cupy"}
"""Backends of this project: name -> module with a `load()` function that returns the backend."""

_loaded: dict[str, Backend] = {}
_by_type: dict[type, Backend] = {}
_capabilities: dict[str, Capabilities] = {}
"""By the name of a backend, its answer when it was registered."""


def by_name(*kernels: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return functions that have the names of primitives as a table of kernels."""
    return {kernel.__name__: kernel for kernel in kernels}


def register_backend(backend: Backend) -> None:
    """Add a backend object to the registry under its own name (used by tests and notebooks)."""
    _loaded[backend.name] = backend
    _capabilities[backend.name] = backend.capabilities()


def unregister_backend(name: str) -> None:
    """Forget a backend, e.g. one that a test registered."""
    gone = _loaded.pop(name, None)
    _capabilities.pop(name, None)
    for kind in [kind for kind, backend in _by_type.items() if backend is gone]:
        del _by_type[kind]


def register_array_type(array_type: type, backend: Backend) -> None:
    """Let a backend that users cannot name compute with values of one type."""
    _by_type[array_type] = backend
    _capabilities[backend.name] = backend.capabilities()


def capabilities_of(array_type: type) -> Capabilities:
    """Return the optional parts that the backend of an array type implements.

    >>> import numpy as np
    >>> capabilities_of(np.ndarray).loops is not None
    True
    """
    backend = find_backend(array_type)
    return NO_CAPABILITIES if backend is None else _capabilities[backend.name]


def set_capabilities(name: str, capabilities: Capabilities) -> Capabilities:
    """Replace the capabilities of a registered backend and return the old ones (for tests)."""
    old = _capabilities[get_backend(name).name]
    _capabilities[name] = capabilities
    return old


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
        backend = _load(name)
        register_backend(backend)
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

    >>> import numpy as np
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
