"""TensorFlow's `tf.experimental` names."""

import importlib
from typing import TYPE_CHECKING, Any

from tapegrad.experimental import dlpack

if TYPE_CHECKING:
    from tapegrad.experimental import numpy

__all__ = ["dlpack", "numpy"]


def __getattr__(name: str) -> Any:
    if name == "numpy":
        # On first use, because it imports nearly every module.
        return importlib.import_module("tapegrad.experimental.numpy")
    raise AttributeError(f"module 'tapegrad.experimental' has no attribute {name!r}")
