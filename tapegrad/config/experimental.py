"""TensorFlow's `tf.config.experimental`."""

from __future__ import annotations

from tapegrad.core.determinism import (
    disable_op_determinism,
    enable_op_determinism,
    is_op_determinism_enabled,
)

__all__ = ["disable_op_determinism", "enable_op_determinism", "is_op_determinism_enabled"]
