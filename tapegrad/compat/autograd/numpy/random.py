"""The names of numpy.random; on a device other than the CPU, results are moved there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as _np  # noqa: ICN001  # np would be one of the names here
from numpy import random as _host

from tapegrad.compat.autograd.values import (
    as_tensor as _as_tensor,
    map_leaves as _map_leaves,
    raw as _raw,
    uses_tensors as _uses_tensors,
)

__all__ = [name for name in _host.__all__ if not name.startswith("_")]


def _placed(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Call NumPy with the values of the arguments, and move the resulting arrays to the device."""

    @functools.wraps(draw)
    def call(*args: Any, **kwargs: Any) -> Any:
        value = draw(*_map_leaves(_host_value, args), **kwargs)
        if _uses_tensors() and isinstance(value, _np.ndarray):
            return _as_tensor(value)
        return value

    return call


def _host_value(value: Any) -> Any:
    constant = _raw(value)
    return constant.numpy() if hasattr(constant, "numpy") else constant


def __getattr__(name: str) -> Any:
    if name.startswith("__") or not hasattr(_host, name):
        raise AttributeError(f"numpy.random has no {name!r}.")
    found = getattr(_host, name)
    if callable(found) and not isinstance(found, type):
        found = _placed(found)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
