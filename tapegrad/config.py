"""TensorFlow's `tf.config`: switches of the whole library."""

from __future__ import annotations

from tapegrad.program.eager_mode import functions_run_eagerly, run_functions_eagerly

__all__ = ["functions_run_eagerly", "run_functions_eagerly"]
