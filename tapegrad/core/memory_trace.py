"""The user's line that made each array, recorded while `debug.trace_memory` is on."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tapegrad.core.call_site import call_site
from tapegrad.core.eager_hooks import is_hooked

_sites: dict[int, tuple[weakref.ref[Any], str]] = {}
"""The lines of living arrays, by the ids of the arrays and of the owners of their memory.

An allocation of CuPy has no weak references, so that of an array in it stands for it.
"""


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
    """Note the line of an array, by default the user's line that led here.

    A view has the line of the array whose memory it shares.
    """
    if not is_hooked("memory"):
        return
    owner = owner_of(array)
    place = _known(id(owner)) or site or call_site()
    if type(owner).__weakrefoffset__:
        _note(id(owner), owner, place)
    elif type(array).__weakrefoffset__:  # NumPy's scalars have no weak references, either
        _note(id(owner), array, place)
        _note(id(array), array, place)


def _note(number: int, target: Any, site: str) -> None:
    if _known(number):
        return
    _sites[number] = (weakref.ref(target, lambda ref: _forget(number, ref)), site)


def _forget(number: int, reference: weakref.ref[Any]) -> None:
    if number in _sites and _sites[number][0] is reference:
        del _sites[number]


def _known(number: int) -> str:
    """Return the line that is noted under an id, "" if there is none."""
    reference, site = _sites.get(number, (None, ""))
    target = None if reference is None else reference()
    return "" if target is None or number not in (id(target), id(owner_of(target))) else site


def site_of(array: Any) -> str:
    """Return the line that made an array, "" if it was not noted."""
    return _known(id(owner_of(array))) or _known(id(array))
