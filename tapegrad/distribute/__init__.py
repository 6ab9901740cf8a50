"""Several processes that train together, and TensorFlow's `tf.distribute` on top of them.

`init` joins the processes that `tapegrad run` or another launcher has started. Collective functions
such as `all_reduce` are differentiable. Strategies train one replica in each process; without a
launcher there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from tapegrad.distribute.compressed_gradients import compress_gradients
from tapegrad.distribute.elastic import run_elastic
from tapegrad.distribute.fixed_order import same_bits, sum_over_shards
from tapegrad.distribute.fully_sharded import fully_shard, whole_weights
from tapegrad.distribute.process_group import barrier, init, local_rank, rank, size
from tapegrad.distribute.sharded_checkpoint import ShardedCheckpoint
from tapegrad.distribute.sharded_states import shard_states
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
    "ReduceOp", "ReductionToOneDevice", "ReplicaContext", "RunOptions",
    "ShardedCheckpoint", "Strategy",
    "all_gather", "all_reduce", "all_to_all", "barrier", "broadcast", "cluster_resolver",
    "compress_gradients", "experimental", "fully_shard",
    "get_replica_context", "get_strategy", "has_strategy",
    "in_cross_replica_context", "init", "local_rank", "rank", "recv", "reduce_scatter",
    "run_elastic", "same_bits", "send",
    "shard_states", "size", "sum_over_shards", "whole_weights",
]  # fmt: skip


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("distribute", name)


_check_calls(globals(), __all__)
