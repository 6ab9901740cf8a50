"""Lengths of axes, which are integers or None in all versions of TensorFlow's interface here."""

from __future__ import annotations

from collections.abc import Sequence


def dimension_value(dimension: int | None) -> int | None:
    """Return the length of an axis, or None if it is not known.

    >>> dimension_value(3), dimension_value(None)
    (3, None)
    """
    return dimension


def dimension_at_index(shape: Sequence[int | None], index: int) -> int | None:
    """Return the length of the axis at an index of a shape.

    >>> dimension_at_index((None, 3), 1)
    3
    """
    return shape[index]
