"""Strategies: programs written for `tf.distribute` run on one replica, or on one per process.

A process is one replica. Every process runs the whole program, so what TensorFlow calls a value per
replica is here the value of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from enum import Enum
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import nest
from tapegrad.core.values.device import device
from tapegrad.core.warn_once import warn_once
from tapegrad.core.world import current_world
from tapegrad.data.own_batches import is_divided_by_program, own_batches
from tapegrad.distribute.cluster_resolver import TFConfigClusterResolver
from tapegrad.distribute.datasets import distribute_batches, mark_distributed
from tapegrad.distribute.mirrored import Mirrored, gather_uneven
from tapegrad.distribute.process_group import enter, init
from tapegrad.errors import ArgumentError
from tapegrad.ops.collective.functions import all_reduce
from tapegrad.ops.collective.replicas import using_replicas
from tapegrad.ops.creation import ones_like
from tapegrad.ops.reduction.functions import reduce_mean, reduce_sum


class ReduceOp(Enum):
    """How the values of several replicas become one.

    >>> ReduceOp("MEAN").name
    'MEAN'
    """

    SUM = "SUM"
    MEAN = "MEAN"


class InputContext:
    """The position of one process, for the function that makes its dataset.

    >>> InputContext(num_input_pipelines=2, input_pipeline_id=1).input_pipeline_id
    1
    """

    def __init__(
        self,
        num_input_pipelines: int = 1,
        input_pipeline_id: int = 0,
        num_replicas_in_sync: int = 1,
    ) -> None:
        self.num_input_pipelines = num_input_pipelines
        self.input_pipeline_id = input_pipeline_id
        self.num_replicas_in_sync = num_replicas_in_sync

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Return the size of a batch of one replica.

        >>> InputContext(num_replicas_in_sync=2).get_per_replica_batch_size(64)
        32
        """
        if global_batch_size % self.num_replicas_in_sync:
            raise ArgumentError(
                f"global_batch_size must be a multiple of the {self.num_replicas_in_sync} "
                f"replicas. Got {global_batch_size}."
            )
        return global_batch_size // self.num_replicas_in_sync


class ReplicaContext:
    """The context of code inside `Strategy.run`.

    >>> ReplicaContext(Strategy()).num_replicas_in_sync
    1
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.num_replicas_in_sync = strategy.num_replicas_in_sync
        self.replica_id_in_sync_group = strategy.replica_id

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Return the sum or mean over all replicas; it has a gradient.

        >>> ReplicaContext(Strategy()).all_reduce("SUM", 3.0)
        3.0
        """
        return self.strategy.reduce(reduce_op, value)

    def all_gather(self, value: Any, axis: int, options: Any = None) -> Any:
        """Return the values of all replicas, joined along an axis.

        >>> ReplicaContext(Strategy()).all_gather([1.0, 2.0], axis=0)
        [1.0, 2.0]
        """
        return self.strategy.gather(value, axis)

    def merge_call(self, merge_fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """Call a function with the strategy and the values of all replicas."""
        return merge_fn(self.strategy, *args, **(kwargs or {}))


_current: ContextVar[Strategy | None] = ContextVar("strategy", default=None)
_replica: ContextVar[ReplicaContext | None] = ContextVar("replica", default=None)


class Strategy:
    """The strategy of one replica on one device, and the base class of the others.

    A program that divides its batches by `num_replicas_in_sync`, makes its variables inside `scope`
    and calls `run` computes the same as without a strategy.

    >>> strategy = Strategy()
    >>> with strategy.scope():
    ...     total = strategy.run(lambda x: x + 1, args=(2,))
    >>> total, strategy.num_replicas_in_sync
    (3, 1)
    """

    num_replicas_in_sync = 1
    replica_id = 0
    cluster_resolver: Any = None
    """What describes the machines, if there are several."""

    def __init__(self, device: str | None = None) -> None:
        self._device = device

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Make this strategy the current one, and its device the default.

        With several replicas, variables that are made inside get the values of the first one.
        """
        token = _current.set(self)
        place = nullcontext() if self._device is None else device(self._device)
        try:
            with place, using_replicas(self.num_replicas_in_sync):
                yield self
                self._mirror(always=True)
        finally:
            _current.reset(token)

    def _mirror(self, always: bool) -> None:
        """Let new variables have the same values on all replicas."""

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Call a function on each replica: once in each process."""
        token = _replica.set(ReplicaContext(self))
        self._mirror(always=False)
        try:
            with using_replicas(self.num_replicas_in_sync):
                return fn(*args, **(kwargs or {}))
        finally:
            _replica.reset(token)

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        """Return the sum or mean of a value over all replicas, and along an axis if one is given.

        >>> import tapegrad
        >>> float(Strategy().reduce("MEAN", tapegrad.constant([1.0, 3.0]), axis=0))
        2.0
        """
        operation = _as_reduce_op(reduce_op)
        if axis is None:
            return value
        along = reduce_sum if operation is ReduceOp.SUM else reduce_mean
        return nest.map_structure(lambda x: along(x, axis), value)

    def gather(self, value: Any, axis: int) -> Any:
        """Return the values of all replicas, joined along an axis: the value itself."""
        return value

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """Return the dataset, of which one replica sees every batch."""
        return dataset

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Any], options: Any = None
    ) -> Any:
        """Return the dataset that a function makes for one worker."""
        return dataset_fn(InputContext())

    def experimental_distribute_values_from_function(self, value_fn: Callable[..., Any]) -> Any:
        """Return what a function makes for one replica."""
        return value_fn(ReplicaContext(self))

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Return the values of all replicas of this process."""
        return (value,)


class OneDeviceStrategy(Strategy):
    """Run on one device, such as "/gpu:0".

    >>> with OneDeviceStrategy("/cpu:0").scope() as strategy:
    ...     strategy.num_replicas_in_sync
    1
    """


class _ManyReplicas(Strategy):
    """Base class of strategies with one replica per process."""

    def __init__(self, device: str | None = None) -> None:
        init()
        super().__init__(device)
        self.num_replicas_in_sync = current_world().size
        self.replica_id = current_world().rank
        self._mirrored = Mirrored() if self.num_replicas_in_sync > 1 else None

    def _mirror(self, always: bool) -> None:
        if self._mirrored is not None:
            self._mirrored.update(always)

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        """Return the sum or mean of a value over all replicas, and along an axis if one is given.

        >>> MirroredStrategy().reduce("SUM", 3.0)
        3.0
        """
        if self.num_replicas_in_sync == 1:
            return super().reduce(reduce_op, value, axis)
        op = _as_reduce_op(reduce_op)
        return nest.map_structure(lambda x: self._reduce_one(op, as_operand(x), axis), value)

    def _reduce_one(self, op: ReduceOp, x: Any, axis: int | None) -> Any:
        total = all_reduce(x if axis is None else reduce_sum(x, axis))
        if op is ReduceOp.SUM:
            return total
        if axis is None:
            return total / self.num_replicas_in_sync
        # Replicas may have different numbers of rows.
        return total / all_reduce(reduce_sum(ones_like(x), axis))

    def gather(self, value: Any, axis: int) -> Any:
        """Return the values of all replicas, joined along an axis, on every replica."""
        if self.num_replicas_in_sync == 1:
            return value
        return nest.map_structure(lambda x: gather_uneven(as_operand(x), axis), value)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """Return the part of each batch that belongs to this replica.

        With `AutoShardPolicy.OFF`, each process has other data, and computes all of it in smaller
        batches.
        """
        if self.num_replicas_in_sync == 1:
            return dataset
        if is_divided_by_program(dataset):
            return own_batches(dataset, self.num_replicas_in_sync)
        return distribute_batches(dataset, self.replica_id, self.num_replicas_in_sync)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Any], options: Any = None
    ) -> Any:
        """Return the dataset that a function makes for this process, which chooses its part."""
        count, place = self.num_replicas_in_sync, self.replica_id
        found = dataset_fn(InputContext(count, place, count))
        return found if count == 1 else mark_distributed(found)


class MirroredStrategy(_ManyReplicas):
    """Train copies of a model in several processes, one per device.

    These are the processes that `tapegrad run` or another launcher has started. Without a launcher,
    a script is started again for each further device: for the GPUs that are given, or else for all
    that are visible. The first process prints what the program prints. Set TAPEGRAD_REPLICAS to
    another number of replicas, or to 1 to start none.

    >>> MirroredStrategy().num_replicas_in_sync
    1
    """

    def __init__(self, devices: Any = None, cross_device_ops: Any = None) -> None:
        given = [devices] if isinstance(devices, str) else list(devices or ())
        _start_replicas(given)
        super().__init__(given[0] if given and current_world().size == 1 else None)
        if len(given) > 1 and self.num_replicas_in_sync == 1:
            warn_once(
                f"MirroredStrategy uses one device per process. Of {given}, the first is used; to "
                f"use all of them, start the program with: tapegrad run -n {len(given)} PROGRAM."
            )


def _start_replicas(devices: Sequence[str]) -> None:
    """Let other processes run the program for further devices, if no launcher has started any."""
    if current_world().peers is None:
        # A program with one device needs neither processes nor sockets.
        from tapegrad.distribute.replica_processes import place_with_replicas

        place = place_with_replicas(devices)
        if place is not None:
            enter(place)


class CentralStorageStrategy(Strategy):
    """Keep variables where the computation runs: one device.

    >>> CentralStorageStrategy().num_replicas_in_sync
    1
    """

    def __init__(self, compute_devices: Any = None, parameter_device: str | None = None) -> None:
        super().__init__()


class MultiWorkerMirroredStrategy(_ManyReplicas):
    """Train copies of a model in all processes, on one or several machines.

    TF_CONFIG or a launcher says which processes there are. Each has one device and one replica.

    >>> MultiWorkerMirroredStrategy().num_replicas_in_sync
    1
    """

    def __init__(self, cluster_resolver: Any = None, communication_options: Any = None) -> None:
        super().__init__()
        self.cluster_resolver = cluster_resolver or TFConfigClusterResolver()


def _as_reduce_op(value: Any) -> ReduceOp:
    try:
        return value if isinstance(value, ReduceOp) else ReduceOp(str(value).upper())
    except ValueError:
        raise ArgumentError(f"reduce_op must be 'SUM' or 'MEAN'. Got {value!r}.") from None


_DEFAULT = Strategy()


def get_strategy() -> Strategy:
    """Return the strategy of the innermost `scope`, or the default one.

    >>> get_strategy().num_replicas_in_sync
    1
    """
    return _current.get() or _DEFAULT


def has_strategy() -> bool:
    """Return whether the code is inside the `scope` of a strategy.

    >>> has_strategy()
    False
    """
    return _current.get() is not None


def get_replica_context() -> ReplicaContext | None:
    """Return the context of `Strategy.run`, or None inside a scope and outside `run`.

    >>> get_replica_context().replica_id_in_sync_group
    0
    """
    if _replica.get() is None and _current.get() is None:
        return ReplicaContext(_DEFAULT)
    return _replica.get()


def in_cross_replica_context() -> bool:
    """Return whether the code is inside a `scope`, but not inside `Strategy.run`.

    >>> in_cross_replica_context()
    False
    """
    return _current.get() is not None and _replica.get() is None
