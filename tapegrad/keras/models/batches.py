"""What `fit`, `evaluate` and `predict` are given, cut into batches of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from tapegrad.core import nest
from tapegrad.core.convert import to_tensor
from tapegrad.core.tensor import Tensor
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.gather import gather
from tapegrad.ops.random_generator import get_global_generator

BATCH = 32
Batch = tuple[Any, Any, Any]


def unpack(data: Any) -> Batch:
    """Return input, target and sample weights of a batch; what is not there is None.

    >>> unpack((1, 2)), unpack(3)
    ((1, 2, None), (3, None, None))
    """
    if not isinstance(data, tuple):
        return data, None, None
    if len(data) > 3:
        raise ArgumentError(
            "A batch is an input, (input, target) or (input, target, sample weights). "
            f"Got {len(data)} entries."
        )
    return (*data, *[None] * (3 - len(data)))


class ArrayBatches:
    """Arrays in memory, cut along their first axis."""

    def __init__(self, arrays: Batch, batch_size: int | None, shuffle: bool) -> None:
        self._arrays = nest.map_structure(_kept, arrays)
        leaves = [leaf for leaf in nest.flatten(self._arrays) if leaf is not None]
        sizes = {int(leaf.shape[0]) if leaf.shape else 0 for leaf in leaves}
        if len(sizes) != 1:
            shapes = [tuple(leaf.shape) for leaf in leaves]
            raise ArgumentError(
                f"All arrays must have the same number of examples, their first axis. Got {shapes}."
            )
        self._count = sizes.pop()
        self._size = BATCH if batch_size is None else batch_size
        if self._size < 1:
            raise ArgumentError(f"batch_size is a positive number. Got {batch_size}.")
        self._shuffle = shuffle
        self._is_plain = not any(nest.is_nested(one) for one in self._arrays)

    @property
    def steps(self) -> int:
        return -(-self._count // self._size)

    def __iter__(self) -> Iterator[Batch]:
        order = _shuffled(self._count) if self._shuffle else None
        for start in range(0, self._count, self._size):
            stop = min(start + self._size, self._count)
            rows = slice(start, stop) if order is None else order[start:stop]
            if self._is_plain:
                x, y, weights = self._arrays
                yield _rows(rows, x), _rows(rows, y), _rows(rows, weights)
            else:
                yield nest.map_structure(partial(_rows, rows), self._arrays)


def _shuffled(count: int) -> Any:
    """The numbers below `count` in an order that follows `tapegrad.random.set_seed`."""
    seed = int(get_global_generator().uniform((), 0, 2**31 - 1, dtype="int64"))
    return np.random.default_rng(seed).permutation(count)


def _kept(value: Any) -> Any:
    if value is None or isinstance(value, Tensor | np.ndarray):
        return value
    return value.value() if isinstance(value, Variable) else np.asarray(value)


def _rows(rows: Any, array: Any) -> Any:
    if array is None:
        return None
    if isinstance(array, Tensor):  # it lies on the device already
        return array[rows] if isinstance(rows, slice) else gather(array, rows)
    chosen = array[rows]
    return to_tensor(chosen if chosen.dtype != np.float64 else chosen.astype(np.float32))


def _narrow(array: Any) -> Any:
    """Python's floats are for float32 layers: they need not travel in double precision."""
    return array.astype(np.float32) if array.dtype == np.float64 else array


class StreamBatches:
    """Batches that come from a dataset, a generator or any other iterable."""

    def __init__(self, source: Iterable[Any]) -> None:
        self._source = source
        self._is_once = iter(source) is source

    @property
    def steps(self) -> int | None:
        try:
            count = len(self._source)  # type: ignore[arg-type]
        except TypeError:
            return None
        return count if count >= 0 else None

    def __iter__(self) -> Iterator[Batch]:
        for data in self._source:
            x, y, weights = unpack(tuple(data) if isinstance(data, list) else data)
            yield nest.map_structure(_tensor, (x, y, weights))

    @property
    def is_once(self) -> bool:
        """Whether it can be gone through a single time, as a generator."""
        return self._is_once


def _tensor(value: Any) -> Any:
    if value is None or isinstance(value, Tensor):
        return value
    return to_tensor(_narrow(np.asarray(value)))


def batches_of(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    batch_size: int | None = None,
    shuffle: bool = False,
    class_weight: Mapping[int, float] | None = None,
) -> Any:
    """Return something that can be gone through once per epoch, as tuples of tensors."""
    if x is None:
        raise ArgumentTypeError("There is no data: x is None.")
    if _is_data(x):
        weights = _weights_for(y, sample_weight, class_weight)
        return ArrayBatches((x, y, weights), batch_size, shuffle)
    if y is not None or sample_weight is not None or class_weight is not None:
        raise ArgumentError(
            "A dataset or a generator gives targets and weights itself, as (x, y) or "
            "(x, y, weights): leave y, sample_weight and class_weight out."
        )
    if not isinstance(x, Iterable):
        raise ArgumentTypeError(
            f"Data is arrays, tensors, a dataset or a generator. Got {type(x).__name__}."
        )
    return StreamBatches(x)


def _is_data(x: Any) -> bool:
    leaves = nest.flatten(x) if isinstance(x, list | tuple | dict) else [x]
    arrays = (np.ndarray, Tensor, Variable)
    return all(isinstance(leaf, arrays) or hasattr(leaf, "__array__") for leaf in leaves) or (
        isinstance(x, list) and bool(x) and all(np.ndim(leaf) == 0 for leaf in leaves)
    )


def _weights_for(y: Any, sample_weight: Any, class_weight: Mapping[int, float] | None) -> Any:
    if class_weight is None:
        return sample_weight
    if sample_weight is not None:
        raise ArgumentError("Give class_weight or sample_weight, not both.")
    labels = np.asarray(y.numpy() if isinstance(y, Tensor) else y)
    if labels.ndim > 1 and labels.shape[-1] > 1:
        labels = labels.argmax(-1)
    labels = labels.reshape(len(labels), -1)[:, 0].astype(int)
    table = np.ones(max(labels.max(initial=0), max(class_weight)) + 1, np.float32)
    for number, weight in class_weight.items():
        table[number] = weight
    return table[labels]
