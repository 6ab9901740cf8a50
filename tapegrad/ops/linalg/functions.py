"""Functions of matrices: expm, sqrtm, logm, matrix_power, matrix_rank."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.ops.linalg.common import as_matrices, identity_like, product
from tapegrad.ops.linalg.matrix_functions import expm_p, logm_p, matrix_rank_p, sqrtm_p
from tapegrad.ops.linalg.solve import inv_p


def expm(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the matrix exponential.

    >>> expm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return expm_p(as_matrices(input, "expm"))


def sqrtm(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the principal square root, with the dtype of the input.

    The root of a real matrix with a negative or zero eigenvalue is not real: on the CPU this
    raises an error, on a GPU it gives NaN. Cast such a matrix to a complex dtype.

    >>> sqrtm([[4.0, 0.0], [0.0, 4.0]]).round(5).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    return sqrtm_p(as_matrices(input, "sqrtm"))


def logm(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the principal logarithm, with the dtype of the input.

    See `sqrtm` for real matrices whose logarithm is not real.

    >>> logm([[1.0, 1.0], [0.0, 1.0]]).round(5).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    return logm_p(as_matrices(input, "logm"))


def matrix_power(matrix: Any, n: int) -> Any:
    """Return the n-th power of matrices; for negative n, of their inverses.

    >>> matrix_power([[2.0, 0.0], [0.0, 3.0]], 3).tolist()
    [[8.0, 0.0], [0.0, 27.0]]
    """
    x = as_matrices(matrix, "matrix_power")
    if int(n) != n:
        raise ArgumentError(f"matrix_power needs an integer n. Got {n!r}.")
    if n < 0:
        x, n = inv_p(x), -n
    if n == 0:
        return x * 0.0 + identity_like(x)
    result = None
    while n:
        if n & 1:
            result = x if result is None else product(result, x)
        n >>= 1
        if n:
            x = product(x, x)
    return result


def matrix_rank(
    a: Any, tol: float | None = None, validate_args: bool = False, name: str | None = None
) -> Any:
    """Return the number of singular values above `tol`; it has no derivative.

    >>> int(matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
    1
    """
    return matrix_rank_p(as_matrices(a, "matrix_rank", square=False), tol=tol)
