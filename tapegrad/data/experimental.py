"""TensorFlow's `tf.data.experimental`: older names of what `tapegrad.data` has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values.tensor import Tensor
from tapegrad.data.carried import Asserted
from tapegrad.data.constants import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY
from tapegrad.data.dataset import Dataset
from tapegrad.data.options import AutoShardPolicy
from tapegrad.data.readers import CsvDataset
from tapegrad.data.sources import listed
from tapegrad.data.structure import own_host
from tapegrad.data.tables import make_csv_dataset

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "AutoShardPolicy",
    "Counter",
    "CsvDataset",
    "RandomDataset",
    "assert_cardinality",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "dense_to_ragged_batch",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "from_list",
    "get_single_element",
    "group_by_window",
    "ignore_errors",
    "load",
    "make_csv_dataset",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "save",
    "scan",
    "shuffle_and_repeat",
    "snapshot",
    "take_while",
    "unbatch",
    "unique",
]

Transformation = Callable[[Dataset], Dataset]


def cardinality(dataset: Dataset) -> Tensor:
    """Return `dataset.cardinality()`.

    >>> int(cardinality(Dataset.range(5)))
    5
    """
    return dataset.cardinality()


def assert_cardinality(expected_cardinality: int) -> Transformation:
    """Return a function for `apply` that gives a dataset a length, which is checked at its end.

    >>> odd = Dataset.range(6).filter(lambda n: n % 2 == 1)
    >>> len(odd.apply(assert_cardinality(3)))
    3
    """
    return lambda dataset: Dataset(Asserted(dataset.plan, expected_cardinality))


def Counter(start: int = 0, step: int = 1, dtype: Any = "int64") -> Dataset:  # noqa: N802
    """Return the infinite dataset start, start + step, ...

    >>> [int(n) for n in Counter(5, 2).take(3)]
    [5, 7, 9]
    """
    return Dataset.counter(start, step, dtype)


def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Return `Dataset.choose_from_datasets`, which by default goes on when a dataset ends.

    >>> tens = Dataset.range(10, 12)
    >>> [int(n) for n in choose_from_datasets([Dataset.range(2), tens], Dataset.range(2))]
    [0, 10]
    """
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: Sequence[Dataset],
    weights: Any = None,
    seed: int | None = None,
    stop_on_empty_dataset: bool = False,
) -> Dataset:
    """Return `Dataset.sample_from_datasets`.

    >>> sorted(int(n) for n in sample_from_datasets([Dataset.range(2), Dataset.range(5, 7)]))
    [0, 1, 5, 6]
    """
    return Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def enumerate_dataset(start: int = 0) -> Transformation:
    """Return a function for `apply` that pairs each element with its index.

    >>> [(int(k), int(n)) for k, n in Dataset.range(5, 7).apply(enumerate_dataset())]
    [(0, 5), (1, 6)]
    """
    return lambda dataset: dataset.enumerate(start)


def get_single_element(dataset: Dataset) -> Any:
    """Return the element of a dataset that has one.

    >>> int(get_single_element(Dataset.range(5).take(1)))
    0
    """
    return dataset.get_single_element()


def prefetch_to_device(device: str, buffer_size: int | None = None) -> Transformation:
    """Return a function for `apply` that prefetches; elements are placed on the current device.

    >>> [int(n) for n in Dataset.range(2).apply(prefetch_to_device("/cpu:0"))]
    [0, 1]
    """
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def snapshot(
    path: Any, compression: Any = "AUTO", reader_func: Any = None, shard_func: Any = None
) -> Transformation:
    """Return a function for `apply` that keeps the elements of the first pass in a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [int(n) for n in Dataset.range(3).apply(snapshot(folder))]
    [0, 1, 2]
    """
    return lambda dataset: dataset.snapshot(path, compression, reader_func, shard_func)


def save(dataset: Dataset, path: Any) -> None:
    """Write the elements of a dataset to a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Dataset.range(3), folder)
    ...     len(load(folder))
    3
    """
    dataset.save(path)


def load(path: Any, element_spec: Any = None) -> Dataset:
    """Return the dataset that `save` wrote to a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Dataset.range(3), folder)
    ...     [int(n) for n in load(folder)]
    [0, 1, 2]
    """
    return Dataset.load(path, element_spec)


def scan(initial_state: Any, scan_func: Callable[[Any, Any], Any]) -> Transformation:
    """Return a function for `apply` that calls `Dataset.scan`.

    >>> sums = Dataset.range(4).apply(scan(0, lambda total, n: (total + n, total + n)))
    >>> [int(n) for n in sums]
    [0, 1, 3, 6]
    """
    return lambda dataset: dataset.scan(initial_state, scan_func)


def shuffle_and_repeat(
    buffer_size: int, count: int | None = None, seed: int | None = None
) -> Transformation:
    """Return a function for `apply` that shuffles and then repeats.

    >>> sorted(int(n) for n in Dataset.range(2).apply(shuffle_and_repeat(2, 2)))
    [0, 0, 1, 1]
    """
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def take_while(predicate: Callable[..., Any]) -> Transformation:
    """Return a function for `apply` that calls `Dataset.take_while`.

    >>> [int(n) for n in Dataset.range(9).apply(take_while(lambda n: n < 2))]
    [0, 1]
    """
    return lambda dataset: dataset.take_while(predicate)


def from_list(elements: Sequence[Any], name: str | None = None) -> Dataset:
    """Return a dataset of the elements of a list, whose shapes may differ.

    >>> [x.numpy().tolist() for x in from_list([[1, 2], [3]])]
    [[1, 2], [3]]
    """
    return Dataset(listed("from_list", [own_host(element, "from_list") for element in elements]))


def rejection_resample(
    class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None, seed: Any = None
) -> Transformation:
    """Return a function for `apply` that calls `Dataset.rejection_resample`.

    >>> resample = rejection_resample(lambda n: n % 2, [0.0, 1.0], [0.5, 0.5])
    >>> [int(n) for _, n in Dataset.range(6).apply(resample)]
    [1, 3, 5]
    """
    return lambda dataset: dataset.rejection_resample(class_func, target_dist, initial_dist, seed)


def RandomDataset(seed: int | None = None) -> Dataset:  # noqa: N802  # TensorFlow's name
    """Return `Dataset.random(seed)`.

    >>> len([*RandomDataset(4).take(3)])
    3
    """
    random: Dataset = Dataset.random(seed)
    return random


def unbatch() -> Transformation:
    """Return a function for `apply` that splits each element along its first axis.

    >>> [int(n) for n in Dataset.range(3).batch(2).apply(unbatch())]
    [0, 1, 2]
    """
    return lambda dataset: dataset.unbatch()


def unique() -> Transformation:
    """Return a function for `apply` that passes on each element once.

    >>> [int(n) for n in Dataset.from_tensor_slices([3, 1, 3]).apply(unique())]
    [3, 1]
    """
    return lambda dataset: dataset.unique()


def dense_to_ragged_batch(
    batch_size: int, drop_remainder: bool = False, row_splits_dtype: Any = "int64"
) -> Transformation:
    """Return a function for `apply` that joins elements of different lengths to ragged tensors.

    >>> rows = Dataset.range(3).map(lambda n: n + Dataset.range(3).batch(3).get_single_element())
    >>> next(iter(rows.apply(dense_to_ragged_batch(2)))).to_list()
    [[0, 1, 2], [1, 2, 3]]
    """
    return lambda dataset: dataset.ragged_batch(batch_size, drop_remainder)


def dense_to_sparse_batch(batch_size: int, row_shape: Any) -> Transformation:
    """Return a function for `apply` that joins elements of different lengths to sparse tensors.

    >>> rows = Dataset.from_tensor_slices([[1, 2], [3, 4]])
    >>> next(iter(rows.apply(dense_to_sparse_batch(2, [3])))).shape
    (2, 3)
    """
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)


def ignore_errors(log_warning: bool = False) -> Transformation:
    """Return a function for `apply` that leaves out elements whose computation fails.

    >>> len(list(Dataset.range(3).apply(ignore_errors())))
    3
    """
    return lambda dataset: dataset.ignore_errors(log_warning)


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Any], Any],
    window_size: int | None = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> Transformation:
    """Return a function for `apply` that collects elements of equal keys.

    >>> groups = group_by_window(lambda n: n % 2, lambda key, group: group.batch(2), 2)
    >>> [x.tolist() for x in Dataset.range(4).apply(groups)]
    [[0, 2], [1, 3]]
    """
    return lambda dataset: dataset.group_by_window(
        key_func, reduce_func, window_size, window_size_func
    )


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    *options: Any,
    **others: Any,
) -> Transformation:
    """Return a function for `apply` that batches elements of similar lengths together.

    >>> rows = Dataset.from_generator(lambda: ([1], [2, 3, 4], [5, 6]))
    >>> [x.shape for x in rows.apply(bucket_by_sequence_length(len, [3], [2, 2]))]
    [(2, 2), (1, 3)]
    """
    return lambda dataset: dataset.bucket_by_sequence_length(
        element_length_func, bucket_boundaries, bucket_batch_sizes, *options, **others
    )


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("data.experimental", name)


_check_calls(globals(), __all__)
