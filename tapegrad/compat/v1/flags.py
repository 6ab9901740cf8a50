"""`tf.compat.v1.flags`: those of the package absl."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    try:
        inner = importlib.import_module("absl.flags")
    except ImportError:
        message = "compat.v1.flags needs the package absl-py. Run: pip install absl-py."
        raise AttributeError(message) from None
    return getattr(inner, name)
