"""Functions that need singular vectors, of finite matrices.

LAPACK's divide and conquer never ends for some matrices with infinities or NaN (OpenBLAS of NumPy
2.4 on x86-64). These are refused with the error that LAPACK raises where it notices them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad.core.primitive.primitive import PRIMITIVES


def _finite(x: Any, name: str) -> Any:
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError(
            f"{name} got a matrix with infinite or NaN elements, which has no singular value "
            "decomposition. tapegrad.debug.nan_sentinel() finds the line that made them."
        )
    return x


def svd(x: Any, *, full_matrices: bool) -> tuple[Any, ...]:
    """Return singular vectors and values."""
    return tuple(np.linalg.svd(_finite(x, "svd"), full_matrices=full_matrices))


def pinv(x: Any, *, rcond: float | None) -> Any:
    """Return the pseudoinverse."""
    generic: Any = PRIMITIVES["pinv"].forward
    return generic(np, _finite(x, "pinv"), rcond=rcond)


_WELL_CONDITIONED = {"f": 1e6, "F": 1e6, "d": 1e3, "D": 1e3}
"""The largest condition of a matrix whose adjugate is its inverse times its determinant.

Inverses are computed in double precision, so the error is far below that of single precision.
"""


def adjugate(x: Any) -> Any:
    """Return the adjugate, from the inverse or from the singular value decomposition.

    The latter exists for all matrices, and takes ten times as long.
    """
    x = _finite(x, "adjugate")
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False)
    size = np.linalg.det(wide)
    is_regular = (size != 0) & np.isfinite(size)
    safe = np.where(is_regular[..., None, None], wide, np.eye(x.shape[-1]))
    try:
        inverse = np.linalg.inv(safe)
    except np.linalg.LinAlgError:
        return _adjugate_of_any(x)
    with np.errstate(over="ignore", invalid="ignore"):
        condition = _norm(safe) * _norm(inverse)
        result = np.asarray((inverse * size[..., None, None]).astype(x.dtype))
    rest = ~(is_regular & (condition < _WELL_CONDITIONED[x.dtype.char]))
    if rest.any():
        result[rest] = _adjugate_of_any(x[rest])
    return result


def _norm(x: Any) -> Any:
    return np.abs(x).sum(-2).max(-1, initial=0.0)


def _adjugate_of_any(x: Any) -> Any:
    generic: Any = PRIMITIVES["adjugate"].forward
    return generic(np, x)


KERNELS = by_name(svd, pinv, adjugate)
