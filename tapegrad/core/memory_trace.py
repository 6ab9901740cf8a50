"""Which line of the user's code made an array, noted while `debug.trace_memory` is on."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tapegrad.core.call_site import call_site
from tapegrad.core.eager_hooks import is_hooked

_sites: dict[int, tuple[weakref.ref[Any], str]] = {}
"""The lines of living arrays, by the ids of the owners of their memory."""


def owner_of(array: Any) -> Any:
    """Return the owner of an array's memory: a device allocation, or the base array.

    >>> x = np.zeros((2, 3))
    >>> owner_of(x[0].T) is x
    True
    """
    if (type(array) is np.ndarray and array.base is None) or isinstance(array, np.generic):
        return array  # most arrays; a NumPy scalar shares no memory
    if not isinstance(array, np.ndarray):
        return getattr(getattr(array, "data", None), "mem", array)
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def note_array(array: Any, site: str = "") -> None:
    """Note the line of an array, by default the user's line that led here."""
    if not is_hooked("memory"):
        return
    owner = owner_of(array)
    number = id(owner)
    known = _sites.get(number)
    if known is not None and known[0]() is owner:
        return  # a view of an array that was noted before
    try:
        reference = weakref.ref(owner, lambda _: _sites.pop(number, None))
    except TypeError:  # NumPy's scalars, and memory of other libraries
        return
    _sites[number] = (reference, site or call_site())


def site_of(array: Any) -> str:
    """Return the line that made an array, "" if it was not noted."""
    owner = owner_of(array)
    known = _sites.get(id(owner))
    return known[1] if known is not None and known[0]() is owner else ""
