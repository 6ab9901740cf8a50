"""What is known about an operator: non-singular, self-adjoint, positive definite, square."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.linear_operators.arguments import check_hints


class Hints:
    """Properties of a matrix that are True, False, or None if they are not known."""

    def _set_hints(
        self,
        is_non_singular: bool | None,
        is_self_adjoint: bool | None,
        is_positive_definite: bool | None,
        is_square: bool | None,
    ) -> None:
        """Set the hints, and those that follow from them."""
        check_hints(
            type(self).__name__,
            {
                "is_non_singular": is_non_singular,
                "is_self_adjoint": is_self_adjoint,
                "is_positive_definite": is_positive_definite,
                "is_square": is_square,
            },
        )
        if is_positive_definite:
            if is_non_singular is False:
                raise ArgumentError("A positive definite operator is never singular.")
            is_non_singular = True
        if is_non_singular or is_self_adjoint:
            if is_square is False:
                raise ArgumentError("An operator that is not square is singular.")
            is_square = True
        self._is_non_singular = is_non_singular
        self._is_self_adjoint = is_self_adjoint
        self._is_positive_definite = is_positive_definite
        self._is_square = is_square

    @property
    def is_non_singular(self) -> bool | None:
        return self._is_non_singular

    @property
    def is_self_adjoint(self) -> bool | None:
        return self._is_self_adjoint

    @property
    def is_positive_definite(self) -> bool | None:
        return self._is_positive_definite

    @property
    def is_square(self) -> bool | None:
        """Whether there are as many rows as columns."""
        shape: Any = self.shape  # type: ignore[attr-defined]
        return bool(shape[-1] == shape[-2])


def all_of(hints: Iterable[bool | None]) -> bool | None:
    """Return True if all hints are True, and otherwise that it is not known."""
    return True if all(hint is True for hint in hints) else None


def known(given: bool | None, derived: bool | None) -> bool | None:
    """Return the hint that the caller has given, or else the derived one."""
    return derived if given is None else given


def of_all_parts(
    parts: Sequence[Any],
    is_non_singular: bool | None,
    is_self_adjoint: bool | None,
    is_positive_definite: bool | None,
) -> tuple[bool | None, bool | None, bool | None]:
    """Return the hints of an operator that has each property if all of its parts have it.

    Only square parts tell whether it is non-singular. Hints of the caller are kept.
    """
    if is_non_singular is None and all(one.is_square for one in parts):
        is_non_singular = all_of(one.is_non_singular for one in parts)
    return (
        is_non_singular,
        known(is_self_adjoint, all_of(one.is_self_adjoint for one in parts)),
        known(is_positive_definite, all_of(one.is_positive_definite for one in parts)),
    )
