"""TensorFlow's `tf.config`: switches of the whole library."""

from __future__ import annotations

from tapegrad.config import experimental
from tapegrad.program.eager_mode import functions_run_eagerly, run_functions_eagerly

__all__ = ["experimental", "functions_run_eagerly", "run_functions_eagerly"]
