"""The distribution scipy.stats.dirichlet, recorded on traced values."""

from __future__ import annotations

from typing import Any

from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.scipy import stats as _stats

_names = _Borrowed(_stats.dirichlet, "scipy.stats:dirichlet")


def __getattr__(name: str) -> Any:
    found = globals()[name] = _names.find(name)
    return found
