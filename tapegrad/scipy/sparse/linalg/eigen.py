"""A few eigenvalues of large Hermitian matrices, and singular values: eigsh and svds.

The method is Lanczos with thick restarts: products with the matrix extend a basis, and a restart
keeps its best vectors. All data stay on the device. The host reads once per restart, and not at all
if the basis spans the whole space (up to 20 unknowns by default). Inside vmap all examples take as
many restarts as the slowest. Derivatives come from the equations of the eigenpairs and need
distinct eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.argument_checks import check_choice
from tapegrad.core.recorder import EMPTY, active_stack, using_stack
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.indexing.sorting import argsort_p
from tapegrad.ops.linalg.common import hermitian_part, product
from tapegrad.ops.linalg.eigen import eigh_p
from tapegrad.ops.reduction.squares import euclidean_norm
from tapegrad.scipy.sparse.arrays import coo_array
from tapegrad.scipy.sparse.base import SparseArray
from tapegrad.scipy.sparse.linalg import krylov
from tapegrad.scipy.sparse.linalg.functions import (
    ORDERS,
    Apply,
    LinearOperator,
    adjoint_of,
    solve_with_gradients,
)
from tapegrad.scipy.vocabulary import (
    as_constant,
    concat,
    conjugate,
    eps_of,
    is_complex,
    largest,
    matrix_transpose,
    maximum,
    numbers_like,
    operand,
    real,
    reshape_p,
    sqrt,
    stack,
    stop_gradient,
    take_p,
    where,
    zeros_like,
)

_CHOICES = ("LM", "SM", "LA", "SA")


def eigsh(
    A: Any,
    k: int = 6,
    which: str = "LM",
    v0: Any = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0.0,
    return_eigenvectors: bool = True,
) -> Any:
    """Return k eigenvalues of a Hermitian matrix in increasing order, and their eigenvectors.

    `which` selects the largest ('LM') or smallest ('SM') magnitudes, or the largest ('LA') or
    smallest ('SA') values. A is a sparse or dense matrix or a LinearOperator. Gradients flow to the
    stored entries, or to everything that the operator reads. Complex eigenvectors have none.

    >>> values = eigsh(coo_array(np.diag([1.0, 5.0, 3.0, 2.0])), 2, return_eigenvectors=False)
    >>> values.round(6).tolist()
    [3.0, 5.0]
    """
    apply, size, like = _operator(A, "eigsh")
    check_choice("which", which, _CHOICES)
    if not 0 < k < size:
        raise ArgumentError(
            f"eigsh can find from 1 to {size - 1} eigenvalues of this matrix. Got k={k}."
        )
    start = _start(v0, size, like)
    with using_stack(EMPTY):
        values, vectors = _lanczos(apply, start, int(k), which, ncv, maxiter, tol)
    if active_stack().recorders:
        values, vectors = _with_gradients(apply, values, vectors)
    return (values, vectors) if return_eigenvectors else values


def _operator(A: Any, name: str) -> tuple[Apply, int, Any]:
    """Return the matrix-vector product, the size, and a tensor that fixes dtype and device."""
    if isinstance(A, LinearOperator):
        shape, apply = A.shape, A.matvec
        dtype = np.float64 if A.dtype is None else numpy_dtype(A.dtype)
        like = as_constant(np.zeros(1, dtype))
    else:
        matrix = A if isinstance(A, SparseArray) else coo_array(A)
        shape, like = matrix.shape, matrix.data
        apply = matrix.__matmul__
    if shape[0] != shape[1]:
        raise ShapeError(f"{name} needs a square matrix. Got shape {tuple(shape)}.")
    return apply, int(shape[0]), like


def _start(v0: Any, size: int, like: Any) -> Any:
    if v0 is not None:
        return stop_gradient(operand(v0))
    numbers = np.random.default_rng(0).normal(size=size)
    return numbers_like(like, numbers)


class _Space:
    """An orthonormal basis and its images under the matrix, as columns."""

    def __init__(self, apply: Apply, start: Any) -> None:
        self._apply = apply
        self.vectors: list[Any] = []
        self.images: list[Any] = []
        self._add(start)

    def _add(self, direction: Any) -> None:
        direction = self._outside(direction)
        self.vectors.append(direction)
        self.images.append(stop_gradient(self._apply(direction)))

    def _outside(self, direction: Any) -> Any:
        """Return the normalized part of a direction that is orthogonal to the basis."""
        if self.vectors:
            basis = stack(self.vectors, axis=1)
            for _ in range(2):  # the second pass removes rounding errors
                coefficients = product(basis, reshape_p(direction, shape=(-1, 1)), adjoint_a=True)
                direction = direction - product(basis, coefficients)[:, 0]
        return krylov.ratio(direction, krylov.length(direction))

    def grow(self, count: int) -> None:
        """Add vectors up to a total of `count`."""
        while len(self.vectors) < count:
            self._add(self.images[-1])

    def ritz(self) -> tuple[Any, Any, Any, Any]:
        """Return the Ritz values, vectors, images and residuals."""
        basis, images = stack(self.vectors, axis=1), stack(self.images, axis=1)
        values, mix = eigh_p(hermitian_part(product(basis, images, adjoint_a=True)))
        vectors, images = product(basis, mix), product(images, mix)
        return values, vectors, images, images - vectors * values

    def restart(self, vectors: Any, images: Any) -> None:
        """Replace the basis by these columns and continue with the next Lanczos vector."""
        direction = self._outside(self.images[-1])
        count = vectors.shape[1]
        self.vectors = [vectors[:, i] for i in range(count)]
        self.images = [images[:, i] for i in range(count)]
        self._add(direction)


def _lanczos(
    apply: Apply, start: Any, k: int, which: str, ncv: int | None, maxiter: int | None, tol: float
) -> tuple[Any, ...]:
    size = start.shape[0]
    most = min(size, max(2 * k + 1, 20) if ncv is None else max(int(ncv), k + 2))
    kept = min(k + max((most - k) // 2, 1), most - 1)
    eps = eps_of(start)
    goal = tol if tol > 0 else 100.0 * eps
    space = _Space(apply, start)
    found: tuple[Any, ...] = ()
    is_found: Any = False
    for _ in range(10 * size if maxiter is None else int(maxiter)):
        space.grow(most)
        values, vectors, images, rests = space.ritz()
        order = _best(values, which)
        now = _chosen(values, vectors, order[:k])
        if most == size:
            return now
        lengths = euclidean_norm(take_p(rests, order[:k], axis=1), 0)
        scale = maximum(largest(abs(values)), eps)
        # An example of a vmap keeps the values with which it has converged.
        before = found or now
        found = tuple(where(is_found, old, new) for old, new in zip(before, now, strict=True))
        is_found = is_found | (largest(lengths) <= goal * scale)
        if krylov.read_every(is_found, "a restart of eigsh"):
            return found
        keep = order[:kept]
        space.restart(take_p(vectors, keep, axis=1), take_p(images, keep, axis=1))
    raise ArgumentError("eigsh did not converge to all eigenvalues. Increase maxiter, ncv or tol.")


def _chosen(values: Any, vectors: Any, places: Any) -> tuple[Any, Any]:
    """Return the eigenpairs at these places, the values in increasing order."""
    rising = argsort_p(take_p(values, places, axis=0), axis=0, descending=False, stable=True)
    places = take_p(places, rising, axis=0)
    return take_p(values, places, axis=0), take_p(vectors, places, axis=1)


def _best(values: Any, which: str) -> Any:
    """Return the indices of the eigenvalues, the requested ones first."""
    keys = abs(values) if which.endswith("M") else values
    return argsort_p(keys, axis=0, descending=which.startswith("L"), stable=True)


def _with_gradients(apply: Apply, values: Any, vectors: Any) -> tuple[Any, Any]:
    """Return the eigenpairs with derivatives; complex vectors have none due to their free phase."""
    found_values, found_vectors = [], []
    for i in range(values.shape[0]):
        value, vector = values[i], vectors[:, i]
        if is_complex(vector):
            found_values.append(real(krylov.inner(vector, apply(vector))))
            found_vectors.append(vector)
            continue
        pair = _pair_with_gradients(apply, concat([vector, reshape_p(value, shape=(1,))], 0))
        found_values.append(pair[-1])
        found_vectors.append(pair[:-1])
    return stack(found_values), stack(found_vectors, axis=1)


def _pair_with_gradients(apply: Apply, pair: Any) -> Any:
    """Return an eigenpair as the root of A v - λ v = 0 and (1 - v·v) / 2 = 0.

    The Jacobian of these equations is symmetric, so MINRES solves its systems.
    """

    def equations(pair: Any) -> Any:
        vector, value = pair[:-1], pair[-1]
        norm = 0.5 * (1.0 - krylov.inner(vector, vector))
        return concat([apply(vector) - value * vector, reshape_p(norm, shape=(1,))], 0)

    def derivative_at(pair: Any) -> Callable[[Any], Any]:
        vector, value = pair[:-1], pair[-1]

        def derivative(v: Any) -> Any:
            move, change = v[:-1], v[-1]
            first = apply(move) - value * move - change * vector
            return concat([first, reshape_p(-krylov.inner(vector, move), shape=(1,))], 0)

        return derivative

    def iterate(apply: Apply, near: Apply, b: Any, x: Any) -> tuple[Any, Any]:
        return krylov.minres(apply, b, x, krylov.length(b) * 1e-13, 4 * b.shape[0])

    pair = stop_gradient(pair)
    for _ in range(ORDERS):
        linearized = derivative_at(pair)

        def gradient(upstream: Any, linearized: Any = linearized) -> Any:
            no_preconditioner = (krylov.no_preconditioner, krylov.no_preconditioner)
            start = zeros_like(upstream)
            return solve_with_gradients(
                iterate, (linearized, linearized), no_preconditioner, upstream, start
            )[0]

        def step_back(rest: Any, gradient: Any = gradient) -> Any:
            return zeros_like(rest), gradient

        pair = pair - custom_gradient(step_back)(equations(pair))
    return pair


def svds(
    A: Any,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0.0,
    which: str = "LM",
    v0: Any = None,
    maxiter: int | None = None,
    return_singular_vectors: bool | str = True,
) -> Any:
    """Return U, s and V^T of the k largest singular values in increasing order.

    They come from the eigenvalues of A^T A, or of A A^T if that is smaller, so values far below the
    largest are less accurate. Gradients flow to the stored entries.

    >>> _, s, _ = svds(coo_array([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]), 2)
    >>> s.round(6).tolist()
    [2.0, 3.0]
    """
    check_choice("which", which, ("LM", "SM"))
    if isinstance(A, LinearOperator):
        ahead, back, shape = A.matvec, A.rmatvec or adjoint_of(A.matvec), A.shape
        dtype = A.dtype
    else:
        matrix = A if isinstance(A, SparseArray) else coo_array(A)
        adjoint = matrix.transpose().conj()
        ahead, back, shape, dtype = (
            matrix.__matmul__,
            adjoint.__matmul__,
            matrix.shape,
            matrix.dtype,
        )
    is_wide = shape[1] > shape[0]
    first, second = (back, ahead) if is_wide else (ahead, back)
    size = min(int(n) for n in shape)
    gram = LinearOperator((size, size), lambda v: second(first(v)), dtype=dtype)
    values, vectors = eigsh(gram, k, which, v0, ncv, maxiter, tol)
    s = sqrt(maximum(values, 0.0))
    if return_singular_vectors is False:
        return s
    others = stack([first(vectors[:, i]) / s[i] for i in range(int(k))], axis=1)
    left, right = (vectors, others) if is_wide else (others, vectors)
    return left, s, conjugate(matrix_transpose(right))
