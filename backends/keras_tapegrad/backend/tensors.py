"""Conversion to tensors and dtypes by Keras' rules."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend import config
from keras.src.backend.common import KerasVariable, standardize_dtype

import tapegrad as tg
from keras_tapegrad.backend.promotion import result_type


def convert_to_tensor(
    x: Any, dtype: Any = None, sparse: bool | None = None, ragged: bool | None = None
) -> Any:
    """Return `x` as a tensor, with Keras' default dtypes: float32 and int32 for Python numbers."""
    if sparse or ragged:
        kind = "sparse" if sparse else "ragged"
        raise ValueError(f"`{kind}=True` is not supported with tapegrad backend")
    if dtype is None and type(x) is np.ndarray and x.dtype.kind not in "OSU":
        return _from_array(x, _array_dtype(x.dtype, config.floatx()))
    wanted = None if dtype is None else standardize_dtype(dtype)
    if isinstance(x, KerasVariable):
        x = x.value
    if isinstance(x, tg.Variable):
        x = x.shared_value()
    if tg.is_tensor(x):
        return x if wanted is None or x.dtype.name == wanted else tg.cast(x, wanted)
    if hasattr(x, "device") and hasattr(x, "__dlpack__") and not isinstance(x, np.ndarray):
        found = tg.convert_to_tensor(x)  # an array on a device
        return found if wanted in (None, found.dtype.name) else tg.cast(found, wanted)
    if isinstance(x, list | tuple) and _holds_tensors(x):
        return _stacked(x, wanted)
    array = np.asarray(x)
    if wanted in (None, "string") and _is_text(array):
        return tg.constant(array)
    if wanted is None:
        wanted = _usual_dtype(x)
    if array.dtype.kind in "OSU":
        raise ValueError(
            f"Expected numbers for a tensor. Got {type(x).__name__} of dtype {array.dtype}: {x!r}."
        )
    with np.errstate(invalid="ignore", over="ignore"):
        return tg.constant(array if array.dtype.name == wanted else array.astype(wanted))


@cache
def _array_dtype(dtype: Any, floatx: str) -> Any:
    """Return the dtype of a tensor for an array; `floatx` is a part of the cache's key."""
    name = result_type(dtype.name)
    return dtype if dtype.name == name else np.dtype(name)


def _from_array(array: Any, dtype: Any) -> Any:
    """Return an array as a tensor: the shortest way, for the batches of each step."""
    if array.dtype is dtype or array.dtype == dtype:
        return tg.constant(array)
    with np.errstate(invalid="ignore", over="ignore"):
        return tg.constant(array.astype(dtype))


def _is_text(array: Any) -> bool:
    if array.dtype.kind in "SU":
        return True
    return array.dtype.kind == "O" and all([isinstance(x, str | bytes) for x in array.flat])


def _usual_dtype(x: Any) -> str:
    return str(result_type(*{_kind_of(item) for item in tree.flatten(x)}))


def _kind_of(x: Any) -> Any:
    """Return the dtype of an array, or the class of a Python number, for `result_type`.

    Sizes are of subclasses of int and float while a function is recorded.
    """
    if hasattr(x, "dtype"):
        return x.dtype
    kinds = [kind for kind in (bool, int, float, complex) if isinstance(x, kind)]
    return kinds[0] if kinds else type(x)


def _holds_tensors(x: Any) -> bool:
    return any(
        [
            _holds_tensors(entry)
            if isinstance(entry, list | tuple)
            else tg.is_tensor(entry) or isinstance(entry, KerasVariable | tg.Variable)
            for entry in x
        ]
    )


def _stacked(x: Any, wanted: str | None) -> Any:
    if wanted is None:
        wanted = _usual_dtype(x)
    return tg.stack([convert_to_tensor(entry, wanted) for entry in x])


def dtype_of(x: Any) -> Any:
    """Return the dtype of a value, or the type of a Python number, for `result_type`."""
    is_known = hasattr(x, "dtype") or isinstance(x, int | float | complex)
    return _kind_of(x) if is_known else convert_to_tensor(x).dtype


def common(*xs: Any, also: tuple[Any, ...] = ()) -> list[Any]:
    """Return the values as tensors of their common dtype; Python numbers adapt to the others."""
    xs = tuple([x if _is_number(x) else convert_to_tensor(x) for x in xs])
    dtype = result_type(*[dtype_of(x) for x in xs], *also)
    return [convert_to_tensor(x, dtype) for x in xs]


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and not hasattr(x, "dtype")


def cast_to(x: Any, dtype: Any) -> Any:
    """Return a tensor, or all tensors of a list or tuple, in a dtype."""
    if isinstance(x, list | tuple):
        return type(x)([cast_to(part, dtype) for part in x])
    return convert_to_tensor(x, dtype)


def floating_dtype(x: Any) -> str:
    """Return the dtype of functions such as sin: `floatx` for int64, as in Keras."""
    name = standardize_dtype(x.dtype)
    return str(standardize_dtype(None) if name == "int64" else result_type(name, float))


def is_whole(x: Any) -> bool:
    """Whether a tensor holds integers or booleans."""
    name = standardize_dtype(x.dtype)
    return "int" in name or name == "bool"


def axes_of(axis: Any) -> Any:
    """Return an axis as an int, or axes as a tuple of ints."""
    if isinstance(axis, list | tuple):
        return tuple([int(one) for one in axis])
    return axis if axis is None else int(axis)
