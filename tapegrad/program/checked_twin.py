"""The twin of a function whose programs check numbers, so that the others stay as they are."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from tapegrad.core.number_checks import is_checking_numbers

_twins: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_all: WeakSet[Any] = WeakSet()


def checked_twin(function: Any) -> Any:
    """Return the function that runs instead of this one; None if this one runs itself.

    It waits for compiled programs: the first call would otherwise return what was recorded, which
    is not checked.
    """
    if not is_checking_numbers() or function in _all:
        return None
    twin = _twins.get(function)
    if twin is None:
        eager, specs, budget, _, autograph = function._options
        twin = type(function)(function.python_function, eager, specs, budget, True, autograph)
        _twins[function] = twin
        _all.add(twin)
    return twin
