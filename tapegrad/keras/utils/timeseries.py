"""timeseries_dataset_from_array: windows of a time series, with their targets."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_count
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.data.constants import AUTOTUNE
from tapegrad.data.dataset import Dataset
from tapegrad.errors import ArgumentError, ShapeError

_ONE_BY_ONE = 1024
"""How many windows `shuffle` mixes if they are not batched."""


def timeseries_dataset_from_array(
    data: Any,
    targets: Any,
    sequence_length: int,
    sequence_stride: int = 1,
    sampling_rate: int = 1,
    batch_size: int | None = 128,
    shuffle: bool = False,
    seed: int | None = None,
    start_index: int | None = None,
    end_index: int | None = None,
) -> Dataset:
    """Make a dataset of windows of `sequence_length` time steps, `sampling_rate` steps apart.

    A window begins `sequence_stride` steps after the previous one. `targets[i]` belongs to the
    window that begins at step i; without targets, the elements are windows only. Steps before
    `start_index`, and from `end_index` on, are not used.

    >>> series = np.arange(10)
    >>> windows = timeseries_dataset_from_array(series, series[3:], sequence_length=3, batch_size=2)
    >>> next(iter(windows))[0].tolist(), next(iter(windows))[1].tolist()
    ([[0, 1, 2], [1, 2, 3]], [3, 4])
    """
    name = "timeseries_dataset_from_array"
    steps = _array("data", data)
    start, end = _limits(len(steps), start_index, end_index)
    length = check_count("sequence_length", sequence_length, name, 1)
    stride = check_count("sequence_stride", sequence_stride, name, 1)
    rate = check_count("sampling_rate", sampling_rate, name, 1)
    for what, value in (("sequence_stride", stride), ("sampling_rate", rate)):
        if value >= len(steps):
            raise ArgumentError(
                f"{what} must be below the number of time steps, {len(steps)}. Got {value}."
            )
    steps = steps[start:end]
    wanted = None if targets is None else _array("targets", targets)
    count = len(steps) - (length - 1) * rate
    if wanted is not None:
        count = min(count, len(wanted))
        wanted = wanted[start:end]
    if count <= 0:
        raise ArgumentError(
            f"No window of {length} steps, {rate} apart, fits into {len(steps)} time steps"
            + ("." if wanted is None else f" with {len(wanted)} targets.")
        )
    starts = np.arange(0, count, stride)
    if wanted is not None and starts[-1] >= len(wanted):
        raise ShapeError(
            f"There are windows up to step {starts[-1]}, but targets only up to {len(wanted) - 1} "
            f"from start_index={start} on. Pass one target for each step of the data."
        )
    if shuffle:
        if seed is None:
            seed = int(np.random.default_rng().integers(1_000_000))
        starts = np.random.default_rng(seed).permutation(starts)
    offsets = np.arange(length) * rate

    def windows(first: Any) -> Any:
        rows = first.numpy()
        found = steps[rows[..., None] + offsets]
        return found if wanted is None else (found, wanted[rows])

    # The first steps of windows are shuffled and batched, and not the windows: all windows of a
    # batch are then cut at once.
    positions = Dataset.from_tensor_slices(starts)
    if shuffle:
        positions = positions.shuffle(8 * batch_size if batch_size else _ONE_BY_ONE, seed)
    if batch_size is not None:
        positions = positions.batch(batch_size)
    return positions.map(windows).prefetch(AUTOTUNE)


def _array(name: str, value: Any) -> Any:
    array = value.numpy() if isinstance(value, Tensor | Variable) else np.asarray(value)
    if array.ndim == 0 or array.dtype.kind not in "biufc":
        raise ArgumentError(
            f"{name} must be an array of numbers whose first axis is the time. Got an array of "
            f"{array.dtype} with shape {array.shape}."
        )
    return array


def _limits(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    first, last = 0 if start is None else start, size if end is None else end
    if not 0 <= first < size or not 0 < last <= size or first >= last:
        raise ArgumentError(
            f"start_index and end_index must satisfy 0 <= start_index < end_index <= {size}, the "
            f"number of time steps. Got start_index={start} and end_index={end}."
        )
    return first, last
