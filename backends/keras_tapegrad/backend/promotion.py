"""The dtype of a result by Keras' rules."""

from __future__ import annotations

from typing import Any

from keras.src.backend import config
from keras.src.backend.common import dtypes as keras_dtypes, standardize_dtype


def result_type(*dtypes: Any) -> str:
    """Return the common dtype of some dtypes and classes of Python numbers.

    Keras turns float64 into float32. With `keras.config.set_floatx("float64")` it stays float64.
    """
    found = str(keras_dtypes.result_type(*dtypes))
    if found == "float32" and config.floatx() == "float64" and any([_is_wide(d) for d in dtypes]):
        return "float64"
    return found


def _is_wide(dtype: Any) -> bool:
    return not isinstance(dtype, type) and bool(standardize_dtype(dtype) == "float64")
