"""Functions of square matrices: powers, trigonometric and hyperbolic functions, the sign."""

from __future__ import annotations

from typing import Any

from tapegrad.ops.linalg import functions
from tapegrad.ops.linalg.solve import solve
from tapegrad.scipy.vocabulary import complex_of, imag, is_complex, operand, real


def fractional_matrix_power(A: Any, t: float) -> Any:
    """Return a matrix to a real power, exp(t log(A)); an integer t uses matrix products.

    Real matrices with negative or zero eigenvalues must be cast to a complex dtype; see `logm`.

    >>> fractional_matrix_power([[4.0, 0.0], [0.0, 9.0]], 0.5).round(6).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    A = operand(A)
    if float(t).is_integer():
        return functions.matrix_power(A, int(t))
    if t == 0.5:
        return functions.sqrtm(A)
    return functions.expm(functions.logm(A) * float(t))


def _exponentials(A: Any) -> tuple[Any, Any]:
    """Return exp(iA) and exp(-iA)."""
    return functions.expm(A * 1j), functions.expm(A * -1j)


def _imaginary(A: Any) -> Any:
    return complex_of(A * 0.0, A)


def cosm(A: Any) -> Any:
    """Return the cosine of a matrix.

    >>> cosm([[0.0, 0.0], [0.0, 0.0]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    A = operand(A)
    if not is_complex(A):
        return real(functions.expm(_imaginary(A)))
    one, other = _exponentials(A)
    return (one + other) * 0.5


def sinm(A: Any) -> Any:
    """Return the sine of a matrix.

    >>> sinm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    A = operand(A)
    if not is_complex(A):
        return imag(functions.expm(_imaginary(A)))
    one, other = _exponentials(A)
    return (one - other) * -0.5j


def tanm(A: Any) -> Any:
    """Return the tangent of a matrix.

    >>> tanm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    A = operand(A)
    return solve(cosm(A), sinm(A))


def coshm(A: Any) -> Any:
    """Return the hyperbolic cosine of a matrix.

    >>> coshm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    A = operand(A)
    return (functions.expm(A) + functions.expm(-A)) * 0.5


def sinhm(A: Any) -> Any:
    """Return the hyperbolic sine of a matrix.

    >>> sinhm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    A = operand(A)
    return (functions.expm(A) - functions.expm(-A)) * 0.5


def tanhm(A: Any) -> Any:
    """Return the hyperbolic tangent of a matrix.

    >>> tanhm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    A = operand(A)
    up, down = functions.expm(A), functions.expm(-A)
    return solve(up + down, up - down)


def signm(A: Any) -> Any:
    """Return the matrix sign: each eigenvalue becomes the sign of its real part.

    No eigenvalue may have a real part of 0.

    >>> signm([[2.0, 0.0], [0.0, -3.0]]).round(6).tolist()
    [[1.0, 0.0], [0.0, -1.0]]
    """
    A = operand(A)
    sign = solve(functions.sqrtm(A @ A), A)
    # A step of Newton and Schulz takes away most of the rounding errors of the root.
    return 1.5 * sign - 0.5 * (sign @ sign @ sign)
