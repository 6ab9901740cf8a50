"""Lists and dicts that say when they get an entry, while a checkpoint waits for more objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


class WatchedList(list[Any]):
    """A list that calls a function after each new entry; copies are plain lists.

    >>> names = WatchedList([1])
    >>> names.notify = lambda: print(len(names))
    >>> names.append(2)
    2
    """

    notify: Callable[[], None] | None = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(self),)


class WatchedDict(dict[Any, Any]):
    """A dict that calls a function after each new entry; copies are plain dicts."""

    notify: Callable[[], None] | None = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self),)


def _telling(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        if self.notify is not None:
            self.notify()
        return result

    return call


for _kind, _names in (
    (WatchedList, ("append", "extend", "insert", "__setitem__", "__iadd__")),
    (WatchedDict, ("__setitem__", "update", "setdefault", "__ior__")),
):
    for _name in _names:
        setattr(_kind, _name, _telling(getattr(_kind, _name)))


def watched(value: Any, notify: Callable[[], None]) -> Any:
    """Return a plain list or dict as one that calls `notify`, and other values as they are.

    >>> watched((1, 2), print)
    (1, 2)
    """
    if type(value) not in (list, dict):
        return value
    found: Any = WatchedList(value) if type(value) is list else WatchedDict(value)
    found.notify = notify
    return found
