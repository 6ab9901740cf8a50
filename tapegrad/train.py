"""Checkpoints with TensorFlow's interface (tf.train)."""

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
