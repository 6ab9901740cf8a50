"""What loops of recorded functions read anew at each call: datasets and their iterators."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tapegrad.core.call_site import user_call
from tapegrad.program.record.decisions import DecisionError, is_next_of_loop
from tapegrad.program.record.recording import Recording, current_recording

NOTHING: Any = object()


class ElementSource:
    """The base of datasets and of their iterators.

    A program would repeat the elements that its recording has read. So a function with a loop over
    such an object runs its Python code, and each round of the loop is a recorded call; see
    `tapegrad.program.autograph.element_loops`.
    """


class ElementIterator(ElementSource):
    """The base of iterators whose elements a call may read before it begins."""

    gives_tensors = True

    def __init__(self) -> None:
        self._returned: deque[Any] = deque()
        """Elements that a call has read before it began, and has not used."""

    def give_back(self, element: Any) -> None:
        """Let an element be the next one again."""
        reads = _reads.get()
        if reads is None:
            self._returned.appendleft(element)
        else:
            reads.given.appendleft((self, element))

    def element_given(self) -> Any:
        """Return the next element if it has been read before, else `NOTHING`."""
        reads = _reads.get()
        found = NOTHING if reads is None else reads.take(self)
        if found is NOTHING and self._returned and current_recording() is None:
            return self._returned.popleft()
        return found


class Reads:
    """The iterators from which a call reads elements, in order, and the elements given to it."""

    def __init__(self, given: Sequence[tuple[ElementIterator, Any]] = ()) -> None:
        self.order: list[ElementIterator] = []
        self.is_in_loop = False
        """Whether a `for` statement has read an element."""
        self.given = deque(given)
        self._outer = _reads.get()
        self._recording: Recording | None = current_recording()

    @property
    def is_eager(self) -> bool:
        return self._recording is None

    def take(self, iterator: ElementIterator) -> Any:
        """Return the element that is given next, `NOTHING` if none of the iterator is.

        A recording can read what is given only, and at each call: not in branches and loops. Eager
        code notes what it reads besides.
        """
        recording = current_recording()
        is_given = bool(self.given) and self.given[0][0] is iterator
        if recording is not None and not (is_given and self._reads_always(recording)):
            raise reading_error()
        if is_given:
            return self.given.popleft()[1]
        self.order.append(iterator)
        self.is_in_loop = self.is_in_loop or is_next_of_loop(user_call()[0])
        return NOTHING if self._outer is None else self._outer.take(iterator)

    def _reads_always(self, recording: Recording) -> bool:
        is_whole = recording is self._recording and recording.condition is None
        return is_whole and not is_next_of_loop(user_call()[0])

    def end(self) -> None:
        """Give back what was not read; a recording must have read everything."""
        if self.given and not self.is_eager:
            error = reading_error()
            error.is_in_loop = False  # its frame is that of the caller
            raise error
        while self.given:
            iterator, element = self.given.pop()
            iterator.give_back(element)


_reads: ContextVar[Reads | None] = ContextVar("tapegrad_element_reads", default=None)


@contextmanager
def reading(given: Sequence[tuple[ElementIterator, Any]] = ()) -> Iterator[Reads]:
    """Let iterators in the block give these elements, which were read for it."""
    reads = Reads(given)
    token = _reads.set(reads)
    try:
        yield reads
    except BaseException:
        _reads.reset(token)
        if reads.is_eager:
            reads.end()
        raise
    _reads.reset(token)
    reads.end()


@contextmanager
def outside_reads() -> Iterator[None]:
    """Let what makes the elements in the block, such as a generator, read other iterators."""
    token = _reads.set(None)
    try:
        yield
    finally:
        _reads.reset(token)


def reading_error() -> DecisionError:
    """Return the error of a recording that reads an element which no call can give it."""
    return DecisionError(
        "A dataset is read inside a tapegrad.function, so every call would repeat the same "
        "elements. Read it outside, and pass the elements as arguments.",
        user_call()[0],
        what="it reads a dataset",
        is_convertible=False,
        reads_elements=True,
    )
