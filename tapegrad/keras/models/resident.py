"""Small arrays that stay on the device, where an epoch's batches are gathered from them.

A copy from the host for each batch takes longer than the step of a small network. So arrays that
are small beside the memory of a device are copied there once, and rows are gathered for many
batches by one launch per array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tapegrad.core import nest
from tapegrad.core.convert import to_tensor
from tapegrad.core.device import current_device
from tapegrad.core.tensor import Tensor
from tapegrad.data.resident import MOST_BYTES
from tapegrad.ops.gather import gather

BLOCK_BYTES = 32 << 20
"""How much is gathered at once."""


def on_device(arrays: Any, narrow: Callable[[Any], Any]) -> Any:
    """Return NumPy's arrays as tensors, made by `narrow` first, if they may stay on the device.

    On the CPU there is nothing to gain: they come back as they are.
    """
    found = [leaf for leaf in nest.flatten(arrays) if isinstance(leaf, np.ndarray)]
    if current_device() == "cpu" or sum(leaf.nbytes for leaf in found) > MOST_BYTES:
        return arrays

    def placed(leaf: Any) -> Any:
        return to_tensor(narrow(leaf)) if isinstance(leaf, np.ndarray) else leaf

    return nest.map_structure(placed, arrays)


def are_on_device(arrays: Any) -> bool:
    """Tell whether all arrays are tensors already."""
    leaves = nest.flatten(arrays)
    return all(leaf is None or isinstance(leaf, Tensor) for leaf in leaves)


def shuffled_batches(arrays: Any, order: Any, size: int) -> Iterator[Any]:
    """Yield batches of `size` rows of tensors in an order, given as NumPy's indices.

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
