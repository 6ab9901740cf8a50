"""Batches of ragged and sparse tensors, groups by a key, and datasets that leave out errors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tapegrad.core.call_site import warn_outside
from tapegrad.core.values import nest
from tapegrad.data.batches import Batch
from tapegrad.data.composites import RaggedLeaf, SparseLeaf
from tapegrad.data.constants import UNKNOWN_CARDINALITY, checked_count
from tapegrad.data.functions import Call
from tapegrad.data.iterator import Readable
from tapegrad.data.plan import END, Above, Passing, Plan, Run, Source, State, peek, plan_and_inputs
from tapegrad.data.selection import inner
from tapegrad.data.sources import FromGenerator, listed
from tapegrad.data.threads import Applied
from tapegrad.errors import ArgumentError, ShapeError, TapegradError
from tapegrad.program.record.signature import TensorSpec
from tapegrad.sparse.tensor import as_tensor

_EXACT = {"from_tensor_slices", "from_tensors", "range", "shuffle", "repeat", "take", "skip"}
"""Steps after which all elements have the shapes of the spec."""


class _OnHost(Passing):
    """Applies a function to host elements, without conversion to tensors."""

    def __init__(self, plan: Plan, step: str, function: Callable[[Any], Any]) -> None:
        super().__init__(plan)
        self.step, self._function = step, function

    def open(self, run: Run, state: State | None) -> Source:
        source = self._input.start(run.on_host(), inner(state))
        return Applied(self.step, source, self._function)

    def spec(self) -> Any:
        return peek(self)


class _WithoutErrors(Passing):
    step = "ignore_errors"

    def __init__(self, plan: Plan, warns: bool) -> None:
        super().__init__(plan)
        self._warns = warns

    def open(self, run: Run, state: State | None) -> Source:
        return _Tolerant(self._input.start(run.on_host(), inner(state)), self._warns)

    def size(self) -> int:
        return UNKNOWN_CARDINALITY


class _Tolerant(Above):
    _step = "ignore_errors"

    def __init__(self, source: Source, warns: bool) -> None:
        super().__init__(source)
        self._warns = warns

    def next(self) -> Any:
        while True:
            try:
                return self._source.next()
            except (TapegradError, ValueError, OSError) as error:
                if self._warns:
                    warn_outside(f"ignore_errors left out an element: {error}")


class Grouping(Readable):
    """Methods of datasets that group elements."""

    def ragged_batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        row_splits_dtype: Any = "int64",
        name: str | None = None,
    ) -> Any:
        """Join elements of different lengths to ragged tensors.

        >>> from tapegrad.data import Dataset
        >>> rows = Dataset.from_generator(lambda: ([1], [2, 3]))
        >>> next(iter(rows.ragged_batch(2))).to_list()
        [[1], [2, 3]]
        """
        size = checked_count(batch_size, "ragged_batch", "batch_size", 1)
        is_exact = {plan.step for plan in plan_and_inputs(self.plan)} <= _EXACT

        def mark(leaf: Any) -> Any:
            is_row = isinstance(leaf, np.ndarray) and leaf.ndim and not is_exact
            return RaggedLeaf(leaf) if is_row else leaf

        def marked(element: Any) -> Any:
            return nest.map_structure(mark, element)

        plan = _OnHost(self.plan, "ragged_batch", marked)
        return type(self)(Batch(plan, size, drop_remainder, 0, None))

    def sparse_batch(self, batch_size: int, row_shape: Any, name: str | None = None) -> Any:
        """Join elements of different lengths to sparse tensors of shape (batch, *row_shape).

        >>> from tapegrad.data import Dataset
        >>> rows = Dataset.from_generator(lambda: ([1], [2, 3]))
        >>> next(iter(rows.sparse_batch(2, [4]))).indices.tolist()
        [[0, 0], [1, 0], [1, 1]]
        """
        size = checked_count(batch_size, "sparse_batch", "batch_size", 1)
        shape = tuple(int(length) for length in row_shape)

        def sparse(leaf: Any) -> Any:
            if leaf.ndim != len(shape) or any(n > most for n, most in zip(leaf.shape, shape)):
                raise ShapeError(
                    f"sparse_batch makes rows of shape {shape}, which an element of shape "
                    f"{leaf.shape} does not fit."
                )
            places = np.argwhere(np.ones(leaf.shape, bool))
            return SparseLeaf(places, leaf.ravel(), shape)

        def converted(element: Any) -> Any:
            return nest.map_structure(sparse, element)

        plan = _OnHost(self.plan, "sparse_batch", converted)
        return type(self)(Batch(plan, size, False, 0, None))

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Any:
        """Leave out elements whose computation raises an error.

        >>> import tapegrad as tf
        >>> data = tf.data.Dataset.from_tensor_slices([1.0, np.nan, 2.0])
        >>> data = data.map(lambda x: tf.debugging.check_numerics(x, "not a number"))
        >>> [float(x) for x in data.ignore_errors()]
        [1.0, 2.0]
        """
        return type(self)(_WithoutErrors(self.plan, log_warning))

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> Any:
        """Collect elements of equal keys, and pass each group on as `reduce_func` returns it.

        `reduce_func` gets a key and the dataset of a group, and returns a dataset.

        >>> from tapegrad.data import Dataset
        >>> groups = Dataset.range(5).group_by_window(lambda n: n % 2, lambda k, g: g.batch(4), 4)
        >>> [x.tolist() for x in groups]
        [[0, 2, 4], [1, 3]]
        """
        if (window_size is None) == (window_size_func is None):
            raise ArgumentError("group_by_window needs one of window_size and window_size_func.")
        keys = Call("group_by_window", key_func)

        def key_of(element: Any) -> int:
            return int(np.asarray(keys.raw(element)))

        def reduced(key: int, elements: Sequence[Any]) -> Iterator[Any]:
            group = type(self)(listed("group_by_window", elements))
            return _elements(reduce_func(as_tensor(np.asarray(key, np.int64)), group).plan)

        def size_for(key: int) -> int:
            if window_size is not None:
                return window_size
            return int(np.asarray(window_size_func(key)))  # type: ignore[misc]  # checked above

        def groups() -> Iterator[Any]:
            return _grouped(self.plan, key_of, size_for, reduced)

        return type(self)(FromGenerator(groups, None, None))

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Any:
        """Batch elements of similar lengths together, so that little is padded.

        `bucket_batch_sizes` has one entry more than `bucket_boundaries`.

        >>> from tapegrad.data import Dataset
        >>> rows = Dataset.from_generator(lambda: ([1], [2, 3, 4], [5, 6]))
        >>> buckets = rows.bucket_by_sequence_length(len, [3], [2, 2])
        >>> [x.tolist() for x in buckets]
        [[[1, 0], [5, 6]], [[2, 3, 4]]]
        """
        bounds, sizes = list(bucket_boundaries), list(bucket_batch_sizes)
        if len(sizes) != len(bounds) + 1:
            raise ArgumentError(
                "bucket_by_sequence_length needs one batch size more than boundaries. Got "
                f"{len(sizes)} sizes and {len(bounds)} boundaries."
            )
        lengths = Call("bucket_by_sequence_length", element_length_func)

        def joined(key: Any, group: Any) -> Any:
            bucket = int(key)
            if no_padding:
                return group.batch(sizes[bucket], drop_remainder)
            shapes = padded_shapes
            if pad_to_bucket_boundary:
                if bucket >= len(bounds):
                    raise ArgumentError("An element is longer than the last bucket boundary.")
                shapes = _filled(shapes or _free_shapes(group.element_spec), bounds[bucket] - 1)
            return group.padded_batch(sizes[bucket], shapes, padding_values, drop_remainder)

        def groups() -> Iterator[Any]:
            return _grouped(
                self.plan,
                lambda element: bisect_right(bounds, int(np.asarray(lengths.raw(element)))),
                lambda key: sizes[key],
                lambda key, found: _elements(
                    joined(key, type(self)(listed("bucket_by_sequence_length", found))).plan
                ),
            )

        return type(self)(FromGenerator(groups, None, None))


def _elements(plan: Plan) -> Iterator[Any]:
    """Yield the host elements of a plan."""
    source = plan.start(Run(), None)
    try:
        while (element := source.next()) is not END:
            yield element
    finally:
        source.close()


def _grouped(
    plan: Plan,
    key_of: Callable[[Any], int],
    size_for: Callable[[int], int],
    reduced: Callable[[int, Sequence[Any]], Iterator[Any]],
) -> Iterator[Any]:
    groups: dict[int, list[Any]] = {}
    for element in _elements(plan):
        key = key_of(element)
        group = groups.setdefault(key, [])
        group.append(element)
        if len(group) >= size_for(key):
            yield from reduced(key, groups.pop(key))
    for key in sorted(groups):
        yield from reduced(key, groups[key])


def _free_shapes(spec: Any) -> Any:
    return nest.map_structure(lambda one: [None] * len(one.shape), spec)


def _filled(shapes: Any, length: int) -> Any:
    """Return shapes with a length in place of None."""
    if isinstance(shapes, dict):
        return {key: _filled(part, length) for key, part in shapes.items()}
    if isinstance(shapes, TensorSpec):
        shapes = list(shapes.shape or ())
    is_shape = all(n is None or isinstance(n, int) for n in shapes)
    if not is_shape:
        return tuple(_filled(part, length) for part in shapes)
    return [length if n in (None, -1) else n for n in shapes]
