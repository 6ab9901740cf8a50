"""The SciPy modules that HIPS autograd has: special, stats, linalg, signal, integrate.

They are imported on first use, so `autograd.scipy.special` needs no separate import.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["integrate", "linalg", "signal", "special", "stats"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"{__name__} has no {name!r}. It has {', '.join(__all__)}.")
    # Submodules are imported on first use.
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return __all__
