"""The distribution scipy.stats.chi2, recorded on traced values."""

from __future__ import annotations

from typing import Any

from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.scipy import stats as _stats

_names = _Borrowed(_stats.chi2, "scipy.stats:chi2")


def __getattr__(name: str) -> Any:
    found = globals()[name] = _names.find(name)
    return found
