"""Split the data of `fit`, `evaluate` and `predict` into batches of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensors
from tapegrad.core.values.strings import StringTensor, is_list_of_text, is_text, to_any_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.batch_data import Batch, PyDataset, unpack
from tapegrad.keras.models.arguments import check_count
from tapegrad.keras.models.class_weights import check_class_weight, weights_of_classes
from tapegrad.keras.models.resident import are_on_device, on_device, shuffled_batches
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.random.generator import get_global_generator
from tapegrad.sparse.functions import to_dense
from tapegrad.sparse.tensor import SparseTensor

BATCH = 32


class ArrayBatches:
    """Batches of arrays in memory, split along their first axis."""

    seed: int | None = None
    """The seed of the last shuffle."""

    def __init__(self, arrays: Batch, batch_size: int | None, shuffle: bool) -> None:
        check_count("batch_size", batch_size)
        self._arrays = nest.map_structure(_kept, tuple(as_arrays(one) for one in arrays))
        leaves = [leaf for leaf in nest.flatten(self._arrays) if leaf is not None]
        sizes = {int(leaf.shape[0]) if leaf.shape else 0 for leaf in leaves}
        if len(sizes) != 1:
            shapes = [tuple(leaf.shape) for leaf in leaves]
            raise ArgumentError(
                "All arrays must have the same number of examples along their first axis. "
                f"Got shapes {shapes}."
            )
        self._count = sizes.pop()
        if self._count == 0:
            shapes = [tuple(leaf.shape) for leaf in leaves]
            raise ArgumentError(f"The arrays hold no examples. Got shapes {shapes}.")
        self._size = BATCH if batch_size is None else int(batch_size)
        self._shuffle = shuffle
        self._is_plain = not any(nest.is_nested(one) for one in self._arrays)

    @property
    def steps(self) -> int:
        return -(-self._count // self._size)

    def place(self) -> Any:
        """Return the state that `again` needs to resume a pass."""
        return [self._count, self._size]

    def again(self, seed: int | None, taken: int, place: Any) -> Iterator[Batch]:
        """Return the rest of a pass after `taken` batches; the pass may be of another process."""
        if place != self.place():
            raise ArgumentError(
                "Training can only resume with the same data. Its [examples, batch_size] were "
                f"{place}. Got {self.place()}."
            )
        return islice(self._pass(seed), taken, None)

    def __iter__(self) -> Iterator[Batch]:
        return self._pass(None)

    def _pass(self, seed: int | None) -> Iterator[Batch]:
        self.seed = _new_seed() if self._shuffle and seed is None else seed
        order = _shuffled(self.seed, self._count) if self._shuffle else None
        self._arrays = on_device(self._arrays, _narrow)
        if order is not None and are_on_device(self._arrays):
            yield from shuffled_batches(self._arrays, order, self._size)
            return
        for start in range(0, self._count, self._size):
            stop = min(start + self._size, self._count)
            rows = slice(start, stop) if order is None else order[start:stop]
            if self._is_plain:
                x, y, weights = self._arrays
                yield placed((_rows(rows, x), _rows(rows, y), _rows(rows, weights)))
            else:
                yield placed(nest.map_structure(partial(_rows, rows), self._arrays))


def _new_seed() -> int:
    """Draw a seed from the global generator, so that `tapegrad.random.set_seed` determines it."""
    return int(get_global_generator().uniform((), 0, 2**31 - 1, dtype="int64"))


def _shuffled(seed: int | None, count: int) -> Any:
    return np.random.default_rng(seed).permutation(count)


def _kept(value: Any) -> Any:
    if is_text(value):
        return to_any_tensor(value)
    if value is None or isinstance(value, Tensor | StringTensor | np.ndarray):
        return value
    return value.read_value() if isinstance(value, Variable) else np.asarray(value)


def _rows(rows: Any, array: Any) -> Any:
    if array is None:
        return None
    if isinstance(array, StringTensor):
        return array[rows]
    if isinstance(array, Tensor):  # already on the device
        return array[rows] if isinstance(rows, slice) else gather(array, rows)
    return array[rows]


def _narrow(array: Any) -> Any:
    """Cast float64 to float32 before the copy to the device, as layers compute in float32."""
    return array.astype(np.float32) if array.dtype == np.float64 else array


class StreamBatches:
    """Batches from a dataset, a generator or any other iterable."""

    seed: int | None = None
    _reading: Any = None

    def __init__(
        self, source: Any, class_weight: Mapping[int, float] | None = None, shuffle: bool = False
    ) -> None:
        self._source, self._class_weight = source, class_weight
        self._shuffle = shuffle and isinstance(source, PyDataset)
        self._is_once = not repeats(source) and iter(source) is source

    @property
    def steps(self) -> int | None:
        try:
            count = len(self._source)
        except TypeError:
            return None
        return count if count >= 0 else None

    def place(self) -> Any:
        """Return the position of the last pass, or None if the data has no `set_state`."""
        return self._reading.state() if hasattr(self._reading, "set_state") else None

    def again(self, seed: int | None, taken: int, place: Any) -> Iterator[Batch]:
        """Return the rest of a pass; data without `set_state` is read again and skipped."""
        self._begin(seed)
        if (place is None) == hasattr(self._reading, "set_state"):
            raise ValueError("only one of the saved and the present data has set_state()")
        if place is not None:
            self._reading.set_state(place)
        return islice(self._batches(), taken if place is None else 0, None)

    def __iter__(self) -> Iterator[Batch]:
        self._begin(_new_seed() if self._shuffle else None)
        yield from self._batches()

    def _begin(self, seed: int | None) -> None:
        self.seed, source = seed, self._source
        if self._shuffle:
            self._reading = source.in_order(_shuffled(seed, len(source)))
        else:
            self._reading = source.in_order(range(len(source))) if repeats(source) else iter(source)

    def _batches(self) -> Iterator[Batch]:
        for data in self._reading:
            x, y, weights = unpack(tuple(data) if isinstance(data, list) else data)
            x, y, weights = placed((x, y, weights))
            if self._class_weight is not None:
                weights = weights_of_classes(y, weights, self._class_weight)
            yield x, y, weights

    @property
    def is_once(self) -> bool:
        """Whether the data can be iterated only once, as a generator."""
        return self._is_once


def repeats(source: Any) -> bool:
    """Whether iteration over this data never ends, so that an epoch is one pass by index."""
    return isinstance(source, PyDataset) and source.repeats


class ReplayedIterator:
    """An iterator that can be iterated again: it replays stored items, then reads new ones."""

    def __init__(self, source: Iterator[Any]) -> None:
        self._source, self._kept = source, list[Any]()

    def __iter__(self) -> Iterator[Any]:
        yield from self._kept
        for batch in self._source:
            self._kept.append(batch)
            yield batch


def placed(batch: Batch) -> Batch:
    """Return a batch as tensors; those that are on the host are copied together."""
    is_plain = not any([nest.is_nested(one) for one in batch])
    leaves = list(batch) if is_plain else nest.flatten(batch)
    arrays = {
        k: _narrow(np.asarray(one))
        for k, one in enumerate(leaves)
        if one is not None and not isinstance(one, Tensor | StringTensor | SparseTensor)
    }
    for k in [k for k, array in arrays.items() if is_text(array)]:
        leaves[k] = to_any_tensor(arrays.pop(k))
    for k, tensor in zip(arrays, to_tensors(list(arrays.values())), strict=True):
        leaves[k] = tensor
    found: Batch = tuple(leaves) if is_plain else nest.pack_sequence_as(batch, leaves)
    return found


def batches_of(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    batch_size: int | None = None,
    shuffle: bool = False,
    class_weight: Mapping[int, float] | None = None,
) -> Any:
    """Return an iterable that yields the batches of one epoch as tuples of tensors."""
    if x is None:
        raise ArgumentTypeError("x must be arrays, tensors, a dataset or a generator. Got None.")
    if class_weight is not None:
        check_class_weight(class_weight)
    if is_list_of_text(x):
        x = as_arrays(x)
    if isinstance(x, SparseTensor):
        x = to_dense(x, validate_indices=False)
    if _is_data(x):
        if class_weight is not None:
            sample_weight = weights_of_classes(as_arrays(y), sample_weight, class_weight)
        return ArrayBatches((x, y, sample_weight), batch_size, shuffle)
    if not isinstance(x, Iterable) or isinstance(x, str | bytes):
        raise ArgumentTypeError(
            f"x must be arrays, tensors, a dataset or a generator. Got {type(x).__name__}: {x!r}."
        )
    if y is not None or sample_weight is not None:
        raise ArgumentError(
            "A dataset or a generator yields targets and weights itself, as (x, y) or "
            "(x, y, weights): do not pass y or sample_weight."
        )
    return StreamBatches(x, class_weight, shuffle)


def as_arrays(value: Any) -> Any:
    """Convert nested lists of Python numbers to one array; return other values unchanged.

    A column of a pandas table becomes an array with one column, and a table a matrix.

    >>> as_arrays([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if hasattr(value, "to_numpy") and hasattr(value, "iloc"):
        table = value.to_numpy()
        return table[:, None] if table.ndim == 1 else table
    if isinstance(value, dict):
        return {name: as_arrays(one) for name, one in value.items()}
    if is_list_of_text(value):
        return to_any_tensor(value)
    if not isinstance(value, list | tuple) or not _are_numbers(nest.flatten(value)):
        return value
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ArgumentError(
            "Nested lists of numbers must have equal lengths to form an array. "
            "Got lists of different lengths."
        ) from error


def _are_numbers(leaves: list[Any]) -> bool:
    return bool(leaves) and all(isinstance(leaf, int | float | np.generic) for leaf in leaves)


def _is_data(x: Any) -> bool:
    leaves = nest.flatten(x) if isinstance(x, list | tuple | dict) else [x]
    arrays = (np.ndarray, Tensor, Variable)
    if all(isinstance(leaf, arrays) or hasattr(leaf, "__array__") for leaf in leaves):
        return True
    return isinstance(x, list | dict) and _are_numbers(leaves)
