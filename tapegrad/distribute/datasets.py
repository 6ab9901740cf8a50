"""Parts of batches for the replicas of a strategy."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values import nest
from tapegrad.errors import ArgumentTypeError


def part_of(count: int, place: int, parts: int) -> tuple[int, int]:
    """Return the first row of a part, and the one after its last; sizes differ by one at most.

    >>> [part_of(10, place, 4) for place in range(4)]
    [(0, 3), (3, 6), (6, 8), (8, 10)]
    """
    size, more = divmod(count, parts)
    first = place * size + min(place, more)
    return first, first + size + (place < more)


def distribute_batches(dataset: Any, place: int, parts: int) -> Any:
    """Return a dataset of the part of each batch that belongs to one replica.

    A last batch with fewer rows than there are replicas leaves some of them without rows.

    >>> import tapegrad
    >>> batches = tapegrad.data.Dataset.range(5).batch(4)
    >>> [one.tolist() for one in distribute_batches(batches, 1, 2)]
    [[2, 3], []]
    """
    if not hasattr(dataset, "map"):
        raise ArgumentTypeError(
            "experimental_distribute_dataset takes a tapegrad.data.Dataset. "
            f"Got {type(dataset).__name__}."
        )

    def part(*batch: Any) -> Any:
        def rows(x: Any) -> Any:
            first, end = part_of(x.shape[0], place, parts)
            return x[first:end]

        found = nest.map_structure(rows, batch)
        return found[0] if len(batch) == 1 else found

    return mark_distributed(dataset.map(part))


def mark_distributed(dataset: Any) -> Any:
    """Note that the batches of a dataset are those of one replica."""
    dataset.is_distributed = True
    return dataset
