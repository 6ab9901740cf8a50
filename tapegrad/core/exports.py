"""`dir(module)` lists what the module exports, and not what it imports for its own use."""

from __future__ import annotations

from typing import Any


def list_exports(names: dict[str, Any]) -> None:
    """Give a module, whose globals `names` are, a `__dir__` that lists its `__all__`.

    >>> module = {"__all__": ["b", "a"], "helper": None}
    >>> list_exports(module)
    >>> module["__dir__"]()
    ['a', 'b']
    """
    if "__all__" in names and "__dir__" not in names:
        names["__dir__"] = lambda: sorted(names["__all__"])
