"""Named constant matrices (Hilbert, Pascal, DFT, ...) and matrices built from vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import INTEGRAL, check_choice, check_whole, described
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.shape.padding import pad
from tapegrad.scipy.linalg.matrices import length_of, toeplitz
from tapegrad.scipy.vocabulary import (
    as_constant,
    concat,
    expand_dims,
    matrix_diag,
    numbers_like,
    operand,
    operands,
    reshape_p,
)


def _order(n: Any, name: str) -> int:
    if not INTEGRAL.accepts(n) or n < 0:
        raise ArgumentError(f"{name} needs an integer number of rows. Got {described(n)}.")
    return check_whole("n", int(n), name)


def hilbert(n: Any) -> Any:
    """Return the Hilbert matrix with the entries 1 / (i + j + 1).

    >>> hilbert(2).round(4).tolist()
    [[1.0, 0.5], [0.5, 0.3333]]
    """
    places = np.arange(_order(n, "hilbert"), dtype=np.float64)
    return as_constant(1 / (places[:, None] + places + 1))


def invhilbert(n: Any) -> Any:
    """Return the inverse of the Hilbert matrix; its entries are integers.

    >>> invhilbert(2).tolist()
    [[4.0, -6.0], [-6.0, 12.0]]
    """
    n = _order(n, "invhilbert")
    values = [[_inverse_hilbert_entry(n, i, j) for j in range(n)] for i in range(n)]
    return as_constant(np.array(values, np.float64).reshape(n, n))


def _inverse_hilbert_entry(n: Any, i: int, j: int) -> int:
    ways = math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1) * math.comb(i + j, i) ** 2
    sign = -1 if (i + j) % 2 else 1
    return sign * (i + j + 1) * ways


def _pascal(n: Any, kind: str, name: str) -> np.ndarray:
    lower = np.array([[math.comb(i, j) for j in range(n)] for i in range(n)]).reshape(n, n)
    check_choice(f"The kind of {name}", kind, ("symmetric", "lower", "upper"))
    return lower


def pascal(n: Any, kind: str = "symmetric") -> Any:
    """Return the Pascal matrix; `kind` is 'symmetric', 'lower' or 'upper'.

    >>> pascal(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 6.0]]
    """
    lower = _pascal(_order(n, "pascal"), kind, "pascal").astype(np.float64)
    wanted = {"symmetric": lower @ lower.T, "lower": lower, "upper": lower.T}
    return as_constant(wanted[kind])


def invpascal(n: Any, kind: str = "symmetric") -> Any:
    """Return the inverse of the Pascal matrix of this kind; its entries are integers.

    >>> invpascal(3, "lower").tolist()
    [[1.0, 0.0, 0.0], [-1.0, 1.0, 0.0], [1.0, -2.0, 1.0]]
    """
    n = _order(n, "invpascal")
    places = np.arange(n)
    signs = 1 - 2 * ((places[:, None] + places) % 2)
    lower = (_pascal(n, kind, "invpascal") * signs).astype(np.float64)
    wanted = {"symmetric": lower.T @ lower, "lower": lower, "upper": lower.T}
    return as_constant(wanted[kind])


def hadamard(n: Any) -> Any:
    """Return the Hadamard matrix with n rows; n must be a power of 2.

    >>> hadamard(2).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    n = _order(n, "hadamard")
    if n < 1 or n & (n - 1):
        raise ArgumentError(f"hadamard needs a power of 2 as n. Got {n}.")
    whole = np.ones((1, 1))
    while len(whole) < n:
        whole = np.block([[whole, whole], [whole, -whole]])
    return as_constant(whole)


def dft(n: Any, scale: str | None = None) -> Any:
    """Return the matrix of the discrete Fourier transform.

    `scale` is None, 'sqrtn' or 'n': the matrix is divided by 1, √n or n.

    >>> dft(2).numpy().real.round(6).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    n = _order(n, "dft")
    check_choice("The scale of dft", scale, (None, "sqrtn", "n"))
    divisor = {None: 1.0, "sqrtn": math.sqrt(n), "n": float(n)}[scale]
    places = np.arange(n)
    # Remove full turns first: sine and cosine are more accurate for small angles.
    angles = (places[:, None] * places) % max(n, 1) * (-2 * math.pi / max(n, 1))
    return as_constant((np.cos(angles) + 1j * np.sin(angles)) / divisor)


def helmert(n: Any, full: bool = False) -> Any:
    """Return the orthogonal Helmert matrix, without its first row unless `full`.

    >>> helmert(2).round(4).tolist()
    [[0.7071, -0.7071]]
    """
    n = _order(n, "helmert")
    counts = np.arange(1.0, n)
    rows = np.tril(np.ones((n - 1, n))) - np.diag(counts, 1)[: n - 1, :n]
    rows /= np.sqrt(counts * (counts + 1))[:, None]
    whole = np.vstack([np.full((1, n), 1 / math.sqrt(n)), rows])
    return as_constant(whole if full else rows)


def leslie(f: Any, s: Any) -> Any:
    """Return the Leslie matrix with fecundities f in the first row and survival rates s below.

    >>> leslie([1.0, 2.0], [0.5]).tolist()
    [[1.0, 2.0], [0.5, 0.0]]
    """
    f, s = operands(f, s)
    size = length_of(f, "leslie")
    if length_of(s, "leslie") != size - 1:
        raise ShapeError(
            f"leslie needs s of shape ({size - 1},) for f of shape ({size},). Got {s.shape}."
        )
    below = pad(matrix_diag(s), [(0, 0), (0, 1)])
    return concat([reshape_p(f, shape=(1, size)), below], 0)


def fiedler(a: Any) -> Any:
    """Return the Fiedler matrix |a[i] - a[j]|.

    >>> fiedler([1.0, 4.0]).tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    a = operand(a)
    return abs(expand_dims(a, -1) - expand_dims(a, -2))


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """Return the matrix that convolves a vector of length n with `a`.

    The mode is 'full', 'valid' or 'same'.

    >>> convolution_matrix([1.0, 2.0], 2).tolist()
    [[1.0, 0.0], [2.0, 1.0], [0.0, 2.0]]
    """
    check_choice("mode", mode, ("full", "valid", "same"))
    a = operand(a)
    length, n = length_of(a, "convolution_matrix"), _order(n, "convolution_matrix")
    if not length or not n:
        raise ArgumentError(
            "convolution_matrix needs a non-empty vector a and a length n of at least 1."
        )
    full = toeplitz(pad(a, [(0, n - 1)]), numbers_like(a, np.zeros(n)))
    rows, less = length + n - 1, min(length, n) - 1
    if mode == "full":
        return full
    if mode == "valid":
        return full[less : rows - less]
    start = (rows - max(length, n)) // 2
    return full[start : start + max(length, n)]


def khatri_rao(a: Any, b: Any) -> Any:
    """Return the Khatri-Rao product: the Kronecker product of matching columns.

    >>> khatri_rao([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]).tolist()
    [[3.0, 8.0], [5.0, 12.0]]
    """
    a, b = operands(a, b)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            "khatri_rao needs matrices with the same number of columns. Got shapes "
            f"{a.shape} and {b.shape}."
        )
    whole = expand_dims(a, -2) * expand_dims(b, -3)
    *lead, m, n, columns = whole.shape
    return reshape_p(whole, shape=(*lead, m * n, columns))
