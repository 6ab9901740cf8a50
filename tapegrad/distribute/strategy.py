"""Strategies of one replica: programs written for `tf.distribute` run unchanged on one device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any

from tapegrad.core.values import nest
from tapegrad.core.values.device import device
from tapegrad.core.warn_once import warn_once
from tapegrad.distribute.cluster_resolver import TFConfigClusterResolver
from tapegrad.errors import ArgumentError
from tapegrad.ops.reduction.functions import reduce_mean, reduce_sum


class ReduceOp(Enum):
    """How the values of several replicas become one.

    >>> ReduceOp("MEAN").name
    'MEAN'
    """

    SUM = "SUM"
    MEAN = "MEAN"


class InputContext:
    """What a function that makes the dataset of one worker is told.

    >>> InputContext().num_input_pipelines
    1
    """

    num_input_pipelines = 1
    input_pipeline_id = 0
    num_replicas_in_sync = 1

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Return the size of a batch of one replica, which is the whole batch.

        >>> InputContext().get_per_replica_batch_size(64)
        64
        """
        return global_batch_size


class ReplicaContext:
    """The context of code inside `Strategy.run`.

    >>> ReplicaContext(Strategy()).num_replicas_in_sync
    1
    """

    replica_id_in_sync_group = 0
    num_replicas_in_sync = 1

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Return the sum or mean over all replicas: the value itself.

        >>> ReplicaContext(Strategy()).all_reduce("SUM", 3.0)
        3.0
        """
        _as_reduce_op(reduce_op)
        return value

    def merge_call(self, merge_fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """Call a function with the strategy and the values of all replicas."""
        return merge_fn(self.strategy, *args, **(kwargs or {}))


_current: ContextVar[Strategy | None] = ContextVar("strategy", default=None)
_replica: ContextVar[ReplicaContext | None] = ContextVar("replica", default=None)


class Strategy:
    """The strategy of one replica on one device; all strategies here are of this kind.

    A program that divides its batches by `num_replicas_in_sync`, makes its variables inside `scope`
    and calls `run` computes the same as without a strategy.

    >>> strategy = Strategy()
    >>> with strategy.scope():
    ...     total = strategy.run(lambda x: x + 1, args=(2,))
    >>> total, strategy.num_replicas_in_sync
    (3, 1)
    """

    num_replicas_in_sync = 1

    def __init__(self, device: str | None = None) -> None:
        self._device = device

    @contextmanager
    def scope(self) -> Iterator[Strategy]:
        """Make this strategy the current one, and its device the default."""
        token = _current.set(self)
        try:
            if self._device is None:
                yield self
            else:
                with device(self._device):
                    yield self
        finally:
            _current.reset(token)

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Call a function on each replica: once."""
        token = _replica.set(ReplicaContext(self))
        try:
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


class MirroredStrategy(Strategy):
    """Run on the GPU of this process, or on the CPU: one replica.

    Of several devices the first is used, with one warning.

    >>> MirroredStrategy().num_replicas_in_sync
    1
    """

    def __init__(self, devices: Any = None, cross_device_ops: Any = None) -> None:
        given = [devices] if isinstance(devices, str) else list(devices or ())
        if len(given) > 1:
            warn_once(
                f"MirroredStrategy uses one device per process. Of {given}, the first is used; to "
                "use all GPUs, start one process per GPU, each with CUDA_VISIBLE_DEVICES."
            )
        super().__init__(given[0] if given else None)


class CentralStorageStrategy(Strategy):
    """Keep variables where the computation runs: one device.

    >>> CentralStorageStrategy().num_replicas_in_sync
    1
    """

    def __init__(self, compute_devices: Any = None, parameter_device: str | None = None) -> None:
        super().__init__()


class MultiWorkerMirroredStrategy(Strategy):
    """Run as a single worker with one replica.

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
