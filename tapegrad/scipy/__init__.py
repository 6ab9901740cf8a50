"""SciPy's functions on tensors, with gradients.

    from tapegrad.scipy import stats

    stats.norm(loc, scale).logpdf(x)

Each submodule is imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapegrad.scipy import (
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        special,
        stats,
    )

__all__ = [
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "special",
    "stats",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tapegrad.scipy' has no attribute {name!r}")
    # Submodules are imported on first use.
    return importlib.import_module(f"tapegrad.scipy.{name}")


def __dir__() -> list[str]:
    return __all__
