"""The modules of SciPy that HIPS autograd has: special, stats, linalg, signal, integrate.

They are loaded when they are first asked for, so `autograd.scipy.special` needs no import of its
own.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["integrate", "linalg", "signal", "special", "stats"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"{__name__} has no {name!r}. It has {', '.join(__all__)}.")
    return importlib.import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return __all__
