"""TensorFlow's `tf.queue`: queues of tensors on the host, for threads of one process."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.strings import string_tensor, text_array
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.errors import ArgumentError, CancelledError, OutOfRangeError, ShapeError
from tapegrad.ops.shape.joining import stack, unstack

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "QueueBase", "RandomShuffleQueue"]

_Element = tuple[Any, ...]


class QueueBase:
    """Base class of queues; an element is one tensor, or several of given dtypes.

    `enqueue` waits while the queue is full, and `dequeue` while it is empty, until another thread
    has taken or added an element or has closed the queue.

    >>> isinstance(FIFOQueue(3, ["int32"]), QueueBase)
    True
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "queue",
    ) -> None:
        several = dtypes if isinstance(dtypes, list | tuple) else [dtypes]
        self.dtypes = [as_dtype(one) for one in several]
        self.shapes = [TensorShape(one) for one in _as_shapes(shapes, len(several))]
        self.names = [names] if isinstance(names, str) else names
        self.name = shared_name or name
        self._capacity = capacity if capacity > 0 else None
        self._elements: list[_Element] = []
        self._is_closed = False
        self._changed = threading.Condition()

    def enqueue(self, vals: Any, name: str | None = None) -> None:
        """Add one element: a tensor, a list of its tensors, or a dictionary by the names."""
        self._add([tuple(self._checked(vals))])

    def enqueue_many(self, vals: Any, name: str | None = None) -> None:
        """Add elements: the slices of the tensors along their first axis."""
        parts = [unstack(one) if one.shape[0] else [] for one in self._checked(vals, many=True)]
        if len({len(one) for one in parts}) != 1:
            raise ShapeError("enqueue_many takes tensors of the same length.")
        self._add(list(zip(*parts)))

    def dequeue(self, name: str | None = None) -> Any:
        """Remove an element and return it: a tensor, a list, or a dictionary by the names."""
        return self._as_result(list(self._take(1, 1)[0]))

    def dequeue_many(self, n: int, name: str | None = None) -> Any:
        """Remove so many elements and return them with a first axis."""
        return self._joined(self._take(int(n), int(n)))

    def dequeue_up_to(self, n: int, name: str | None = None) -> Any:
        """Like `dequeue_many`, but return what there is if the queue is closed."""
        return self._joined(self._take(int(n), 1))

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements."""
        return to_tensor(np.int32(len(self._elements)))

    def is_closed(self, name: str | None = None) -> Tensor:
        """Return whether the queue is closed."""
        return to_tensor(np.bool_(self._is_closed))

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> None:
        """Refuse further elements; those in the queue can still be taken."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _position(self) -> int:
        """Return which element is taken next."""
        return 0

    def _least(self) -> int:
        """Return how many elements stay in a queue that is not closed."""
        return 0

    def _add(self, elements: Sequence[_Element]) -> None:
        for element in elements:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or not self._is_full())
                if self._is_closed:
                    raise CancelledError(f"The queue {self.name!r} is closed.")
                self._elements.append(element)
                self._changed.notify_all()

    def _is_full(self) -> bool:
        return self._capacity is not None and len(self._elements) >= self._capacity

    def _take(self, count: int, least: int) -> list[_Element]:
        if self._capacity is not None and count > self._capacity:
            raise ArgumentError(
                f"The queue {self.name!r} holds at most {self._capacity} elements. Got a request "
                f"for {count} at once."
            )
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or len(self._elements) >= count + self._least()
            )
            found = min(count, len(self._elements))
            if found < min(least, count):
                raise OutOfRangeError(
                    f"The queue {self.name!r} is closed and has {len(self._elements)} elements. "
                    f"Got a request for {count}."
                )
            taken = [self._elements.pop(self._position()) for _ in range(found)]
            self._changed.notify_all()
        return taken

    def _checked(self, vals: Any, many: bool = False) -> list[Tensor]:
        if isinstance(vals, Mapping):
            vals = [vals[name] for name in self.names or ()]
        elif not isinstance(vals, list | tuple) or (len(self.dtypes) == 1 and len(vals) != 1):
            vals = [vals]
        if len(vals) != len(self.dtypes):
            raise ArgumentError(
                f"An element of the queue {self.name!r} has {len(self.dtypes)} tensors. Got "
                f"{len(vals)}."
            )
        found = []
        for value, dtype, shape in zip(vals, self.dtypes, self.shapes):
            is_string = dtype.name == "string"
            tensor: Any = string_tensor(text_array(value)) if is_string else to_tensor(value, dtype)
            own = tuple(tensor.shape)[1:] if many else tuple(tensor.shape)
            if not shape.is_compatible_with(TensorShape(own)):
                raise ShapeError(
                    f"The queue {self.name!r} takes tensors of shape {tuple(shape)}. Got {own}."
                )
            found.append(tensor)
        return found

    def _joined(self, elements: Sequence[_Element]) -> Any:
        return self._as_result([stack(list(parts)) for parts in zip(*elements)])

    def _as_result(self, parts: list[Any]) -> Any:
        if self.names:
            return dict(zip(self.names, parts))
        return parts[0] if len(parts) == 1 else parts


def _as_shapes(shapes: Any, count: int) -> list[Any]:
    if shapes is None:
        return [None] * count
    is_one = all(size is None or isinstance(size, int) for size in shapes) and len(shapes) > 0
    if isinstance(shapes, tuple | TensorShape) and (is_one or not len(shapes)):
        return [shapes] * count
    return [shapes] * count if is_one else list(shapes)


class FIFOQueue(QueueBase):
    """A queue whose elements leave in the order in which they came.

    >>> q = FIFOQueue(3, ["int32"], shapes=[()])
    >>> q.enqueue([7])
    >>> q.enqueue([8])
    >>> int(q.dequeue()), int(q.size())
    (7, 1)
    """


class PaddingFIFOQueue(QueueBase):
    """A FIFOQueue whose `dequeue_many` fills shorter tensors with zeros or empty text.

    >>> q = PaddingFIFOQueue(3, ["int32"], shapes=[(None,)])
    >>> q.enqueue([[1, 2]])
    >>> q.enqueue([[3]])
    >>> q.dequeue_many(2).tolist()
    [[1, 2], [3, 0]]
    """

    def _joined(self, elements: Sequence[_Element]) -> Any:
        return self._as_result([_padded(list(parts)) for parts in zip(*elements)])


def _padded(parts: list[Any]) -> Any:
    arrays = [np.asarray(part.numpy()) for part in parts]
    shape = np.max([array.shape for array in arrays], axis=0).astype(int)
    is_text = arrays[0].dtype == object
    found = np.full((len(arrays), *shape), b"" if is_text else 0, arrays[0].dtype)
    for row, array in zip(found, arrays):
        row[tuple(slice(n) for n in array.shape)] = array
    return string_tensor(found) if is_text else to_tensor(found)


class PriorityQueue(QueueBase):
    """A queue whose elements begin with a number, the smallest of which leaves first.

    >>> q = PriorityQueue(3, ["string"], shapes=[()])
    >>> q.enqueue([5, b"later"])
    >>> q.enqueue([1, b"first"])
    >>> q.dequeue()[1].numpy()
    b'first'
    """

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        several = list(types) if isinstance(types, list | tuple) else [types]
        own = _as_shapes(shapes, len(several))
        super().__init__(capacity, ["int64", *several], [(), *own], names, shared_name, name)

    def _position(self) -> int:
        return min(range(len(self._elements)), key=lambda k: int(self._elements[k][0]))


class RandomShuffleQueue(QueueBase):
    """A queue whose elements leave in random order.

    >>> q = RandomShuffleQueue(3, 0, ["int32"], shapes=[()])
    >>> q.enqueue_many([[1, 2, 3]])
    >>> sorted(q.dequeue_many(3).tolist())
    [1, 2, 3]
    """

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        super().__init__(capacity, dtypes, shapes, names, shared_name, name)
        self._min_after_dequeue = min_after_dequeue
        self._random = random.Random(seed)

    def _position(self) -> int:
        return self._random.randrange(len(self._elements))

    def _least(self) -> int:
        return self._min_after_dequeue


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("queue", name)


_check_calls(globals(), __all__)
