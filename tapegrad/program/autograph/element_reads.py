"""Calls with iterators of datasets: the host reads the elements, which are inputs of a program.

The first call of a kind runs eagerly and shows how many elements it reads, from which iterators. A
later call reads them before it begins and passes them to a recorded function, in which
`next(iterator)` returns them in this order. Calls that read elements in branches, or in loops
of unknown length, are not recorded as a whole; the rounds of their loops may be.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.values import nest
from tapegrad.errors import ArgumentTypeError
from tapegrad.program.record.arguments import CannotRecord, key_of
from tapegrad.program.record.element_source import ElementIterator, Reads, reading

MOST_ELEMENTS = 32
"""The most elements that one program reads; more are read in a loop, whose rounds are recorded."""

MOST_KINDS = 100
"""How many kinds of calls are remembered."""


def reads_elements(leaves: Sequence[Any]) -> bool:
    """Whether an argument is an iterator whose elements can be read before a call begins."""
    return any([isinstance(leaf, ElementIterator) and leaf.gives_tensors for leaf in leaves])


class _Place:
    """Stands for an iterator among the arguments of a recorded function."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


_places = [_Place(number) for number in range(16)]


class _Call(threading.local):
    """The call that runs now: its function, its iterators, and whose elements it was given."""

    function: Any = None
    iterators: Sequence[ElementIterator] = ()
    order: Sequence[int] = ()


class ElementReads:
    """The calls of one function that take iterators."""

    def __init__(self, name: str, make: Callable[[Callable[..., Any]], Any]) -> None:
        self._name, self._make = name, make
        self.function: Any = None
        """The recorded function of the other arguments and the elements, made on first use."""
        self._orders: dict[Any, tuple[int, ...]] = {}
        """From which iterators calls read elements, by their keys without the elements."""
        self._now = _Call()

    def call(self, function: Callable[..., Any], leaves: list[Any], args: Any, kwargs: Any) -> Any:
        """Call a function, some of whose `leaves` are iterators."""
        iterators = [*dict.fromkeys(x for x in leaves if isinstance(x, ElementIterator))]
        if len(iterators) > len(_places):
            return function(*args, **kwargs)
        numbers = {id(iterator): number for number, iterator in enumerate(iterators)}

        def placed(leaf: Any) -> Any:
            return _places[numbers[id(leaf)]] if isinstance(leaf, ElementIterator) else leaf

        plain = nest.map_structure(placed, (args, kwargs))
        try:
            key = key_of([placed(leaf) for leaf in leaves], *plain)
        except (CannotRecord, ArgumentTypeError):
            return function(*args, **kwargs)
        order = self._orders.get(key)
        if order is None:
            with reading() as reads:
                result = function(*args, **kwargs)
            if len(self._orders) >= MOST_KINDS:
                self._orders.clear()
            self._orders[key] = _order(reads, numbers)
            return result
        elements = _elements_of([iterators[number] for number in order])
        if elements is None:  # the code shall find out, and do what it does then
            return function(*args, **kwargs)
        if self.function is None:
            self.function = self._make(_named(self._with_elements, self._name))
        now = self._now
        before = now.function, now.iterators, now.order
        now.function, now.iterators, now.order = function, iterators, order
        try:
            return self.function(*plain, elements)
        finally:
            now.function, now.iterators, now.order = before

    def _with_elements(self, args: Any, kwargs: Any, elements: Sequence[Any]) -> Any:
        iterators, order, function = self._now.iterators, self._now.order, self._now.function

        def original(leaf: Any) -> Any:
            return iterators[leaf.number] if type(leaf) is _Place else leaf

        args, kwargs = nest.map_structure(original, (args, kwargs))
        given = [(iterators[number], element) for number, element in zip(order, elements)]
        with reading(given):
            return function(*args, **kwargs)


def _elements_of(iterators: Sequence[Any]) -> list[Any] | None:
    """Read an element of each iterator in turn; None, and nothing is read, if there are too few."""
    found: list[Any] = []
    for iterator in iterators:
        try:
            found.append(next(iterator))
        except StopIteration:
            for earlier, element in zip(iterators[: len(found)][::-1], found[::-1]):
                earlier.give_back(element)
            return None
    return found


def _order(reads: Reads, numbers: dict[int, int]) -> tuple[int, ...]:
    """Return from which iterators a call has read, () if no program can read so."""
    is_known = all(id(iterator) in numbers for iterator in reads.order)
    if reads.is_in_loop or not is_known or len(reads.order) > MOST_ELEMENTS:
        return ()
    return tuple([numbers[id(iterator)] for iterator in reads.order])


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def with_elements(args: Any, kwargs: Any, elements: Any) -> Any:
        return function(args, kwargs, elements)

    with_elements.__name__ = name
    return with_elements
