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
    """The addresses of the parts of a compiled loop; 0 if it has no `close`, or is no loop."""


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


def parts_of_loop(library: ctypes.PyDLL, name: str) -> Address:
    """Return the address of a compiled loop; raise ValueError if the library does not have it."""
    parts = (ctypes.c_void_p * 2).in_dll(library, name)
    address = Address(parts[0] or 0)
    address.library, address.work, address.close = library, parts[0] or 0, parts[1] or 0
    return address
