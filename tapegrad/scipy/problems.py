"""The problems of the running vmaps as rows of arrays, and a loop that all of them share.

A solver computes with arrays whose first axis counts the problems. It calls the user's function
for one problem, as `vmap` does. Without a vmap there is one problem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.autodiff.batching import (
    current_frame,
    frames_around,
    in_frame,
    is_batched,
    unwrap,
    with_examples,
    wrap_levels,
)
from tapegrad.core.values import nest
from tapegrad.ops.control.control_flow import while_loop
from tapegrad.ops.control.loops import is_recording as is_recording_function
from tapegrad.ops.reduction.functions import reduce_any
from tapegrad.scipy.vocabulary import operand, reshape_p, where

Rows = Any
"""An array with one entry per problem along its first axis."""


def are_many(*values: Any) -> bool:
    """Whether a solver must not read numbers on the host: inside vmap, or in a recorded function.

    >>> are_many(1.0)
    False
    """
    return (
        current_frame() is not None
        or is_recording_function()
        or any(is_batched(leaf) for leaf in nest.flatten(values))
    )


class Problems:
    """The problems that a solver treats together: all examples of all running vmaps.

    >>> import tapegrad
    >>> def norm(x):
    ...     problems = Problems(x)
    ...     rows = problems.rows(x)
    ...     return problems.one(tapegrad.reduce_sum(rows * rows, axis=1))
    >>> tapegrad.vmap(norm)(tapegrad.constant([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [5.0, 25.0]
    """

    def __init__(self, *values: Any) -> None:
        self._frame = current_frame()
        sizes = {one.level: one.size for one in frames_around(self._frame)}
        for value in nest.flatten(values):
            inside, levels = unwrap(value)
            sizes.update(zip(levels, getattr(inside, "shape", ())))
        self._sizes = dict(sorted(sizes.items()))
        self.count = math.prod(self._sizes.values())

    def rows(self, value: Any) -> Rows:
        """Return a value of one problem as an array with a leading axis of all problems."""
        value = operand(value)
        shape = tuple(value.shape)
        inside, own = unwrap(value, self._sizes)
        full = with_examples(inside, own, self._sizes)
        return reshape_p(full, shape=(self.count, *shape))

    def one(self, rows: Rows) -> Any:
        """Return the rows of all problems as the value of one problem."""
        shape = (*self._sizes.values(), *rows.shape[1:])
        return wrap_levels(reshape_p(rows, shape=shape), tuple(self._sizes))

    def call(self, function: Callable[..., Any], *rows: Rows) -> Any:
        """Call a function of one problem for all problems; return rows in its structure."""
        with in_frame(self._frame):
            found = function(*[self.one(one) for one in rows])
            return nest.map_structure(self.rows, found)

    def iterate(
        self, step: Callable[..., Sequence[Rows]], is_active: Rows, state: Sequence[Rows]
    ) -> tuple[Rows, ...]:
        """Replace the state by `step(*state)` until no problem is active; return the state.

        `step` returns whether each problem is still active, and the new state. Problems that are
        not active keep theirs.
        """

        def body(active: Rows, *before: Rows) -> tuple[Rows, ...]:
            goes_on, *after = step(*before)
            kept = [where(_beside(active, new), new, old) for new, old in zip(after, before)]
            return (active & goes_on, *kept)

        with in_frame(None):
            last = while_loop(lambda active, *_: reduce_any(active), body, (is_active, *state))
        return tuple(last[1:])


def _beside(flags: Rows, rows: Rows) -> Rows:
    """Return flags of problems with the rank of rows."""
    ones = [1] * (len(rows.shape) - 1)
    return reshape_p(flags, shape=(flags.shape[0], *ones)) if ones else flags


def choose(flags: Rows, new: Rows, old: Rows) -> Rows:
    """Return the new rows of the problems whose flag is set, and the old ones of the others."""
    return where(_beside(flags, new), new, old)
