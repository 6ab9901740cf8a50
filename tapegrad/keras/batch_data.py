"""The structure of a batch, and PyDataset, the base class of user-defined data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tapegrad.errors import ArgumentError

Batch = tuple[Any, Any, Any]


def unpack(data: Any) -> Batch:
    """Return the input, target and sample weights of a batch; missing parts are None.

    >>> unpack((1, 2)), unpack(3)
    ((1, 2, None), (3, None, None))
    """
    if not isinstance(data, tuple):
        return data, None, None
    if len(data) > 3:
        raise ArgumentError(
            "A batch must be an input, (input, target) or (input, target, sample weights). "
            f"Got {len(data)} entries."
        )
    return (*data, *[None] * (3 - len(data)))


def pack(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Return the argument of a step for a batch; a single input is not put into a tuple.

    An input that is a list or tuple is put into a tuple.

    >>> pack(1, 2), pack(3), pack([4, 5])
    ((1, 2), 3, ([4, 5],))
    """
    if y is None:
        return (x,) if isinstance(x, list | tuple) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


class PyDataset:
    """Base class of data by batches: subclasses define `__len__` and `__getitem__`.

    `workers`, `use_multiprocessing` and `max_queue_size` are stored but ignored.

    >>> class Squares(PyDataset):
    ...     def __len__(self):
    ...         return 3
    ...     def __getitem__(self, index):
    ...         return index**2
    >>> list(Squares())
    [0, 1, 4]
    """

    repeats = False
    """Whether iteration never ends; `fit` and others then take the batches of one pass."""

    def __init__(
        self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10
    ) -> None:
        self.workers, self.use_multiprocessing = workers, use_multiprocessing
        self.max_queue_size = max_queue_size

    def __len__(self) -> int:
        raise NotImplementedError(
            f"{type(self).__name__} must define __len__, the number of batches."
        )

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} must define __getitem__, which returns a batch."
        )

    @property
    def num_batches(self) -> int:
        return len(self)

    def on_epoch_end(self) -> None:
        """Run after each epoch. Subclasses may override this, for example to shuffle."""

    def in_order(self, order: Any) -> Iterator[Any]:
        """Yield the batches with these indices, then end the epoch."""
        for index in order:
            yield self[int(index)]
        self.on_epoch_end()

    def __iter__(self) -> Iterator[Any]:
        return self.in_order(range(len(self)))
