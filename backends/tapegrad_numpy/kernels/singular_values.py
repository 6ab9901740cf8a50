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


def adjugate(x: Any) -> Any:
    """Return the adjugate, from the singular value decomposition."""
    generic: Any = PRIMITIVES["adjugate"].forward
    return generic(np, _finite(x, "adjugate"))


KERNELS = by_name(svd, pinv, adjugate)
