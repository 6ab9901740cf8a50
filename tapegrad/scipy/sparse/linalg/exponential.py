"""expm_multiply: the action of the exponential of a sparse matrix on a vector or matrix."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.values.convert import read_on_host
from tapegrad.scipy.sparse.linalg.direct import as_square, right_side
from tapegrad.scipy.sparse.linalg.solvers import norm
from tapegrad.scipy.vocabulary import eps_of, operands, stop_gradient

_REACH = 3.0
"""The largest norm for one Taylor series."""


def expm_multiply(A: Any, B: Any) -> Any:
    """Return exp(A) @ B for a vector or matrix B.

    The method is a Taylor series with scaling. The host reads the norm of A once. Gradients flow to
    the stored entries of A and to B.

    >>> from tapegrad.scipy.sparse import coo_array
    >>> expm_multiply(coo_array([[0.0, 1.0], [0.0, 0.0]]), [1.0, 2.0]).tolist()
    [3.0, 2.0]
    """
    matrix = as_square(A, "expm_multiply")
    data, right = operands(matrix.data, right_side(matrix, B, "expm_multiply"))
    still = matrix._like(stop_gradient(data))
    size = float(read_on_host(norm(still, 1), "expm_multiply"))
    parts = max(1, math.ceil(size / _REACH))
    scaled = matrix._like(data / float(parts))
    terms = _terms(size / parts, eps_of(data))
    for _ in range(parts):
        term = right
        for order in range(1, terms + 1):
            term = (scaled @ term) / float(order)
            right = right + term
    return right


def _terms(size: float, eps: float) -> int:
    """Return the number of Taylor terms needed for a matrix of this norm."""
    term, count = 1.0, 0
    while term > 0.1 * eps:
        count += 1
        term *= size / count
    return count + 1
