"""Batching: stack elements of equal shapes, or pad them to a common shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.core.values.strings import is_text, text_array
from tapegrad.data.constants import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.functions import annotate_errors
from tapegrad.data.plan import END, Above, Plan, Run, Source, State
from tapegrad.data.selection import inner
from tapegrad.data.structure import Composite, combined, map_spec, mapped, stacked
from tapegrad.data.threads import Applied, Parallel
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.program.record.signature import TensorSpec

Join = Callable[[Sequence[Any]], Any]
"""Combines several elements into one."""


def groups(size: int, count: int, drop_remainder: bool) -> int:
    """Return the number of groups of `count` in a dataset of the given cardinality."""
    if size in (INFINITE_CARDINALITY, UNKNOWN_CARDINALITY):
        return size
    return size // count if drop_remainder else -(-size // count)


# Batches


class Batch(Plan):
    """Combines groups of `count` elements by `join`; None stacks them."""

    def __init__(
        self, plan: Plan, count: int, drop_remainder: bool, workers: int, join: Padding | None
    ) -> None:
        self.step = "batch" if join is None else "padded_batch"
        self._input = plan
        self._count = count
        self._drop_remainder = drop_remainder
        self._workers = workers
        self._join = join

    def open(self, run: Run, state: State | None) -> Source:
        limits = (self._count, self._drop_remainder)
        if self._join is None and (run.peeks or not self._workers):
            source = self._input.start(run.on_host(), inner(state))
            return _Blocks(self.step, source, *limits, run.like)
        join = self._join or (lambda elements: stacked(elements, self.step))

        def grouped(state: State | None) -> Source:
            source = self._input.start(run.on_host(), inner(state))
            return _Groups(self.step, source, *limits)

        if run.peeks or not self._workers:
            return Applied(self.step, grouped(inner(state)), join)
        return Parallel(self.step, grouped, join, self._workers, True, state)

    def size(self) -> int:
        return groups(self._input.size(), self._count, self._drop_remainder)

    def spec(self) -> Any:
        length = self._count if self._drop_remainder else None
        spec = self._input.spec() if self._join is None else self._join.spec(self._input.spec())
        return map_spec(
            lambda one: _with_first_axis(one, length), spec, lambda one: one.batched(length)
        )


def _with_first_axis(spec: TensorSpec, length: int | None) -> TensorSpec:
    shape = None if spec.shape is None else (length, *spec.shape)
    return TensorSpec(shape, spec.dtype)


class _Grouped(Above):
    def __init__(
        self, step: str, source: Source, count: int, drop_remainder: bool, like: Any = None
    ) -> None:
        super().__init__(source)
        self._step = step
        self._count = count
        self._least = count if drop_remainder else 1
        self._like = like


class _Blocks(_Grouped):
    """Batches that the input assembles itself; arrays do this by one slice."""

    def next(self) -> Any:
        with annotate_errors(self._step):
            found, block = self._source.block(self._count, self._step, self._like)
        return block if found >= self._least else END

    def is_gathered(self) -> bool:
        return self._source.gathers(self._like)


class _Groups(_Grouped):
    """Lists of elements that a later step joins."""

    def next(self) -> Any:
        found: list[Any] = []
        while len(found) < self._count and (element := self._source.next()) is not END:
            found.append(element)
        return found if len(found) >= self._least else END


class Padding:
    """Joins arrays of different shapes, each padded at its ends to a common shape.

    `shapes` holds one shape per leaf; None or -1 stands for the longest length in the group.
    `values` holds the padding values. None means the longest length everywhere, and zeros.
    """

    def __init__(self, shapes: Any, values: Any) -> None:
        self._shapes = shapes
        self._values = values

    def __call__(self, elements: Sequence[Any]) -> Any:
        with annotate_errors("padded_batch"):
            elements = [mapped(_dense, element) for element in elements]
            first = elements[0]
            ranks = [leaf.ndim for leaf in nest.flatten(first) if isinstance(leaf, np.ndarray)]
            plans = iter(zip(self._shapes_for(first, ranks), self._values_for(first)))
            return combined(elements, "padded_batch", lambda found: _padded(found, *next(plans)))

    def _shapes_for(self, like: Any, ranks: Sequence[int]) -> list[Sequence[int | None]]:
        if self._shapes is None:
            return [(None,) * rank for rank in ranks]
        shapes = _flat_like(like, self._shapes, "padded_shapes", list | tuple | TensorSpec)
        return [tuple(_free(n) for n in getattr(shape, "shape", shape)) for shape in shapes]

    def _values_for(self, like: Any) -> list[Any]:
        if self._values is None or not nest.is_nested(self._values):
            return [self._values or 0] * len(nest.flatten(like))
        values = _flat_like(like, self._values, "padding_values", object)
        return [0 if value is None else value for value in values]

    def spec(self, spec: Any) -> Any:
        """Return the spec of a padded element, given the spec of the input."""
        spec = map_spec(lambda one: one, spec, lambda one: TensorSpec(one.shape, one.dtype))
        ranks = [0 if one.shape is None else len(one.shape) for one in nest.flatten(spec)]
        shapes = iter(self._shapes_for(spec, ranks))
        return map_spec(lambda one: TensorSpec(next(shapes), one.dtype), spec)


def _dense(leaf: Any) -> Any:
    return leaf.dense() if isinstance(leaf, Composite) else leaf


def _free(length: Any) -> int | None:
    return None if length in (None, -1) else int(length)


def _flat_like(like: Any, given: Any, name: str, leaf_type: Any) -> list[Any]:
    """Return the entry of `given` for each leaf of an element; a list is a shape."""
    if isinstance(like, tuple | dict):
        fits = isinstance(given, type(like)) and len(given) == len(like)
        if not fits or (isinstance(like, dict) and set(given) != set(like)):
            raise ArgumentError(
                f"{name} must have the structure of the elements: {_keys(like)}. Got {given!r}."
            )
        places: Any = sorted(like) if isinstance(like, dict) else range(len(like))
        return [leaf for k in places for leaf in _flat_like(like[k], given[k], name, leaf_type)]
    if not isinstance(given, leaf_type):
        raise ArgumentError(f"{name} needs a list of lengths per array. Got {given!r}.")
    return [given]


def _keys(like: Any) -> str:
    if isinstance(like, dict):
        return f"a dictionary with {sorted(like)}"
    return f"a tuple of {len(like)} entries"


def _filling(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the padding value; that of text is empty unless another is given."""
    if dtype.kind != "O":
        return value
    return text_array(value if is_text(value) else b"").item()


def _padded(leaves: Sequence[np.ndarray], shape: Sequence[int | None], value: Any) -> np.ndarray:
    if any(leaf.ndim != len(shape) for leaf in leaves):
        ranks = sorted({leaf.ndim for leaf in leaves})
        raise ShapeError(f"padded_batch needs arrays of rank {len(shape)}. Got ranks {ranks}.")
    longest = [max(lengths) for lengths in zip(*(leaf.shape for leaf in leaves))]
    room = [found if wanted is None else wanted for found, wanted in zip(longest, shape)]
    if any(found > wanted for found, wanted in zip(longest, room)):
        raise ShapeError(
            f"padded_batch cannot truncate: an array of the batch has shape {tuple(longest)}, and "
            f"padded_shapes allows {tuple(room)}."
        )
    batch = np.full((len(leaves), *room), _filling(value, leaves[0].dtype), leaves[0].dtype)
    for row, leaf in enumerate(leaves):
        filled: tuple[Any, ...] = (row, *map(slice, leaf.shape))
        batch[filled] = leaf
    return batch
