"""Parts of recordings that differ in sizes only: shapes, parameters and results of calls.

`Parts` finds how each part is made for other sizes. Equal parts are kept. Parts that differ become
a slot, whose value is computed once for each new program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.exact_key import exact_key
from tapegrad.program.families.formulas import Formula, Sizes, Solver, Unfit, Unlike
from tapegrad.program.graph.graph import InnerProgram

Make = Callable[[Sizes], Any]


class Slot(NamedTuple):
    """Stands for a part that depends on the sizes."""

    number: int


class Parts:
    """The parts of several recordings; `solver` knows their sizes."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._made: list[Make] = []
        self._shapes: dict[tuple[Any, ...], Any] = {}

    def values(self, sizes: Sizes) -> list[Any]:
        """Return the values of all slots."""
        return [make(sizes) for make in self._made]

    def part(self, found: Sequence[Any]) -> Any:
        """Return what the recordings have in common: the part itself, or a slot.

        `found` has the part as it is in each recording. If the sizes do not explain the
        differences, `Unlike` is raised.
        """
        make = self._make(found)
        return found[0] if make is None else self._slot(make)

    def shape(self, shapes: tuple[tuple[int, ...], ...]) -> Any:
        """Return a shape or a slot, likewise; most calls have shapes that others have, too."""
        known = self._shapes.get(shapes)
        if known is None:
            known = self._shapes[shapes] = self.part(shapes)
        return known

    def _slot(self, make: Make) -> Slot:
        self._made.append(make)
        return Slot(len(self._made) - 1)

    def _make(self, found: Sequence[Any]) -> Make | None:
        """Return how a part is made, None if it is always the same."""
        first = found[0]
        kind = type(first)
        if all([other is first for other in found]) and not isinstance(first, InnerProgram):
            return None
        if any(type(other) is not kind for other in found):
            raise Unlike
        if kind is int or kind is float:
            return self._make_number(found)
        if kind is tuple or kind is list:
            return self._make_sequence(found, kind)
        if kind is dict:
            return self._make_dict(found)
        if kind is slice:
            bounds = self._make_sequence([(s.start, s.stop, s.step) for s in found], tuple)
            return None if bounds is None else lambda sizes: slice(*bounds(sizes))
        if isinstance(first, InnerProgram):
            # E.g. the body of a loop over an axis that varies: each round computes the same.
            if not all(first.is_like(other) for other in found[1:]):
                raise Unlike
            return lambda sizes: first.renewed()
        if isinstance(first, np.generic) or (kind is np.ndarray and first.ndim == 0):
            return self._make_scalar(found)
        _require_equal(found)
        return None

    def _make_number(self, found: Sequence[Any]) -> Make | None:
        if all(exact_key(other) == exact_key(found[0]) for other in found):
            return None
        values = tuple(found)
        is_whole = type(found[0]) is int
        formula: Formula = self._solver.whole(values) if is_whole else self._solver.real(values)
        if is_whole and min(values) >= 0:
            return lambda sizes: _not_negative(formula.at(sizes))
        return formula.at

    def _make_scalar(self, found: Sequence[Any]) -> Make | None:
        """A NumPy scalar or 0-d array."""
        first = found[0]
        dtype = first.dtype
        if any(other.dtype != dtype for other in found):
            raise Unlike
        if all(other.tobytes() == first.tobytes() for other in found):
            return None
        if dtype.kind not in "iuf":
            raise Unlike
        make = self._make_number([other.item() for other in found])
        assert make is not None  # equal bits were excluded above
        if isinstance(first, np.generic):
            return lambda sizes: dtype.type(make(sizes))
        return lambda sizes: np.array(make(sizes), dtype)

    def _make_sequence(self, found: Sequence[Any], kind: Any) -> Make | None:
        if any(len(other) != len(found[0]) for other in found):
            raise Unlike
        makes = [self._make(entries) for entries in zip(*found)]
        if not any(makes):
            return None
        pairs = list(zip(makes, found[0]))
        return lambda sizes: kind([x if make is None else make(sizes) for make, x in pairs])

    def _make_dict(self, found: Sequence[Any]) -> Make | None:
        first = found[0]
        if any([*other] != [*first] for other in found):
            raise Unlike
        entries = self._make_sequence([[*other.values()] for other in found], list)
        names = [*first]
        return None if entries is None else lambda sizes: dict(zip(names, entries(sizes)))


def _not_negative(number: Any) -> Any:
    """Return a number that was never negative in the recordings, such as a length."""
    if number < 0:
        raise Unfit
    return number


def _require_equal(found: Sequence[Any]) -> None:
    """Raise `Unlike` unless all values of an unknown type are equal."""
    first = found[0]
    if isinstance(first, np.ndarray):
        is_equal = all(same_bits(first, other) for other in found)
    else:
        try:
            is_equal = all(bool(exact_key(other) == exact_key(first)) for other in found)
        except Exception:  # a comparison of objects of the user
            is_equal = False
    if not is_equal:
        raise Unlike


def same_bits(x: Any, y: Any) -> bool:
    """Whether two arrays are the same object, or have the same bits.

    >>> same_bits(np.zeros(2), np.zeros(2)), same_bits(np.zeros(2), np.zeros(3))
    (True, False)
    """
    if x is y:
        return True
    if type(x) is not type(y) or x.shape != y.shape or x.dtype != y.dtype:
        return False
    backend = backend_of(x)
    if backend.device_of(x) != backend.device_of(y):
        return False
    return bool(backend.to_host(x).tobytes() == backend.to_host(y).tobytes())
