"""TensorFlow functions that are short compositions of others."""

from __future__ import annotations

