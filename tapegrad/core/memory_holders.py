"""What holds the memory of a device: variables, tensors, tapes and programs, by user line."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tapegrad.core.backend.registry import backend_of, capabilities_of, find_backend
from tapegrad.core.memory_trace import owner_of, site_of
from tapegrad.core.out_of_memory import arrays_in, readable, set_report
from tapegrad.core.recorder import Node
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import live_variables

Held = tuple[str, str, int]
"""A line or a name, the kind of what is held, and its bytes."""

SOURCES: list[Callable[[str], Iterable[Held]]] = []
"""Functions that return what else is held on a device, such as blocks of programs."""

UNKNOWN = "an unknown line"


# Not a dataclass, whose code is generated at import.
class Holder:
    """Arrays of one kind that one line of the user's code made."""

    def __init__(self, where: str, what: str, size: int, count: int) -> None:
        self.where = where
        """The file and line, or the name of a variable, or "an unknown line"."""
        self.what = what
        self.bytes = size
        self.count = count

    def __str__(self) -> str:
        held = f"{readable(self.bytes)} in {self.count} array{'' if self.count == 1 else 's'}"
        return f"{held}, {self.what}, from {self.where}"


def holders(device: str) -> list[Holder]:
    """Return what holds memory of a device, the largest first."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    others = [held for source in SOURCES for held in source(device)]
    for where, what, size in (*_arrays(device), *others):
        total, count = found.get((where, what), (0, 0))
        found[where, what] = (total + size, count + 1)
    made = [Holder(*key, total, count) for key, (total, count) in found.items()]
    return sorted(made, key=lambda holder: (-holder.bytes, holder.where))


def _arrays(device: str) -> Iterator[Held]:
    """Yield the line, the kind and the bytes of each array that tensors, variables and tapes hold.

    An array that several of them hold counts once, as the first of these kinds.
    """
    objects = gc.get_objects()
    nodes = [x for x in objects if type(x) is Node]
    # isinstance asks objects of other libraries for their class, and some of them warn then.
    tensors = [x for x in objects if issubclass(type(x), Tensor)]
    del objects
    kinds: list[tuple[str, Iterable[tuple[str, Any]]]] = [
        ("variables", [(f"variable {v.name!r}", v.array) for v in live_variables()]),
        ("kept for gradients", [(UNKNOWN, a) for node in nodes for a in arrays_in(node.saved)]),
        ("tensors", [(UNKNOWN, getattr(tensor, "array", None)) for tensor in tensors]),
    ]
    seen: set[int] = set()
    for what, arrays in kinds:
        for where, array in arrays:
            backend = find_backend(type(array))
            if backend is None or capabilities_of(type(array)).adoption is not None:
                continue
            owner = owner_of(array)
            if id(owner) in seen or backend.device_of(array) != device:
                continue
            seen.add(id(owner))
            yield site_of(array) or where, what, bytes_of(owner, array)


def bytes_of(owner: Any, array: Any) -> int:
    """Return the bytes of an array's owner, or of the array itself if the owner does not say.

    >>> import numpy as np
    >>> x = np.zeros((2, 3))
    >>> bytes_of(owner_of(x[0]), x[0])
    48
    """
    size = getattr(owner, "nbytes", None)
    if size is None and owner is not array:
        size = getattr(owner, "size", None)  # an allocation of CuPy
    if size is None:
        size = math.prod(array.shape) * backend_of(array).dtype_of(array).itemsize
    return int(size)


def largest_holders(device: str, most: int = 5) -> str:
    """Return a sentence about the largest holders, "" if there are none."""
    found = holders(device)[:most]
    if not found:
        return ""
    shown = "; ".join(str(holder) for holder in found)
    hint = " Inside debug.trace_memory(), lines of eager code are known."
    is_unknown = any(holder.where == UNKNOWN for holder in found)
    return f"The largest holders of memory are: {shown}.{hint if is_unknown else ''}"


set_report(largest_holders)
