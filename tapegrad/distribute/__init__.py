"""TensorFlow's `tf.distribute` for one device: programs with strategies run unchanged.

A process uses one device. `num_replicas_in_sync` is 1, and sums and means over replicas return the
value itself.
"""

from __future__ import annotations

from typing import Any

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.distribute import cluster_resolver, experimental
from tapegrad.distribute.communication import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    InputOptions,
    NcclAllReduce,
    ReductionToOneDevice,
    RunOptions,
)
from tapegrad.distribute.process_group import barrier, init, local_rank, rank, size
from tapegrad.distribute.strategy import (
    InputContext,
    MirroredStrategy,
    MultiWorkerMirroredStrategy,
    OneDeviceStrategy,
    ReduceOp,
    ReplicaContext,
    Strategy,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)
from tapegrad.ops.collective.functions import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    recv,
    reduce_scatter,
    send,
)

__all__ = [
    "CrossDeviceOps", "HierarchicalCopyAllReduce", "InputContext", "InputOptions",
    "MirroredStrategy", "MultiWorkerMirroredStrategy", "NcclAllReduce", "OneDeviceStrategy",
    "ReduceOp", "ReductionToOneDevice", "ReplicaContext", "RunOptions", "Strategy",
    "all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "cluster_resolver",
    "experimental", "get_replica_context", "get_strategy", "has_strategy",
    "in_cross_replica_context", "init", "local_rank", "rank", "recv", "reduce_scatter", "send",
    "size",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    raise absence("distribute", name)


_check_calls(globals(), __all__)
