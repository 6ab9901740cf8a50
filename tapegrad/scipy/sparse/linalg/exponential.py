"""The exponential of a sparse matrix times a vector, without the exponential itself."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.convert import read_on_host
from tapegrad.scipy.sparse.linalg.direct import right_side, square
from tapegrad.scipy.sparse.linalg.solvers import norm
from tapegrad.scipy.vocabulary import eps_of, operands, stop_gradient

_REACH = 3.0
"""The norm up to which one series of Taylor is taken at once."""


def expm_multiply(A: Any, B: Any) -> Any:
    """Return exp(A) B for a vector or the columns of a matrix B.

    By Taylor's series in as many parts as the norm of A asks for, which the host looks at once.
    Gradients go to the stored entries of A, and to B.

    >>> from tapegrad.scipy.sparse import coo_array
    >>> expm_multiply(coo_array([[0.0, 1.0], [0.0, 0.0]]), [1.0, 2.0]).tolist()
    [3.0, 2.0]
    """
    matrix = square(A, "expm_multiply")
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
    """How many terms of the series count for a matrix of this norm."""
    term, count = 1.0, 0
    while term > 0.1 * eps:
        count += 1
        term *= size / count
    return count + 1
