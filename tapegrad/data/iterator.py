"""Iteration over datasets, and the properties that need no iteration."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.event_log import LOGS, timed
from tapegrad.core.values import host
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.data.constants import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.functions import is_annotated
from tapegrad.data.optional import Optional
from tapegrad.data.plan import END, Plan, Run, Source, State, plans_with_memory
from tapegrad.data.structure import Nested, to_numpy, to_tensors
from tapegrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    OutOfRangeError,
    TapegradError,
)
from tapegrad.program.record.decisions import DecisionError
from tapegrad.program.record.element_source import (
    NOTHING,
    ElementIterator,
    ElementSource,
    outside_reads,
    reading_error,
)
from tapegrad.program.record.recording import current_recording


class DatasetIterator(ElementIterator):
    """One pass over a dataset, from `iter(dataset)` or `dataset.iterator(state)`.

    >>> from tapegrad.data import Dataset
    >>> dataset = Dataset.range(6).shuffle(6, seed=1).batch(2)
    >>> first = dataset.iterator()
    >>> _ = next(first)
    >>> second = dataset.iterator(first.state())
    >>> next(second).tolist() == next(first).tolist()
    True
    """

    def __init__(self, plan: Plan, state: State | None, as_numpy: bool = False) -> None:
        super().__init__()
        self.gives_tensors = not as_numpy
        # An array on the device stands for the device: looking up its name each time is slow.
        self._like = None if as_numpy else host.place(np.zeros(1, np.float32))
        self._plan = plan
        self._before: State | None = None
        """What shuffles and caches remembered before this pass, if a recording began it."""
        self._source = self._started(state)
        self._last: State | None = None

    def _started(self, state: State | None) -> Source:
        before = {"memories": [one.memory for one in plans_with_memory(self._plan)]}
        if current_recording() is not None:
            self._before = before
        try:
            return self._plan.start(Run(self._like), state)
        except Exception as error:
            plans_with_memory(self._plan, before)
            if state is None or isinstance(error, TapegradError) or is_annotated(error):
                raise
            raise ArgumentError(
                f"The state is damaged, or belongs to another dataset: {error!r}."
            ) from error

    def _undo_start(self) -> None:
        """Let the pass that a recording has begun not count, because the call begins again."""
        if self._before is not None:
            plans_with_memory(self._plan, self._before)
            self.close()

    @property
    def element_spec(self) -> Any:
        """The TensorSpecs that elements match; None is a length that may vary."""
        return self._plan.spec()

    def __iter__(self) -> DatasetIterator:
        return self

    def __next__(self) -> Any:
        try:
            given = self.element_given()
        except DecisionError:
            self._undo_start()
            raise
        if given is not NOTHING:
            return given
        if self._last is not None:
            raise StopIteration
        if current_recording() is not None:
            self._undo_start()
            raise reading_error()
        following = self._source.next
        with outside_reads():
            element = timed("data", "next element", following) if LOGS else following()
        if element is END:
            self.close()
            raise StopIteration
        return to_numpy(element) if self._like is None else to_tensors(element, self._like)

    def get_next(self, name: str | None = None) -> Any:
        """Return the next element, or raise `errors.OutOfRangeError` after the last one.

        >>> from tapegrad.data import Dataset
        >>> int(iter(Dataset.range(5, 6)).get_next())
        5
        """
        try:
            return next(self)
        except StopIteration:
            raise OutOfRangeError("The dataset has no more elements: end of sequence.") from None

    def get_next_as_optional(self) -> Optional:
        """Return the next element as an `Optional`, which has no value after the last one.

        >>> from tapegrad.data import Dataset
        >>> iter(Dataset.range(0)).get_next_as_optional().has_value()
        False
        """
        try:
            return Optional.from_value(next(self))
        except StopIteration:
            return Optional.empty()

    def next(self, name: str | None = None) -> Any:
        """Return the next element, as `get_next` does."""
        return self.get_next(name)

    def state(self) -> State:
        """Return the position of this iterator, in values that JSON can hold.

        `dataset.iterator(state)` continues from there, also in another process, if the dataset is
        built in the same way.
        """
        if self._returned:
            raise ArgumentError(
                "A function has read elements of this iterator ahead and has not used them. Read "
                "them before you ask for the state."
            )
        return self._source.state() if self._last is None else self._last

    def set_state(self, state: State) -> None:
        """Move to the position of another iterator over the same dataset; checkpoints do this."""
        source = self._started(state)
        self._returned.clear()
        self.close()
        self._source, self._last = source, None

    def close(self) -> None:
        """Stop the threads that prepare elements; an iterator that is deleted stops its own."""
        if self._last is None:
            self._last = self._source.state()
            self._source.close()


class Readable(Nested, ElementSource):
    """A dataset that can be iterated any number of times."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __iter__(self) -> DatasetIterator:
        return self.iterator()

    def iterator(self, state: State | None = None) -> DatasetIterator:
        """Return an iterator at the start, or at the position that `state` describes.

        Slices are restored directly. Functions run again only for the elements in the buffer of a
        shuffle. Generators run again up to the position, and so does the input of a shuffle that
        follows a filter, an interleave or another shuffle.

        >>> from tapegrad.data import Dataset
        >>> dataset = Dataset.range(4)
        >>> iterator = dataset.iterator()
        >>> int(next(iterator)), iterator.state()
        (0, {'step': 'range', 'at': 1})
        >>> [int(x) for x in dataset.iterator({"step": "range", "at": 1})]
        [1, 2, 3]
        """
        return DatasetIterator(self.plan, state)

    def as_numpy_iterator(self) -> DatasetIterator:
        """Return an iterator over NumPy arrays and scalars.

        >>> from tapegrad.data import Dataset
        >>> Dataset.range(3).map(lambda n: n / 2).as_numpy_iterator().__next__().item()
        0.0
        """
        return DatasetIterator(self.plan, None, as_numpy=True)

    @property
    def element_spec(self) -> Any:
        """The TensorSpecs that elements match; None is a length that may vary.

        If a function or a generator produces the elements, it runs once to find out.

        >>> from tapegrad.data import Dataset
        >>> Dataset.range(5).batch(2).element_spec
        TensorSpec(shape=(None,), dtype=int64)
        """
        return self.plan.spec()

    nested_spec = element_spec

    def cardinality(self, name: str | None = None) -> Tensor:
        """Return the number of elements, INFINITE_CARDINALITY or UNKNOWN_CARDINALITY.

        >>> from tapegrad.data import Dataset
        >>> int(Dataset.range(5).batch(2).cardinality())
        3
        """
        # On the host, because Python code reads it.
        return wrap(np.asarray(self.plan.size(), np.int64))

    def __len__(self) -> int:
        size = self.plan.size()
        reasons = {
            INFINITE_CARDINALITY: "is infinite",
            UNKNOWN_CARDINALITY: "is known only after reading it",
        }
        if size in reasons:
            raise ArgumentTypeError(f"This dataset has no len(): its length {reasons[size]}.")
        return size

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<tapegrad.data.Dataset: {self.plan.step}>"
