"""The square root of matrices, by SciPy if an eigenvalue is 0 or negative."""

from __future__ import annotations

import importlib
from typing import Any

from tapegrad.compat.autograd import numpy as np
from tapegrad.compat.autograd.core import defjvp, defvjp
from tapegrad.compat.autograd.primitives import primitive
from tapegrad.compat.autograd.values import plain_structure, raw
from tapegrad.scipy import linalg as tensors


def sqrtm(A: Any) -> Any:
    """Return the matrix whose square is `A`.

    >>> sqrtm([[4.0, 0.0], [0.0, 9.0]]).round(6).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    values = raw(A)
    if hasattr(values, "numpy") or _has_real_root(values):
        return plain_structure(tensors.sqrtm(A))
    return _root_by_scipy(A)


def _has_real_root(A: Any) -> bool:
    """Whether no eigenvalue is 0 or negative: the root is real and has a derivative."""
    eigenvalues = np.linalg.eigvals(A)
    return not np.any((np.real(eigenvalues) <= 0) & (np.imag(eigenvalues) == 0))


@primitive
def _root_by_scipy(A: Any) -> Any:
    return importlib.import_module("scipy.linalg").sqrtm(A)


def _solved(root: Any, right: Any) -> Any:
    """Solve root X + X root = right."""
    return plain_structure(tensors.solve_sylvester(root, root, right))


defvjp(_root_by_scipy, lambda ans, A: lambda g: _solved(np.swapaxes(ans, -1, -2), g))
defjvp(_root_by_scipy, lambda g, ans, A: _solved(ans, g))
