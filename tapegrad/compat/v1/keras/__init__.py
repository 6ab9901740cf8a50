"""`tf.compat.v1.keras`: Keras, with the sessions of its older backend module."""

from __future__ import annotations

import importlib
from typing import Any

from tapegrad import lazy


def __getattr__(name: str) -> Any:
    if name == "backend":
        # On first use: real Keras may be installed, and importing it takes long.
        return importlib.import_module("tapegrad.compat.v1.keras.backend")
    return getattr(lazy.load("keras"), name)
