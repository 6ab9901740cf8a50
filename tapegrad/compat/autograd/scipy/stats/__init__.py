"""Distributions: HIPS autograd's as modules, the others of tapegrad.scipy.stats as objects."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tapegrad.compat.autograd.dispatch import Borrowed as _Borrowed
from tapegrad.compat.autograd.scipy.stats import (
    beta,
    chi2,
    dirichlet,
    gamma,
    multivariate_normal,
    norm,
    poisson,
    t,
)
from tapegrad.scipy import stats as _tensors

__all__ = ["beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"]
__all__ += [name for name in _tensors.__all__ if name not in __all__]


def __getattr__(name: str) -> Any:
    found = getattr(_tensors, name) if name in _tensors.__all__ else None
    if found is not None and not isinstance(found, FunctionType | type):
        return _Borrowed(getattr(_tensors, name), f"scipy.stats:{name}")
    return _Borrowed(_tensors, "scipy.stats").find(name)


def __dir__() -> list[str]:
    return __all__
