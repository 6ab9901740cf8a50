"""Say in our own words why shapes do not fit, where an array library's words are hard to read."""

from __future__ import annotations

import re
from collections.abc import Sequence

_CORE = re.compile(
    r"Input operand (\d+) has a mismatch in its core dimension (\d+), with gufunc signature "
    r"(\S+) \(size (\d+) is different from (\d+)\)"
)
_JOINED = re.compile(
    r"along dimension (\d+), the array at index (\d+) has size (\d+) "
    r"and the array at index (\d+) has size (\d+)"
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


def reason(text: str, shapes: Sequence[tuple[int, ...]]) -> str | None:
    """Return why operands of these shapes do not fit, or None if `text` says nothing that is known.

    `text` is the message of NumPy's or CuPy's error.

    >>> reason("operands could not be broadcast together with shapes (3,4) (5,)", [(3, 4), (5,)])
    'the shapes do not broadcast, because the last axis has the lengths 4 and 5.'
    """
    if "broadcast" in text:
        return _of_broadcasting(shapes)
    core = _CORE.search(text)
    if core is not None:
        return _of_core(core, shapes)
    joined = _JOINED.search(text)
    if joined is not None:
        axis, one, length, other, other_length = map(int, joined.groups())
        return (
            f"all axes but the joined one must be equally long, and axis {axis} has the lengths "
            f"{length} ({_which(one)}) and {other_length} ({_which(other)})."
        )
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
            return (
                f"axis {place - len(present[second])} of the {_which(second)} has length {size}, "
                f"and axis {core.index(label) - len(core)} of the {_which(first)}, which must be "
                f"as long, has length {wanted}."
            )
    return None


def _present(core: list[str], rank: int) -> list[str]:
    optional = [label for label in core if label.endswith("?")]
    return core if rank >= len(core) else [label for label in core if label not in optional]


def _which(index: int) -> str:
    return f"{_ORDINALS[index]} operand" if index < len(_ORDINALS) else f"operand {index + 1}"
