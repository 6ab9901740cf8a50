"""Functions that write to their arguments: the caller's tensors change, as in eager mode.

Inside a recording an argument is another tensor than the caller's. If the function writes to it,
the new value is a further result of the program. After each call it is written into the caller's
tensor, and through a view into the tensor that it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import RecordingError
from tapegrad.ops.indexing.views import root_of, write


class WithWrites(NamedTuple):
    """The result of a call, and the new values of the arguments that it wrote, by position."""

    result: Any
    written: dict[int, Tensor]


class NotesWrites:
    """A function that returns `WithWrites` if it has written to one of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.has_written = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = nest.flatten((args, kwargs))
        before = {
            place: (leaf, leaf.array) for place, leaf in enumerate(leaves) if type(leaf) is Tensor
        }
        result = self._function(*args, **kwargs)
        written = {
            place: leaf for place, (leaf, array) in before.items() if leaf.array is not array
        }
        self.has_written = bool(written)
        return WithWrites(result, written) if written else result


def check_writable(written: Sequence[int], given: Sequence[Any], leaves: Sequence[Any]) -> None:
    """Raise if a call cannot write to its arguments as eager code would.

    `given` are the arguments of the caller, and `leaves` the tensors of the program's inputs.
    """
    for place in written:
        if given[place] is not leaves[place]:
            raise RecordingError(
                f"A function that is replayed writes to its argument {place}, which is a "
                f"{type(given[place]).__name__} outside. Pass a tensor: tapegrad.constant(x)."
            )
        root = root_of(leaves[place])
        if any([root_of(x) is root for k, x in enumerate(leaves) if k != place]):
            raise RecordingError(
                f"A function that is replayed writes to its argument {place}, and another argument "
                "is the same tensor or a view of it. Pass a copy of one of them: x.copy()."
            )


def store_writes(outcome: WithWrites, leaves: Sequence[Any]) -> Any:
    """Write the new values into the caller's tensors and return the function's own result."""
    for place, value in outcome.written.items():
        write(leaves[place], value)
    return outcome.result
