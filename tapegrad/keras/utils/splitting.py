"""split_dataset: split a dataset into two."""

from __future__ import annotations

from typing import Any

from tapegrad.data.constants import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.dataset import Dataset
from tapegrad.errors import ArgumentError


def split_dataset(
    dataset: Any,
    left_size: float | None = None,
    right_size: float | None = None,
    shuffle: bool = False,
    seed: int | None = None,
) -> tuple[Dataset, Dataset]:
    """Split a dataset, or arrays of equal length, into two datasets.

    A size is a fraction between 0 and 1 or a number of elements. If one size is omitted, that side
    gets the rest. With `shuffle`, elements are assigned at random, the same in every pass.

    >>> import numpy as np
    >>> left, right = split_dataset(np.arange(10), left_size=0.8)
    >>> len(left), [int(x) for x in right]
    (8, [8, 9])
    """
    if isinstance(dataset, list):  # a list of arrays would be converted to one array
        dataset = tuple(dataset)
    whole = dataset if isinstance(dataset, Dataset) else Dataset.from_tensor_slices(dataset)
    total = int(whole.cardinality())
    if total == INFINITE_CARDINALITY:
        raise ArgumentError("An infinite dataset cannot be split. Use take and skip.")
    if total == UNKNOWN_CARDINALITY:
        total = sum(1 for _ in whole)
    left, right = _counts(left_size, right_size, total)
    if shuffle:
        whole = whole.shuffle(max(1, total), seed, reshuffle_each_iteration=False)
    return whole.take(left), whole.skip(total - right)


def _counts(left_size: float | None, right_size: float | None, total: int) -> tuple[int, int]:
    if left_size is None and right_size is None:
        raise ArgumentError("split_dataset takes left_size, right_size or both. Got neither.")
    left, right = _count("left_size", left_size, total), _count("right_size", right_size, total)
    left = total - right if left_size is None else left
    right = total - left if right_size is None else right
    if left + right > total:
        raise ArgumentError(
            f"left_size={left_size} and right_size={right_size} give {left} and {right} of "
            f"{total} elements. Their sum must not exceed the size of the dataset."
        )
    if not left or not right:
        raise ArgumentError(
            f"left_size={left_size} and right_size={right_size} leave one side of {total} elements "
            "empty. Both sides need at least one element."
        )
    return left, right


def _count(name: str, size: Any, total: int) -> int:
    if size is None:
        return 0
    is_number = isinstance(size, int | float) and not isinstance(size, bool)
    if not is_number or not (0 < size < 1 if isinstance(size, float) else 0 < size < total):
        raise ArgumentError(
            f"{name} must be a fraction between 0 and 1, or a number of elements from 1 to "
            f"{total - 1}. "
            f"Got {size!r}."
        )
    return round(size * total) if isinstance(size, float) else int(size)
