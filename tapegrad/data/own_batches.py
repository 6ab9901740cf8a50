"""Datasets that are not divided among replicas, because each process has other data already."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values import nest
from tapegrad.data.dataset import Dataset
from tapegrad.data.options import AutoShardPolicy


def is_divided_by_program(dataset: Any) -> bool:
    """Return whether the options of a dataset switch automatic sharding off.

    >>> is_divided_by_program(Dataset.range(3))
    False
    """
    if not isinstance(dataset, Dataset):
        return False
    options: Any = dataset.options()
    return bool(options.experimental_distribute.auto_shard_policy == AutoShardPolicy.OFF)


def own_batches(dataset: Dataset, parts: int) -> Dataset:
    """Return a dataset in which each batch is cut into as many batches as there are replicas.

    This process computes all of them, so that it sees all of its data. Batches have the size that
    the program has chosen for all replicas together.

    >>> [x.tolist() for x in own_batches(Dataset.range(6).batch(4), 2)]
    [[0, 1], [2, 3], [4], [5]]
    """

    def pieces(*batch: Any) -> Dataset:
        rows = int(nest.flatten(batch)[0].shape[0])
        one_by_one = Dataset.from_tensor_slices(batch[0] if len(batch) == 1 else batch)
        return one_by_one.batch(max(1, -(-rows // parts)))

    found = dataset.flat_map(pieces)
    found.is_distributed = True  # type: ignore[attr-defined]  # `fit` and strategies read it
    return found
