"""Dataset: pipeline steps under TensorFlow's names. For reading a dataset, see iterator.py."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tapegrad.core.values import nest
from tapegrad.core.values.strings import to_any_tensor
from tapegrad.data import saving, sources
from tapegrad.data.batches import Batch, Padding
from tapegrad.data.caching import Cache, InFile, InMemory, snapshot_in
from tapegrad.data.carried import Scan, TakeWhile, Unique
from tapegrad.data.constants import AUTOTUNE, checked_count
from tapegrad.data.functions import Call
from tapegrad.data.grouping import Grouping
from tapegrad.data.mapping import Filter, Interleave, Map
from tapegrad.data.mixing import Choose, sampled
from tapegrad.data.options import Options
from tapegrad.data.plan import Plan, plan_and_inputs
from tapegrad.data.resampling import Resampling
from tapegrad.data.selection import Concatenate, Part, Repeat, Zip
from tapegrad.data.shuffling import Shuffle
from tapegrad.data.structure import mapped, own_host
from tapegrad.data.threads import Prefetch, workers_for
from tapegrad.data.windows import Unbatch, Window
from tapegrad.errors import ArgumentError, ArgumentTypeError

_CYCLE = 4
"""How many datasets `interleave` reads at once; fixed, so that the order is reproducible."""


class Dataset(Grouping, Resampling):
    """A sequence of elements that can be read repeatedly, with methods that transform it.

    Elements are tensors in tuples and dictionaries. Steps work on the host; the elements of the
    last one are placed on the current device.

    >>> from tapegrad.data import Dataset
    >>> dataset = Dataset.from_tensor_slices(([1.0, 2.0, 3.0], [0, 1, 0]))
    >>> dataset = dataset.map(lambda x, y: (10 * x, y)).batch(2)
    >>> for x, y in dataset:
    ...     x.tolist(), y.tolist()
    ([10.0, 20.0], [0, 1])
    ([30.0], [0])
    """

    # Sources

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Make a dataset of the slices of arrays along their first axis.

        The arrays are copied, so that later writes to them do not change the dataset. Only
        `np.memmap` arrays are not: they stay on disk. For batches on a GPU, arrays of up to 256 MB
        in total are copied to the device once, and batches are gathered there.

        >>> [int(x) for x in Dataset.from_tensor_slices([3, 1, 2])]
        [3, 1, 2]
        """
        return Dataset(sources.slices(tensors))

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Make a dataset with one element.

        >>> [x.shape for x in Dataset.from_tensors([3, 1, 2])]
        [(3,)]
        """
        return Dataset(sources.listed("from_tensors", [own_host(tensors, "from_tensors")]))

    @staticmethod
    def from_generator(
        generator: Callable[..., Iterable[Any]],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Make a dataset of the values that a generator yields.

        Each pass calls the generator with `args`. An `output_signature` of TensorSpecs, or
        `output_types` and perhaps `output_shapes`, give the dtypes and shapes of the elements.

        >>> def squares(count):
        ...     yield from (float(n * n) for n in range(count))
        >>> [float(x) for x in Dataset.from_generator(squares, args=(3,))]
        [0.0, 1.0, 4.0]
        """
        signature = sources.signature(output_types, output_shapes, output_signature)
        return Dataset(sources.FromGenerator(generator, signature, args))

    @staticmethod
    def range(*args: Any, output_type: Any = "int64", name: str | None = None) -> Dataset:
        """Make a dataset of integers; the arguments are those of Python's range.

        >>> [int(x) for x in Dataset.range(1, 10, 3)]
        [1, 4, 7]
        """
        return Dataset(sources.numbers(args, output_type))

    @staticmethod
    def counter(
        start: int = 0, step: int = 1, dtype: Any = "int64", name: str | None = None
    ) -> Dataset:
        """Make the infinite dataset start, start + step, ...

        >>> [int(n) for n in Dataset.counter(5, 2).take(3)]
        [5, 7, 9]
        """
        first = checked_count(start, "counter", "start", -(2**62))
        return Dataset(
            sources.counting(first, checked_count(step, "counter", "step", -(2**62)), dtype)
        )

    @staticmethod
    def list_files(
        file_pattern: Any,
        shuffle: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Make a dataset of the paths that match glob patterns; by default they are shuffled.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     open(folder + "/a.txt", "w").close()
        ...     len(Dataset.list_files(folder + "/*.txt"))
        1
        """
        paths = sources.paths(file_pattern)
        found = Dataset(sources.slices(paths))
        return found if shuffle is False else found.shuffle(len(paths), seed)

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: None = None,
    ) -> Dataset:
        """Make a dataset of the elements that `save` wrote to a folder; they are read on demand.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Dataset.range(3).save(folder)
        ...     [int(x) for x in Dataset.load(folder)]
        [0, 1, 2]
        """
        _refuse_options("load", compression=compression, reader_func=reader_func)
        return Dataset(saving.load(path, element_spec))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Iterate over several datasets in parallel, until one of them ends.

        >>> pairs = Dataset.zip(Dataset.range(3), Dataset.range(5, 9))
        >>> [(int(a), int(b)) for a, b in pairs]
        [(0, 5), (1, 6), (2, 7)]
        """
        given = datasets if not args else args[0] if len(args) == 1 else args
        return Dataset(Zip(mapped(lambda leaf: _plan_of(leaf, "zip"), given)))

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Draw each element from one of several datasets, chosen at random by weights.

        The order depends only on the seed: each pass has the same. When a dataset ends, the others
        go on, unless `stop_on_empty_dataset`.

        >>> small, large = Dataset.range(2), Dataset.range(5, 7)
        >>> mixed = Dataset.sample_from_datasets([small, large], [0.9, 0.1])
        >>> sorted(int(x) for x in mixed)
        [0, 1, 5, 6]
        """
        _refuse_options(
            "sample_from_datasets", rerandomize_each_iteration=rerandomize_each_iteration
        )
        plans = [_plan_of(one, "sample_from_datasets") for one in datasets]
        return Dataset(sampled(plans, weights, seed, stop_on_empty_dataset))

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Take each element from the dataset whose number is next in `choice_dataset`.

        >>> tens, choice = Dataset.range(10, 13), Dataset.from_tensor_slices([1, 0, 1])
        >>> [int(x) for x in Dataset.choose_from_datasets([Dataset.range(3), tens], choice)]
        [10, 0, 11]
        """
        step = "choose_from_datasets"
        plans = [_plan_of(one, step) for one in datasets]
        return Dataset(Choose(step, plans, _plan_of(choice_dataset, step), stop_on_empty_dataset))

    # Functions

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Apply a function to each element.

        The function gets tensors on the host; the entries of a tuple become separate arguments.
        With `num_parallel_calls` it runs in that many threads. Results keep their order unless
        `deterministic=False`.

        >>> [int(x) for x in Dataset.range(3).map(lambda n: n * n)]
        [0, 1, 4]
        """
        workers = _workers(num_parallel_calls, "map")
        return Dataset(Map(self.plan, Call("map", map_func), workers, deterministic is not False))

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Keep the elements for which a function returns true.

        >>> [int(x) for x in Dataset.range(6).filter(lambda n: n % 2 == 0)]
        [0, 2, 4]
        """
        return Dataset(Filter(self.plan, Call("filter", predicate)))

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Map each element to a dataset, and interleave the elements of these datasets.

        With `num_parallel_calls`, threads prepare the elements of the open datasets. The order
        stays the same.

        >>> rows = Dataset.range(2).interleave(lambda n: Dataset.range(10 * n, 10 * n + 2))
        >>> [int(x) for x in rows]
        [0, 10, 1, 11]
        """
        if cycle_length is None or cycle_length == AUTOTUNE:
            cycle_length = _CYCLE
        cycle = checked_count(cycle_length, "interleave", "cycle_length", 1)
        block = checked_count(block_length or 1, "interleave", "block_length", 1)
        workers = _workers(num_parallel_calls, "interleave")
        return self._interleaved("interleave", map_func, (cycle, block), workers)

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """Map each element to a dataset, and concatenate these datasets.

        >>> [int(x) for x in Dataset.range(3).flat_map(lambda n: Dataset.range(n))]
        [0, 0, 1]
        """
        return self._interleaved("flat_map", map_func, (1, 1), 0)

    def _interleaved(
        self, step: str, function: Callable[..., Any], lengths: tuple[int, int], workers: int
    ) -> Dataset:
        call = Call(step, function)

        def planned(element: Any) -> Plan:
            return _plan_of(call.raw(element), f"The function of {step}")

        return Dataset(Interleave(step, self.plan, planned, lengths, workers))

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Keep the elements before the first for which a function returns false.

        >>> [int(x) for x in Dataset.range(9).take_while(lambda n: n < 3)]
        [0, 1, 2]
        """
        return Dataset(TakeWhile(self.plan, Call("take_while", predicate)))

    def scan(
        self, initial_state: Any, scan_func: Callable[[Any, Any], Any], name: str | None = None
    ) -> Dataset:
        """Map each element by a function that also gets and returns a state.

        The function returns a tuple: the new state and the new element. A pass that resumes calls
        it again for all earlier elements.

        >>> sums = Dataset.range(4).scan(0, lambda total, n: (total + n, total + n))
        >>> [int(x) for x in sums]
        [0, 1, 3, 6]
        """
        return Dataset(Scan(self.plan, initial_state, Call("scan", scan_func)))

    def apply(self, transformation_func: Callable[[Dataset], Any]) -> Any:
        """Return `transformation_func(self)`.

        >>> [int(x) for x in Dataset.range(5).apply(lambda dataset: dataset.take(2))]
        [0, 1]
        """
        return transformation_func(self)

    def reduce(
        self, initial_state: Any, reduce_func: Callable[[Any, Any], Any], name: str | None = None
    ) -> Any:
        """Fold a function over the elements: each call gets the state and one element.

        >>> int(Dataset.range(5).map(lambda n: n + 1).reduce(0, lambda total, n: total + n))
        15
        """
        state = nest.map_structure(to_any_tensor, initial_state)
        for element in self:
            state = reduce_func(state, element)
        return state

    # Selection and order

    def shuffle(
        self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> Dataset:
        """Draw elements at random from a buffer of the next `buffer_size` elements.

        The order depends only on the seed and the number of the pass.

        >>> dataset = Dataset.range(5).shuffle(5, seed=0)
        >>> sorted(int(x) for x in dataset)
        [0, 1, 2, 3, 4]
        """
        size = checked_count(buffer_size, "shuffle", "buffer_size", 1)
        reshuffles = reshuffle_each_iteration is not False
        return Dataset(Shuffle(self.plan, size, seed, reshuffles))

    def repeat(self, count: int | None = None, name: str | None = None) -> Dataset:
        """Repeat the dataset `count` times, or indefinitely.

        >>> [int(x) for x in Dataset.range(2).repeat(2)]
        [0, 1, 0, 1]
        """
        times = None if count is None else checked_count(count, "repeat", "count", -1)
        return Dataset(Repeat(self.plan, None if times == -1 else times))

    def take(self, count: int, name: str | None = None) -> Dataset:
        """Keep the first `count` elements; -1 keeps all.

        >>> [int(x) for x in Dataset.range(5).take(2)]
        [0, 1]
        """
        most = checked_count(count, "take", "count", -1)
        return Dataset(Part("take", self.plan, stop=None if most == -1 else most))

    def skip(self, count: int, name: str | None = None) -> Dataset:
        """Skip the first `count` elements; -1 skips all.

        >>> [int(x) for x in Dataset.range(5).skip(3)]
        [3, 4]
        """
        fewest = checked_count(count, "skip", "count", -1)
        if fewest == -1:
            return Dataset(Part("skip", self.plan, stop=0))
        return Dataset(Part("skip", self.plan, start=fewest))

    def shard(self, num_shards: int, index: int, name: str | None = None) -> Dataset:
        """Keep every `num_shards`-th element, starting at `index`, e.g. one shard per worker.

        >>> [int(x) for x in Dataset.range(7).shard(3, 1)]
        [1, 4]
        """
        shards = checked_count(num_shards, "shard", "num_shards", 1)
        first = checked_count(index, "shard", "index", 0)
        if first >= shards:
            raise ArgumentError(f"shard needs an index below num_shards={shards}. Got {first}.")
        return Dataset(Part("shard", self.plan, start=first, stride=shards))

    def unique(self, name: str | None = None) -> Dataset:
        """Keep each element once, where it first appears; keys of all are kept in memory.

        >>> [int(x) for x in Dataset.from_tensor_slices([3, 1, 3, 2]).unique()]
        [3, 1, 2]
        """
        return Dataset(Unique(self.plan))

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Append the elements of another dataset.

        >>> [int(x) for x in Dataset.range(2).concatenate(Dataset.range(5, 7))]
        [0, 1, 5, 6]
        """
        return Dataset(Concatenate(self.plan, _plan_of(dataset, "concatenate")))

    def enumerate(self, start: int = 0, name: str | None = None) -> Dataset:
        """Pair each element with its index.

        >>> [(int(n), float(x)) for n, x in Dataset.from_tensor_slices([0.5, 0.25]).enumerate()]
        [(0, 0.5), (1, 0.25)]
        """
        count = sources.counting(checked_count(start, "enumerate", "start", -(2**62)))
        return Dataset(Zip((count, self.plan), "enumerate"))

    # Batches and windows

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Stack elements in groups of `batch_size`; the last group may be smaller.

        >>> [x.tolist() for x in Dataset.range(5).batch(2)]
        [[0, 1], [2, 3], [4]]
        """
        size = checked_count(batch_size, "batch", "batch_size", 1)
        workers = _workers(num_parallel_calls, "batch")
        return Dataset(Batch(self.plan, size, drop_remainder, workers, None))

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Stack elements of different shapes, each padded to the longest or to a given shape.

        >>> rows = Dataset.from_generator(lambda: ([1], [2, 3]))
        >>> next(iter(rows.padded_batch(2))).tolist()
        [[1, 0], [2, 3]]
        """
        size = checked_count(batch_size, "padded_batch", "batch_size", 1)
        padding = Padding(padded_shapes, padding_values)
        return Dataset(Batch(self.plan, size, drop_remainder, 0, padding))

    def unbatch(self, name: str | None = None) -> Dataset:
        """Split each element along its first axis.

        >>> [int(x) for x in Dataset.range(4).batch(3).unbatch()]
        [0, 1, 2, 3]
        """
        return Dataset(Unbatch(self.plan))

    def rebatch(
        self, batch_size: int, drop_remainder: bool = False, name: str | None = None
    ) -> Dataset:
        """Make batches of another size out of batches.

        >>> [x.tolist() for x in Dataset.range(5).batch(3).rebatch(2)]
        [[0, 1], [2, 3], [4]]
        """
        size = checked_count(batch_size, "rebatch", "batch_size", 1)
        return Dataset(Batch(Unbatch(self.plan), size, drop_remainder, 0, None))

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Make datasets of `size` elements, `stride` apart; each begins `shift` after the previous.

        >>> windows = Dataset.range(5).window(3, shift=1, drop_remainder=True)
        >>> [x.tolist() for x in windows.flat_map(lambda window: window.batch(3))]
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        length = checked_count(size, "window", "size", 1)
        by = length if shift is None else checked_count(shift, "window", "shift", 1)
        limits = (length, by, checked_count(stride, "window", "stride", 1))
        return Dataset(Window(self.plan, limits, drop_remainder, _windowed))

    # Prefetching and caching

    def cache(self, filename: str | os.PathLike[str] = "", name: str | None = None) -> Dataset:
        """Keep the elements of the first complete pass, in memory or in a .npz file.

        >>> dataset = Dataset.range(3).map(lambda n: n + 1).cache()
        >>> [int(x) for x in dataset], len(dataset)
        ([1, 2, 3], 3)
        """
        return Dataset(Cache(self.plan, InFile(filename) if filename else InMemory()))

    def snapshot(
        self, path: Any, compression: Any = "AUTO", reader_func: Any = None, shard_func: Any = None
    ) -> Dataset:
        """Keep the elements of the first complete pass in a folder; delete it to make them anew."""
        _refuse_options("snapshot", reader_func=reader_func, shard_func=shard_func)
        return Dataset(Cache(self.plan, snapshot_in(path)))

    def prefetch(self, buffer_size: int, name: str | None = None) -> Dataset:
        """Prepare elements in a background thread, and begin their copy to the device.

        >>> [int(x) for x in Dataset.range(3).prefetch(2)]
        [0, 1, 2]
        """
        size = checked_count(buffer_size, "prefetch", "buffer_size", AUTOTUNE)
        return Dataset(Prefetch(self.plan, size))

    def save(
        self,
        path: str | os.PathLike[str],
        compression: str | None = None,
        shard_func: None = None,
        checkpoint_args: None = None,
    ) -> None:
        """Write the elements of one pass to a folder, for `load`.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Dataset.range(4).batch(2).save(folder)
        ...     [x.tolist() for x in Dataset.load(folder)]
        [[0, 1], [2, 3]]
        """
        given = {"compression": compression, "shard_func": shard_func}
        _refuse_options("save", **given, checkpoint_args=checkpoint_args)
        saving.save(self.plan, path)

    # One element, options

    def get_single_element(self, name: str | None = None) -> Any:
        """Return the element of a dataset that has exactly one.

        >>> Dataset.range(3).batch(3).get_single_element().tolist()
        [0, 1, 2]
        """
        iterator = iter(self.take(2))
        found = list(iterator)
        if len(found) != 1:
            count = "none" if not found else "more"
            raise ArgumentError(f"get_single_element needs a dataset of one element. Got {count}.")
        return found[0]

    def with_options(self, options: Options, name: str | None = None) -> Dataset:
        """Return this dataset with settings that `options` returns; they change nothing else.

        >>> from tapegrad.data import Options
        >>> options = Options()
        >>> options.deterministic = True
        >>> Dataset.range(3).with_options(options).batch(2).options().deterministic
        True
        """
        if not isinstance(options, Options):
            raise ArgumentTypeError(
                f"with_options takes tapegrad.data.Options. Got {type(options).__name__}."
            )
        plan = copy.copy(self.plan)
        plan.options = options if plan.options is None else plan.options.merge(options)
        return Dataset(plan)

    def options(self) -> Options:
        """Return the settings of all `with_options` that led to this dataset.

        >>> from tapegrad.data import Options
        >>> Dataset.range(3).options() == Options()
        True
        """
        merged = Options()
        for plan in reversed(plan_and_inputs(self.plan)):  # later steps win
            merged = merged if plan.options is None else merged.merge(plan.options)
        return merged


def _refuse_options(step: str, **given: Any) -> None:
    """Raise for an option of TensorFlow's that has no meaning here, unless it is the default."""
    for name, value in given.items():
        if value:
            raise ArgumentError(f"{step} does not support {name}. Got {value!r}; leave it out.")


def _windowed(elements: Sequence[Any]) -> Dataset:
    return Dataset(sources.listed("window", elements))


def _plan_of(value: Any, step: str) -> Plan:
    if not isinstance(value, Dataset):
        raise ArgumentTypeError(
            f"{step} needs datasets. Got {type(value).__name__}; "
            "Dataset.from_tensor_slices makes a dataset of arrays."
        )
    return value.plan


def _workers(num_parallel_calls: int | None, step: str) -> int:
    if num_parallel_calls is None or num_parallel_calls == AUTOTUNE:
        return workers_for(num_parallel_calls)
    return checked_count(num_parallel_calls, step, "num_parallel_calls", 1)
