"""DLPack: exchange arrays with other libraries without a copy."""

from __future__ import annotations

import ctypes
from typing import Any

from tapegrad.core.backend.protocol import Array
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.values.device import backend_for
from tapegrad.core.values.dtypes import refuse_unsupported
from tapegrad.errors import ArgumentTypeError, DeviceError

_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}
"""DLPack's device types: host, CUDA, page-locked host, managed CUDA memory."""

# Offset of the device in the struct that a capsule points to, by the capsule's name.
_DEVICE_AT = {b"dltensor": 8, b"dltensor_versioned": 40}

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype = ctypes.c_char_p
_get_name.argtypes = [ctypes.py_object]


class _Capsule:
    """Gives a bare capsule the DLPack methods of an array."""

    def __init__(self, capsule: Any) -> None:
        name = _get_name(capsule)
        if name not in _DEVICE_AT:
            raise ArgumentTypeError(
                f"from_dlpack cannot take a capsule called {(name or b'').decode()!r}: a capsule "
                "can be taken over once only."
            )
        address = (_get_pointer(capsule, name) or 0) + _DEVICE_AT[name]
        self._device = tuple((ctypes.c_int32 * 2).from_address(address))
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, ...]:
        return self._device


def is_elsewhere(value: Any) -> bool:
    """Whether this is a DLPack array in memory that NumPy cannot read."""
    ask = getattr(value, "__dlpack_device__", None)
    if ask is None or isinstance(value, type):  # a class has it as a function of its objects
        return False
    return _DEVICES.get(int(ask()[0])) != "cpu"


def import_array(value: Any) -> Array:
    """Return the array of another library, or a DLPack capsule, as a backend's array.

    The memory is shared, so later writes by that library are visible here.
    """
    if type(value).__name__ == "PyCapsule":
        value = _Capsule(value)
    elif isinstance(value, type) or not (
        hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")
    ):
        raise ArgumentTypeError(
            "from_dlpack takes an array with __dlpack__ and __dlpack_device__, or a capsule made "
            f"by to_dlpack. Got {type(value).__name__}."
        )
    kind = int(value.__dlpack_device__()[0])
    if kind not in _DEVICES:
        raise DeviceError(
            f"from_dlpack takes arrays in host memory or on CUDA devices. Got one on a device of "
            f"DLPack's type {kind}; copy it to the host first."
        )
    backend = backend_for(_DEVICES[kind])
    try:
        array = backend.xp.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"from_dlpack cannot take this {type(value).__name__}: {str(error).rstrip('.')}."
        ) from error
    refuse_unsupported(backend.dtype_of(array), type(value).__name__)
    return array


def export_array(array: Array, stream: Any, max_version: Any, device: Any, copy: Any) -> Any:
    """Return a DLPack capsule of the array, or of a copy if `copy` or `device` requires one."""
    own = tuple(array.__dlpack_device__())
    stays = device is None or tuple(device) == own
    if not stays and copy is False:
        raise BufferError(
            f"__dlpack__ must copy to get from DLPack's device {own} to {tuple(device)}; leave out "
            "copy=False to allow it."
        )
    if stays and copy:
        array, copy = backend_of(array).xp.asarray(array, copy=True), None
    wanted = {"max_version": max_version, "dl_device": None if stays else device, "copy": copy}
    options = {name: value for name, value in wanted.items() if value is not None}
    return array.__dlpack__(stream=stream, **options)
