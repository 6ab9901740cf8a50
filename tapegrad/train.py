"""TensorFlow's `tf.train`: checkpoints, and the messages of record files."""

from typing import TYPE_CHECKING, Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.distribute.cluster_spec import ClusterSpec
from tapegrad.io.messages import BytesList, Example, Feature, Features, FloatList, Int64List
from tapegrad.io.sequences import FeatureList, FeatureLists, SequenceExample
from tapegrad.keras.saving.checkpoint import (
    Checkpoint,
    CheckpointManager,
    CheckpointMismatchError,
    CheckpointStatus,
    latest_checkpoint,
)
from tapegrad.keras.saving.checkpoint_listing import (
    CheckpointOptions,
    CheckpointState,
    checkpoints_iterator,
    get_checkpoint_state,
)
from tapegrad.keras.saving.checkpoint_reader import (
    CheckpointReader,
    list_variables,
    load_checkpoint,
    load_variable,
)
from tapegrad.optimizers.exponential_averages import ExponentialMovingAverage

__all__ = [
    "BytesList",
    "Checkpoint",
    "CheckpointManager",
    "CheckpointMismatchError",
    "CheckpointOptions",
    "CheckpointReader",
    "CheckpointState",
    "CheckpointStatus",
    "ClusterSpec",
    "Example",
    "ExponentialMovingAverage",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "SequenceExample",
    "checkpoints_iterator",
    "get_checkpoint_state",
    "latest_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
]

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> _Any:
        raise _absence("train", name)
