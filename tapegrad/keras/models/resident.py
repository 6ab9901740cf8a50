"""Keep small arrays on the device and gather the batches of an epoch there.

A copy from the host for each batch takes longer than the step of a small network. Arrays that are
small compared to the device memory are therefore copied once, and one launch per array gathers the
rows of many batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.device import current_device
from tapegrad.core.values.tensor import Tensor
from tapegrad.data.resident import MOST_BYTES
from tapegrad.ops.indexing.gather import gather

BLOCK_BYTES = 32 << 20
"""How many bytes one gather produces at most."""


def on_device(arrays: Any, narrow: Callable[[Any], Any]) -> Any:
    """Return NumPy arrays as tensors, after a cast by `narrow`, if they fit on the device.

    On the CPU the arrays are returned unchanged.
    """
    found = [leaf for leaf in nest.flatten(arrays) if isinstance(leaf, np.ndarray)]
    if current_device() == "cpu" or sum(leaf.nbytes for leaf in found) > MOST_BYTES:
        return arrays

    def placed(leaf: Any) -> Any:
        return to_tensor(narrow(leaf)) if isinstance(leaf, np.ndarray) else leaf

    return nest.map_structure(placed, arrays)


def are_on_device(arrays: Any) -> bool:
    """Return whether all arrays are tensors."""
    leaves = nest.flatten(arrays)
    return all(leaf is None or isinstance(leaf, Tensor) for leaf in leaves)


def shuffled_batches(arrays: Any, order: Any, size: int) -> Iterator[Any]:
    """Yield batches of `size` rows of tensors, in an order given by NumPy indices.

    >>> import tapegrad
    >>> x = tapegrad.constant([10, 11, 12])
    >>> [batch.tolist() for batch in shuffled_batches(x, np.array([2, 0, 1]), 2)]
    [[12, 10], [11]]
    """
    leaves = [leaf for leaf in nest.flatten(arrays) if leaf is not None]
    row = sum(leaf.nbytes for leaf in leaves) // max(len(order), 1)
    block = size * max(1, BLOCK_BYTES // max(row * size, 1))
    for start in range(0, len(order), block):
        rows = to_tensor(order[start : start + block])
        gathered = nest.map_structure(partial(_gathered, rows), arrays)
        for first in range(0, rows.shape[0], size):
            yield nest.map_structure(partial(_cut, slice(first, first + size)), gathered)


def _gathered(rows: Any, array: Any) -> Any:
    return None if array is None else gather(array, rows)


def _cut(rows: slice, array: Any) -> Any:
    return None if array is None else array[rows]
