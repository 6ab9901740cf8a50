"""Checkpoints with TensorFlow's interface (tf.train)."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.saving.checkpoint import (
    Checkpoint,
    CheckpointManager,
    CheckpointMismatchError,
    CheckpointStatus,
    latest_checkpoint,
)

__all__ = [
    "Checkpoint",
    "CheckpointManager",
    "CheckpointMismatchError",
    "CheckpointStatus",
    "latest_checkpoint",
]

_check_calls(globals(), __all__)
