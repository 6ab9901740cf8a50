"""Loaded libraries of compiled loops, which are unloaded when no function of them is left."""

from __future__ import annotations

import _ctypes
import ctypes
import weakref
from pathlib import Path
from typing import Any

_loaded: weakref.WeakValueDictionary[Path, ctypes.PyDLL] = weakref.WeakValueDictionary()
_unload = getattr(_ctypes, "dlclose", None)


class Address(int):
    """The address of a function. Whoever calls the function must keep the library."""

    library: Any = None
    work = close = 0
    """The addresses of the parts of a compiled loop, for calls from C; 0 if they are not known."""


def load(path: Path) -> ctypes.PyDLL:
    """Return the library at a path; it is unloaded when the result and its addresses are gone."""
    library = _loaded.get(path)
    if library is None:
        library = _loaded[path] = ctypes.PyDLL(str(path))
        if _unload is not None:
            # Not at the end of the process, when other threads may still compute.
            weakref.finalize(library, _unload, library._handle).atexit = False
    return library


def address_of(library: ctypes.PyDLL, name: str) -> Address:
    """Return the address of a function; raise AttributeError if the library does not have it."""
    # By index: access by attribute would store the function in the library, which is a cycle.
    address = Address(ctypes.cast(library[name], ctypes.c_void_p).value or 0)
    address.library = library
    return address


def with_parts(address: Address, name: str) -> Address:
    """Let the address of a compiled loop have those of its parts, if the library names them."""
    try:
        parts = (ctypes.c_void_p * 2).in_dll(address.library, f"{name}_parts")
    except ValueError:
        return address
    address.work, address.close = parts[0] or 0, parts[1] or 0
    return address
