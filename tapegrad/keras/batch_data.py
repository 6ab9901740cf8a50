"""What a batch is to a step, and data that a class of one's own gives batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tapegrad.errors import ArgumentError

Batch = tuple[Any, Any, Any]


def unpack(data: Any) -> Batch:
    """Return input, target and sample weights of a batch; what is not there is None.

    >>> unpack((1, 2)), unpack(3)
    ((1, 2, None), (3, None, None))
    """
    if not isinstance(data, tuple):
        return data, None, None
    if len(data) > 3:
        raise ArgumentError(
            "A batch is an input, (input, target) or (input, target, sample weights). "
            f"Got {len(data)} entries."
        )
    return (*data, *[None] * (3 - len(data)))


def pack(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Return what a step is given for a batch: an input alone, unless it has parts, as it is.

    >>> pack(1, 2), pack(3), pack([4, 5])
    ((1, 2), 3, ([4, 5],))
    """
    if y is None:
        return (x,) if isinstance(x, list | tuple) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


class PyDataset:
    """Base of data that is made batch by batch: subclasses define `__len__` and `__getitem__`.

    `workers`, `use_multiprocessing` and `max_queue_size` are kept and change nothing.

    >>> class Squares(PyDataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, index):
    ...         return index**2
    >>> list(Squares())
    [0, 1, 4]
    """

    def __init__(
        self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10
    ) -> None:
        self.workers, self.use_multiprocessing = workers, use_multiprocessing
        self.max_queue_size = max_queue_size

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__: how many batches.")

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__: a batch.")

    @property
    def num_batches(self) -> int:
        return len(self)

    def on_epoch_end(self) -> None:
        """Do what comes after an epoch, as shuffling; subclasses say what."""

    def in_order(self, order: Any) -> Iterator[Any]:
        """Yield the batches of these numbers; the epoch ends then."""
        for index in order:
            yield self[int(index)]
        self.on_epoch_end()

    def __iter__(self) -> Iterator[Any]:
        return self.in_order(range(len(self)))
