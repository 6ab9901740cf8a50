"""Ragged rows, as functions of text return them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.values.strings import text_array
from tapegrad.ragged.tensor import RaggedTensor as Ragged
from tapegrad.sparse.tensor import as_tensor

__all__ = ["Ragged", "as_tensor", "mapped"]


def mapped(function: Callable[[np.ndarray], np.ndarray], value: Any) -> Any:
    """Apply a function of an array of bytes to text, or to the elements of ragged rows.

    >>> mapped(lambda texts: texts + b"!", ["a"]).tolist()
    [b'a!']
    """
    if isinstance(value, Ragged):
        return value.with_flat_values(as_tensor(function(text_array(value.flat_values))))
    return as_tensor(np.asarray(function(text_array(value))))
