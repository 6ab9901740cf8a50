"""Readable errors for shapes that do not fit, instead of those of array libraries."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Compiled at the first use: regular expressions would take a tenth of the import time.
_CORE = (
    r"Input operand (\d+) has a mismatch in its core dimension (\d+), with gufunc signature "
    r"(\S+) \(size (\d+) is different from (\d+)\)"
)
_JOINED = (
    r"along dimension (\d+), the array at index (\d+) has size (\d+) "
    r"and the array at index (\d+) has size (\d+)"
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


class UnfitShapesError(ValueError):
    """Shapes do not fit, raised by a kernel that says so in our own words."""


def unfit_product(first: tuple[int, ...], second: tuple[int, ...]) -> UnfitShapesError:
    """Return the error of a matrix product whose inner axes differ.

    >>> str(unfit_product((2, 3), (4,)))[:48]
    'axis -1 of the second operand has length 4, and '
    """
    inner = -min(2, len(second))
    return UnfitShapesError(_unequal_axes((1, inner, second[inner]), (0, -1, first[-1])))


def unfit_join(shapes: Sequence[tuple[int, ...]], axis: int) -> UnfitShapesError:
    """Return the error of arrays to be joined whose other axes differ.

    >>> str(unfit_join([(2, 3), (2, 4)], 0))[-41:]
    '3 (first operand) and 4 (second operand).'
    """
    for which, shape in enumerate(shapes):
        for place, (length, other) in enumerate(zip(shapes[0], shape)):
            if length != other and place != axis:
                return UnfitShapesError(_unequal_parts(place, (0, length), (which, other)))
    return UnfitShapesError(f"arrays with {len(shapes[0])} axes cannot be joined with others.")


def _unequal_parts(axis: int, one: tuple[int, int], other: tuple[int, int]) -> str:
    """Name an axis of two operands to be joined, each given as operand and length."""
    return (
        f"all axes but the joined one must be equally long, and axis {axis} has the lengths "
        f"{one[1]} ({_which(one[0])}) and {other[1]} ({_which(other[0])})."
    )


def _unequal_axes(one: tuple[int, int, int], other: tuple[int, int, int]) -> str:
    """Name two axes that must be equally long, each given as operand, axis and length."""
    return (
        f"axis {one[1]} of the {_which(one[0])} has length {one[2]}, and axis {other[1]} of the "
        f"{_which(other[0])}, which must be as long, has length {other[2]}."
    )


def reason(text: str, shapes: Sequence[tuple[int, ...]]) -> str | None:
    """Return why operands of these shapes do not fit, or None if `text` says nothing that is known.

    `text` is the message of NumPy's or CuPy's error.

    >>> reason("operands could not be broadcast together with shapes (3,4) (5,)", [(3, 4), (5,)])
    'the shapes do not broadcast, because the last axis has the lengths 4 and 5.'
    """
    if "broadcast" in text:
        return _of_broadcasting(shapes)
    core = re.search(_CORE, text)
    if core is not None:
        return _of_core(core, shapes)
    joined = re.search(_JOINED, text)
    if joined is not None:
        axis, one, length, other, other_length = map(int, joined.groups())
        return _unequal_parts(axis, (one, length), (other, other_length))
    return None


def _of_broadcasting(shapes: Sequence[tuple[int, ...]]) -> str | None:
    """Find the axis whose lengths differ and are not 1, counted from the last one."""
    for back in range(1, 1 + max(map(len, shapes), default=0)):
        lengths = [shape[-back] for shape in shapes if len(shape) >= back]
        different = list(dict.fromkeys([n for n in lengths if n != 1]))
        if len(different) > 1:
            which = "the last axis" if back == 1 else f"axis {-back}"
            listed = " and ".join(map(str, different))
            return f"the shapes do not broadcast, because {which} has the lengths {listed}."
    return None


def _of_core(complaint: re.Match[str], shapes: Sequence[tuple[int, ...]]) -> str | None:
    """Name the two axes that must be equally long, e.g. the inner ones of a matrix product."""
    operand, axis, signature, size, wanted = complaint.groups()
    cores = [part.split(",") for part in re.findall(r"\(([^)]*)\)", signature.split("->")[0])]
    second, place = int(operand), int(axis)
    # A "?" marks an axis that vectors lack; the place counts only those that are there.
    present = [_present(core, len(shape)) for core, shape in zip(cores, shapes)]
    if len(present) != len(cores) or place >= len(present[second]):
        return None
    label = present[second][place]
    for first, core in enumerate(present[:second]):
        if label in core:
            one = (second, place - len(present[second]), int(size))
            return _unequal_axes(one, (first, core.index(label) - len(core), int(wanted)))
    return None


def _present(core: list[str], rank: int) -> list[str]:
    optional = [label for label in core if label.endswith("?")]
    return core if rank >= len(core) else [label for label in core if label not in optional]


def _which(index: int) -> str:
    return f"{_ORDINALS[index]} operand" if index < len(_ORDINALS) else f"operand {index + 1}"
