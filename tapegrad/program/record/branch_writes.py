"""In-place writes in branches of which a recording does not know whether they are taken.

Both branches are recorded one after the other, but only the writes of the taken one may happen. So
each branch takes its writes back at its end. Then each tensor that a branch wrote gets the value
that the condition selects, and so do the other views of its elements.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.indexing.views import write


class BranchWrites:
    """The tensors that a branch writes, with their values before it and at its end."""

    def __init__(self, start: int) -> None:
        self._start = start
        """The number of the last value that the recording had made before the branch."""
        self._before: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self.after: dict[int, tuple[Any, Any]] = {}
        """The tensors that are not views, with their values at the end of the branch, by id."""

    def note(self, tensor: Any) -> None:
        """Remember a tensor, which the branch is about to write."""
        known = self._before.get(id(tensor))
        if (known is None or known[0]() is not tensor) and not self._is_made_here(tensor):
            self._before[id(tensor)] = (weakref.ref(tensor), _value_of(tensor))

    def _is_made_here(self, tensor: Any) -> bool:
        """Whether the branch made a tensor, which the code outside of it does not know."""
        value = getattr(tensor.array, "value", None) if isinstance(tensor, Tensor) else None
        return value is not None and value.number > self._start

    def take_back(self) -> None:
        """Give the tensors their values before the branch."""
        for key, (reference, before) in self._before.items():
            tensor = reference()
            if tensor is None:
                continue
            if not hasattr(tensor, "view_of"):
                self.after[key] = (tensor, _value_of(tensor))
            _set_value(tensor, before)


def select_writes(condition: Any, first: BranchWrites, second: BranchWrites) -> None:
    """Give each tensor that one of two branches wrote its value after the taken one."""
    for key in {**first.after, **second.after}:
        tensor = (first.after.get(key) or second.after[key])[0]
        before = _value_of(tensor)
        values = [
            _as_tensor(tensor, branch.after[key][1] if key in branch.after else before)
            for branch in (first, second)
        ]
        write(tensor, where(condition, *values))


def _value_of(tensor: Any) -> tuple[Any, ...]:
    if not isinstance(tensor, Tensor):  # an example inside vmap
        return tensor.tensor, tensor.level
    return tensor.array, tensor.node


def _set_value(tensor: Any, value: Iterable[Any]) -> None:
    if isinstance(tensor, Tensor):
        tensor.array, tensor.node = value
    else:
        tensor.tensor, tensor.level = value


def _as_tensor(like: Any, value: Iterable[Any]) -> Any:
    return wrap(*value) if isinstance(like, Tensor) else type(like)(*value)
