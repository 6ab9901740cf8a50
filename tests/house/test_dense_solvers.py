"""Which calls of cuBLAS and cuSOLVER solve a system, with both libraries emulated in memory.

Arrays are on the host, and the libraries' functions are written with NumPy for matrices by columns,
as their manuals describe them. Kernels run on the host.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.house.host_cuda import _compiled

pytest.importorskip("cupy")
linalg = pytest.importorskip("scipy.linalg")
solvers = pytest.importorskip("tapegrad_cupy.kernels.linalg.solvers")
small = pytest.importorskip("tapegrad_cupy.kernels.linalg.small")
stacks = pytest.importorskip("tapegrad_cupy.kernels.linalg.stacks")

DTYPES = {"S": np.float32, "D": np.float64, "C": np.complex64, "Z": np.complex128}
OPERATIONS = (lambda a: a, lambda a: a.T, lambda a: a.conj().T)


class HostArray(np.ndarray):
    """An array with the address where CuPy's arrays have it."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


def on_host(x: Any) -> Any:
    return np.asarray(x).view(HostArray)


def at(address: int, count: int, dtype: Any) -> np.ndarray:
    """The elements from an address on, which the caller may change."""
    bytes_ = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(bytes_, dtype)


def by_columns(address: int, rows: int, columns: int, leading: int, dtype: Any) -> np.ndarray:
    flat = at(address, leading * (columns - 1) + rows, dtype)
    steps = (flat.itemsize, leading * flat.itemsize)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), steps)


def each(address: int, count: int) -> list[int]:
    return [int(one) for one in at(address, count, np.uint64)]


class Libraries:
    """The functions of dense_solvers.py on host memory."""

    LOWER, UPPER, LEFT, RIGHT, PLAIN, TRANSPOSED, ADJOINT = 0, 1, 0, 1, 0, 1, 2

    def why_missing(self) -> str:
        return ""

    def solve_triangular(self, letter, side, uplo, op, sizes, a, lda, b, ldb, count=0):
        if count:
            for one, other in zip(each(a, count), each(b, count), strict=True):
                self.solve_triangular(letter, side, uplo, op, sizes, one, lda, other, ldb)
            return
        n, dtype = sizes[side], DTYPES[letter]
        matrix = by_columns(a, n, n, lda, dtype)
        half = OPERATIONS[op](np.tril(matrix) if uplo == self.LOWER else np.triu(matrix))
        rhs = by_columns(b, *sizes, ldb, dtype)
        solved = np.linalg.solve(half, rhs) if side == 0 else np.linalg.solve(half.T, rhs.T).T
        rhs[...] = solved

    def factor_cholesky(self, letter, uplo, n, a, info):
        x = by_columns(a, n, n, n, DTYPES[letter])
        lower = np.tril(x) if uplo == self.LOWER else np.triu(x).conj().T
        whole = lower + np.tril(lower, -1).conj().T
        state = at(info, 1, np.int32)
        try:
            factor = np.linalg.cholesky(whole)
            state[0] = 0
        except np.linalg.LinAlgError:
            factor = lower
            state[0] = 1
        mask = np.tri(n, dtype=bool)
        if uplo == self.LOWER:
            x[mask] = factor[mask]
        else:
            x.T[mask] = factor.conj()[mask]

    def factor_cholesky_stack(self, letter, uplo, n, a, info, count):
        for k, one in enumerate(each(a, count)):
            self.factor_cholesky(letter, uplo, n, one, info + 4 * k)

    def factor_lu(self, letter, n, a, pivots, info):
        x = by_columns(a, n, n, n, DTYPES[letter])
        x[...], found = linalg.lu_factor(x.copy())
        at(pivots, n, np.int32)[:] = found + 1

    def factor_lu_stack(self, letter, n, a, pivots, info, count):
        for k, one in enumerate(each(a, count)):
            self.factor_lu(letter, n, one, pivots + 4 * n * k, info + 4 * k)

    def solve_lu(self, letter, op, n, columns, a, pivots, b, info):
        factors = by_columns(a, n, n, n, DTYPES[letter]), at(pivots, n, np.int32) - 1
        rhs = by_columns(b, n, columns, n, DTYPES[letter])
        rhs[...] = linalg.lu_solve(factors, rhs.copy(), trans=op)

    def solve_lu_stack(self, letter, op, n, columns, a, pivots, b, count):
        pairs = zip(each(a, count), each(b, count), strict=True)
        for k, (one, other) in enumerate(pairs):
            self.solve_lu(letter, op, n, columns, one, pivots + 4 * n * k, other, 0)


def host_kernel(text: str, name: str, arguments: str) -> Any:
    def launch(blocks: int, threads: int, *values: int) -> None:
        packed = (ctypes.c_void_p * len(values))(*[int(v) % 2**64 for v in values])
        _compiled(text, name)(packed, blocks, threads, 0)

    return launch


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace CuPy, the libraries and the launches of kernels."""
    new = lambda shape, dtype: np.empty(shape, dtype).view(HostArray)  # noqa: E731
    arrays = SimpleNamespace(
        ndarray=new,
        uint64=np.uint64,
        ascontiguousarray=lambda x: on_host(np.ascontiguousarray(x)),
        broadcast_to=lambda x, shape: on_host(np.broadcast_to(x, shape)),
        broadcast_shapes=np.broadcast_shapes,
    )
    for module in (solvers, small, stacks):
        monkeypatch.setattr(module, "cupy", arrays)
    monkeypatch.setattr(solvers, "library", Libraries())
    monkeypatch.setattr(solvers, "copy_into", lambda to, x: to.__setitem__(Ellipsis, x))
    monkeypatch.setattr(stacks, "contiguous_copy", arrays.ascontiguousarray)
    monkeypatch.setattr(small, "kernel_from", host_kernel)
    for cached in ("_around", "_cholesky", "_determinants", "_elimination", "_triangular"):
        monkeypatch.setattr(small, cached, getattr(small, cached).__wrapped__)


def draw(rng, shape, dtype):
    x = rng.normal(size=shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def turned(x):
    """The same numbers, by columns."""
    return on_host(np.ascontiguousarray(x.swapaxes(-1, -2))).swapaxes(-1, -2)


def gap(x):
    """The same numbers in every second column of a wider array."""
    wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), np.nan, x.dtype)
    wide[..., ::2] = x
    return on_host(wide)[..., ::2]


LAYOUTS = [(on_host, on_host), (turned, turned), (turned, on_host), (on_host, turned), (gap, gap)]


# Kernels for complex numbers need CuPy's headers, so small matrices are real here.
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("stack", [((), ()), ((3,), (3,)), ((5, 1), (4,)), ((), (12,))])
@pytest.mark.parametrize("width", [1, 6, 30])
def test_systems(monkeypatch, stack, width, dtype):
    if dtype == "complex128":
        monkeypatch.setattr(small, "addresses", plain_addresses)
    rng = np.random.default_rng(width)
    n = 40
    a = draw(rng, (*stack[0], n, n), dtype) + 20 * np.eye(n)
    b = draw(rng, (*stack[1], n, width), dtype)
    for of_a, of_b in LAYOUTS:
        for adjoint in (False, True):
            used = a.conj().swapaxes(-1, -2) if adjoint else a
            found = solvers.solve(of_a(a), of_b(b), adjoint=adjoint)
            np.testing.assert_allclose(found, np.linalg.solve(used, b), rtol=1e-9, atol=1e-11)
            for lower in (False, True):
                half = np.tril(a) if lower else np.triu(a)
                half = half.conj().swapaxes(-1, -2) if adjoint else half
                found = solvers.triangular_solve(of_a(a), of_b(b), lower=lower, adjoint=adjoint)
                np.testing.assert_allclose(found, np.linalg.solve(half, b), rtol=1e-9, atol=1e-11)


def plain_addresses(a, b, count):
    item = a.array.dtype.itemsize
    places = [x.address + k * x.step * item for x in (a, b) for k in range(count)]
    table = np.array(places, np.uint64).view(HostArray)
    return table, table.data.ptr, table.data.ptr + 8 * count


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("stack", [(), (3,), (2, 6)])
@pytest.mark.parametrize("layout", [on_host, turned, gap])
def test_factors_inverses_and_determinants(n, stack, layout):
    rng = np.random.default_rng(n)
    a = draw(rng, (*stack, n, n), "float64") + n * np.eye(n)
    s = a @ a.swapaxes(-1, -2)
    hidden = s + np.triu(np.full((n, n), np.nan), 1)  # the upper triangle is not read
    np.testing.assert_allclose(solvers.cholesky(layout(hidden)), np.linalg.cholesky(s), rtol=1e-9)
    np.testing.assert_allclose(solvers.inverse(layout(a)), np.linalg.inv(a), rtol=1e-8, atol=1e-9)
    expected = np.linalg.slogdet(a)
    for one, other in zip(solvers.sign_and_logarithm(layout(a)), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    np.testing.assert_allclose(solvers.determinant(layout(a)), np.linalg.det(a), rtol=1e-9)


def test_a_matrix_without_a_factor_becomes_nan():
    x = np.stack([np.eye(40), -np.eye(40)])
    found = solvers.cholesky(on_host(x))
    np.testing.assert_array_equal(found[0], np.eye(40))
    np.testing.assert_array_equal(found[1], np.where(np.tri(40), np.nan, 0.0))


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
def test_small_systems(lower, adjoint):
    rng = np.random.default_rng(0)
    a, b = draw(rng, (4, 1, 6, 6), "float64") + 6 * np.eye(6), draw(rng, (3, 6, 2), "float64")
    half = np.tril(a) if lower else np.triu(a)
    for matrix, x in ((half, solvers.triangular_solve), (a, solvers.solve)):
        for of_a, of_b in LAYOUTS:
            params = {"lower": lower} if matrix is half else {}
            found = x(of_a(a), of_b(b), adjoint=adjoint, **params)
            used = matrix.swapaxes(-1, -2) if adjoint else matrix
            np.testing.assert_allclose(found, np.linalg.solve(used, b), rtol=1e-9, atol=1e-11)
