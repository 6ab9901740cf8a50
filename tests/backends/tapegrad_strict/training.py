"""Batches of rows that the host chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad_strict.namespace import pack, unpack


class Rows:
    """Takes rows by NumPy's indexing."""

    def take(self, arrays: Sequence[Any], rows: np.ndarray) -> list[Any]:
        return [pack(unpack(array)[rows]) for array in arrays]

    def place(self, arrays: Sequence[np.ndarray], rows: np.ndarray, like: Any) -> list[Any]:
        return [pack(array[rows]) for array in arrays]
