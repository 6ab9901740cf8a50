"""The Array API's inspection: devices, dtypes and capabilities."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.device import current_device, list_devices, resolve_device
from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.errors import ArgumentError
from tapegrad.numpy.dtypes import KINDS

_STANDARD = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)


class Info:
    """The result of `__array_namespace_info__`.

    >>> Info().default_dtypes()["real floating"]
    <dtype: 'float64'>
    """

    __module__ = "tapegrad.numpy"

    def capabilities(self) -> dict[str, Any]:
        """Return the optional capabilities, and the maximum number of axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the device on which new arrays are placed."""
        return current_device()

    def devices(self) -> list[str]:
        """Return all available devices."""
        return list(list_devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the default dtypes of new arrays."""
        _known(device)
        return {
            "real floating": as_dtype("float64"),
            "complex floating": as_dtype("complex128"),
            "integral": as_dtype("int64"),
            "indexing": as_dtype("int64"),
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """Return the standard's dtypes, all or those of given kinds."""
        _known(device)
        kinds = tuple(KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        if not set(kinds) <= set(KINDS):
            raise ArgumentError(f"kind must be one of {', '.join(KINDS)}. Got {kind!r}.")
        wanted = "".join(KINDS[each] for each in kinds)
        return {name: as_dtype(name) for name in _STANDARD if as_dtype(name).kind in wanted}


def _known(device: Any) -> None:
    if device is not None:
        resolve_device(device)


def __array_namespace_info__() -> Info:  # noqa: N807 -- the Array API's name
    """Return an object that describes devices and dtypes.

    >>> "cpu" in __array_namespace_info__().devices()
    True
    """
    return Info()
