"""Conversion of numbers, lists, arrays and variables to tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import described
from tapegrad.core.backend.registry import backend_of, find_backend
from tapegrad.core.recorder import active_stack
from tapegrad.core.values import host
from tapegrad.core.values.dlpack import import_array, is_elsewhere
from tapegrad.core.values.dtypes import numpy_dtype, refuse_unsupported
from tapegrad.core.values.shared import copy_of, make_private, share
from tapegrad.core.values.sizes import Size, SizeRatio
from tapegrad.core.values.tensor import SharedTensor, Tensor, wrap
from tapegrad.errors import ArgumentError, ArgumentTypeError, DeviceError


class TextFoundError(ArgumentTypeError):
    """Raised where numbers are needed and text was found: see `tapegrad.core.values.strings`."""


NUMBERS = frozenset({float, int, bool, complex, Size, SizeRatio})
"""Python numbers, which adapt to the dtype of the other operand."""

_KIND_ORDER = "biufc"
_NUMPYS = (np.ndarray, np.generic)
_HOST_TYPES = (*_NUMPYS, float, int, list, tuple)
_PYTHON_VALUES = (float, int, complex, list, tuple)
_ARRAYS = ("__array__", "__array_interface__", "__array_struct__", "__dlpack__")
_NO_NUMBERS = "OSUTMm"
"""NumPy's kinds of objects, strings, dates and time differences."""

_TEXT = "OSUT"
"""Kinds that may hold text."""

_USUAL = {kind.char: kind for kind in map(np.dtype, "?bBhHiIlLqQefdFD")}
"""NumPy's own objects for the common dtypes, by their letter."""

_DEFAULTS = {"float64": "float32", "int64": "int32"}
_adapters: dict[type, Callable[[Any], Any]] = {}


def register_tensor_conversion_function(
    base_type: Any, conversion_func: Any, priority: int = 100
) -> None:
    """Register a function that converts values of `base_type` to tensors; the latest one counts.

    >>> import tapegrad
    >>> class Percent:
    ...     value = 25
    >>> register_tensor_conversion_function(Percent, lambda x: tapegrad.constant(x.value / 100))
    >>> float(tapegrad.sqrt(Percent()))
    0.5
    """
    if not isinstance(base_type, type) or not callable(conversion_func):
        raise ArgumentTypeError(
            "register_tensor_conversion_function needs a class and a function. "
            f"Got {described(base_type)} and {described(conversion_func)}."
        )
    _adapters[base_type] = conversion_func


def adapter_of(value: Any) -> Callable[[Any], Any] | None:
    """Return the function that turns `value` into a tensor, if its type has one."""
    for kind in type(value).__mro__:
        if kind in _adapters:
            return _adapters[kind]
    return None


def adapted(value: Any) -> Any:
    """Return the value, converted if a conversion function is registered for its type."""
    adapter = adapter_of(value)
    converted = NotImplemented if adapter is None else adapter(value)
    return value if converted is NotImplemented else converted


def to_tensor(value: Any, dtype: Any = None, like: Tensor | None = None) -> Tensor:
    """Return `value` if it is a tensor, else a copy of it as a tensor.

    `like` sets the device and, if no information is lost, the dtype of host values.
    """
    if isinstance(value, Tensor):
        if type(value) is SharedTensor and active_stack().tokens:
            make_private(value)
        return value
    converted = adapted(value)
    if converted is not value:
        return converted  # type: ignore[no-any-return]
    on_device = device_array(value)
    if on_device is not None:
        array = on_device if dtype is None else with_dtype(on_device, dtype)
        if array is not on_device:
            return wrap(array)
        return wrap(copy_of(array)) if active_stack().tokens else share(array)
    array = to_host_array(value, dtype, like)
    return wrap(host.place(array) if like is None else host.place_like(array, like.array))


def to_arrays(values: Sequence[np.ndarray]) -> list[Any]:
    """Return copies of NumPy arrays of numbers, the arguments of a call, on the current device.

    They are copied as `to_tensor` does it, but together where the device can do that.
    """
    if any([adapter_of(value) is not None for value in values]):
        return [to_tensor(value).array for value in values]
    for value in values:
        refuse_unsupported(value.dtype, type(value).__name__)
    return host.place_together([with_usual_dtype(value) for value in values], as_one=True)


def to_tensors(values: Sequence[Any]) -> list[Tensor]:
    """Return copies of host values, e.g. of a batch, as tensors on the current device.

    They are copied together where the device can do that.
    """
    if any([adapter_of(value) is not None for value in values]):
        return [to_tensor(value) for value in values]
    return [wrap(array) for array in host.place_together([to_host_array(one) for one in values])]


def device_array(value: Any) -> Any:
    """Return `value` as a raw array if it is one of a backend or lies on a device, else None.

    Nothing is copied.
    """
    if isinstance(value, _HOST_TYPES):
        return None
    backend = find_backend(type(value))
    if backend is not None:
        refuse_unsupported(backend.dtype_of(value), type(value).__name__)
        return value
    return import_array(value) if is_elsewhere(value) else None


def with_dtype(array: Any, dtype: Any) -> Any:
    """Return a raw array cast to a dtype, or the array itself if it has that dtype."""
    backend, wanted = backend_of(array), numpy_dtype(dtype)
    if backend.dtype_of(array) == wanted:
        return array
    return backend.xp.astype(array, wanted)


def copy_of_device_array(value: Any, dtype: Any) -> Any:
    """Return a copy of `device_array(value)` on its device, or None."""
    array = device_array(value)
    if array is None:
        return None
    xp = backend_of(array).xp
    return xp.asarray(array if dtype is None else with_dtype(array, dtype), copy=True)


_RAGGED = (
    "its lists have different lengths; pad them, or use tapegrad.ragged.constant for lists of "
    "numbers of any length"
)


def to_host_array(value: Any, dtype: Any = None, like: Tensor | None = None) -> Any:
    """Return `value` as a NumPy array with the dtype that TensorFlow would choose."""
    if isinstance(value, str | bytes):
        raise TextFoundError(f"Expected numbers. Got the text {value!r}.")
    if value is None:
        raise ArgumentTypeError("Expected numbers. Got None.")
    first = _first_of(value)
    _refuse_masked(first)
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RecursionError) as error:
        is_ragged = "inhomogeneous" in str(error)
        reason = _RAGGED if is_ragged else str(error).rstrip(".")
        raise ArgumentTypeError(
            f"Cannot turn {type(value).__name__} into a tensor: {reason}."
        ) from error
    array = with_usual_dtype(array)
    if array.dtype.kind in _NO_NUMBERS:
        is_text = array.dtype.kind in _TEXT
        raise (TextFoundError if is_text else ArgumentTypeError)(
            f"Cannot turn {type(value).__name__} into a tensor: it {_what_it_holds(value, array)}."
        )
    if dtype is not None:
        wanted = numpy_dtype(dtype)
        if not _has_dtype(first):
            _refuse_to_wrap(array, wanted)
        return array.astype(wanted)
    refuse_unsupported(array.dtype, type(value).__name__)
    if like is not None and _fits(array, like):
        return array.astype(backend_of(like.array).dtype_of(like.array))
    if _has_dtype(first):
        return array
    if like is not None and isinstance(value, list | tuple) and _widens(like):
        return array
    return _with_default_dtype(array)


def _has_dtype(value: Any) -> bool:
    """Whether a value chose its dtype: NumPy's arrays and scalars, data frames, buffers.

    Python's numbers have none, and neither have lists and other sequences of them.
    """
    if isinstance(value, _NUMPYS):
        return True
    if isinstance(value, _PYTHON_VALUES):
        return False
    if any([hasattr(type(value), name) for name in _ARRAYS]):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def with_usual_dtype(array: np.ndarray) -> np.ndarray:
    """Return an array with NumPy's own object for its dtype, in the byte order of this machine.

    Arrays from files and other processes may have an equal dtype that is another object. Compiled
    loops know the usual object only, and leave other arrays to kernels that round differently.
    """
    if _USUAL.get(array.dtype.char) is array.dtype:
        return array
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    usual: np.dtype[Any] = np.dtype(array.dtype.type)
    return array if usual is array.dtype or usual != array.dtype else array.view(usual)


def _what_it_holds(value: Any, array: np.ndarray) -> str:
    if type(value).__module__.startswith(("scipy.sparse", "cupyx.scipy.sparse")):
        return "is sparse. Give it to tapegrad.scipy.sparse.csr_array, or take toarray()"
    return f"holds {array.dtype} values, not numbers"


def read_on_host(value: Any, how: str) -> np.ndarray:
    """Return a value as a NumPy array, for a function whose result shape depends on the values.

    `how` is the name of that function. On a device this waits for all queued work.
    """
    value = adapted(value)
    if isinstance(value, Tensor):
        return host.fetch(value.array, value.node, how)
    _refuse_masked(value)
    is_raw = find_backend(type(value)) is not None
    return host.fetch(value, None, how) if is_raw else np.asarray(value)


def _fits(array: np.ndarray, like: Tensor) -> bool:
    """Whether the dtype of `like` can represent the values of the array."""
    dtype = backend_of(like.array).dtype_of(like.array)
    kind = "f" if dtype.kind == "V" else dtype.kind  # bfloat16 has NumPy's kind "V"
    given = "i" if array.dtype.kind == "u" else array.dtype.kind
    if _KIND_ORDER.find(given) > _KIND_ORDER.find(kind):
        return False
    return kind not in "iu" or array.dtype.kind == "b" or _has_room(dtype, array)


def _has_room(dtype: np.dtype[Any], integers: np.ndarray) -> bool:
    given = integers.dtype
    if not integers.size or (given.kind == dtype.kind and given.itemsize <= dtype.itemsize):
        return True
    bits = 8 * dtype.itemsize - (dtype.kind == "i")
    lowest = -(1 << bits) if dtype.kind == "i" else 0
    return lowest <= int(integers.min()) and int(integers.max()) < 1 << bits


def _refuse_to_wrap(array: np.ndarray, dtype: np.dtype[Any]) -> None:
    """Raise if Python integers would overflow the dtype, as NumPy does."""
    if array.dtype.kind in "iu" and dtype.kind in "iu" and not _has_room(dtype, array):
        raise ArgumentError(
            f"{dtype} cannot hold {_range_of(array)}. Use a wider dtype, or wrap the numbers with "
            f"np.asarray(x).astype({dtype.name!r})."
        )


def _range_of(integers: np.ndarray) -> str:
    low, high = int(integers.min()), int(integers.max())
    return f"the integer {low}" if low == high else f"integers from {low} to {high}"


def _widens(like: Tensor) -> bool:
    """Whether floats and these integers promote to float64, so that floats keep their precision."""
    dtype = backend_of(like.array).dtype_of(like.array)
    return dtype.kind in "iu" and dtype.itemsize >= 4


def has_mask(value: Any) -> bool:
    """Whether this is a NumPy masked array. Does not import `np.ma`, which is slow."""
    is_plain = type(value) is np.ndarray or not isinstance(value, np.ndarray)
    return not is_plain and isinstance(value, np.ma.MaskedArray)


def _refuse_masked(value: Any) -> None:
    """Raise for NumPy masked arrays, because the mask would be lost."""
    if has_mask(value):
        raise ArgumentTypeError(
            "Tensors have no mask, so the masked elements would count. Fill them first, "
            "array.filled(0.0), or keep the mask as a separate tensor and use tapegrad.where."
        )


def _first_of(value: Any) -> Any:
    """The first leaf of nested lists."""
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return value


def _with_default_dtype(array: np.ndarray) -> np.ndarray:
    wanted = _DEFAULTS.get(array.dtype.name)
    if wanted is None:
        return array
    if wanted == "int32" and not _has_room(np.dtype(wanted), array):
        return array
    return array.astype(wanted)


def refuse_mixed_devices(name: str, arrays: list[Any]) -> None:
    """Raise an error that names the devices if the arrays are on several."""
    devices = host.devices_of(arrays)
    if len(devices) > 1:
        raise DeviceError(
            f"{name} got tensors on {' and '.join(devices)}. Move one of them with "
            f"tapegrad.to_device(x, {devices[0]!r})."
        )
