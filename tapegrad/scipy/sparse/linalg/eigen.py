"""A few eigenvalues of large Hermitian matrices, and singular values: eigsh and svds.

By Lanczos' method with thick restarts: a space grows by products with the matrix, its best vectors
are kept when it is full. All of it lies on the device; the host looks once at each restart. What
is found has the derivatives of the eigenpair's own equations, for eigenvalues that stand apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.core.choices import check_choice
from tapegrad.core.convert import read_on_host
from tapegrad.core.dtypes import numpy_dtype
from tapegrad.core.recorder import EMPTY, active_stack, using_stack
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.linalg.common import hermitian_part, product
from tapegrad.ops.linalg.eigen import eigh_p
from tapegrad.ops.sorting import argsort_p
from tapegrad.ops.squares import euclidean_norm
from tapegrad.scipy.sparse.arrays import coo_array
from tapegrad.scipy.sparse.base import SparseArray
from tapegrad.scipy.sparse.linalg import krylov
from tapegrad.scipy.sparse.linalg.functions import ORDERS, Apply, LinearOperator, adjoint_of, solved
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
    take,
    take_p,
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
    """Return k eigenvalues of a Hermitian matrix, growing, and their vectors as columns.

    `which` chooses those of largest ('LM') or smallest ('SM') magnitude, or at the upper ('LA') or
    lower ('SA') end. A is a matrix, sparse or not, or a LinearOperator. Gradients go to the stored
    entries, or to all that the operator reads; complex vectors have none.

    >>> values = eigsh(coo_array(np.diag([1.0, 5.0, 3.0, 2.0])), 2, return_eigenvectors=False)
    >>> values.round(6).tolist()
    [3.0, 5.0]
    """
    apply, size, like = _operator(A, "eigsh")
    check_choice("which", which, _CHOICES)
    if not 0 < k < size:
        raise ArgumentError(f"eigsh finds from 1 to {size - 1} eigenvalues here. Got k={k}.")
    start = _start(v0, size, like)
    with using_stack(EMPTY):
        values, vectors = _lanczos(apply, start, int(k), which, ncv, maxiter, tol)
    if active_stack().recorders:
        values, vectors = _attached(apply, values, vectors)
    return (values, vectors) if return_eigenvectors else values


def _operator(A: Any, name: str) -> tuple[Apply, int, Any]:
    """What a matrix does to a vector, its size, and a tensor of its dtype beside it."""
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
    """Orthonormal vectors and what the matrix makes of them, as columns."""

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
        """The part of a direction that is orthogonal to the space, at length 1."""
        if self.vectors:
            basis = stack(self.vectors, axis=1)
            for _ in range(2):  # once more for what rounding left
                shares = product(basis, reshape_p(direction, shape=(-1, 1)), adjoint_a=True)
                direction = direction - product(basis, shares)[:, 0]
        return krylov.ratio(direction, krylov.length(direction))

    def grow(self, count: int) -> None:
        """Add vectors until there are so many."""
        while len(self.vectors) < count:
            self._add(self.images[-1])

    def ritz(self) -> tuple[Any, Any, Any, Any]:
        """The eigenvalues within the space, their vectors, images and residuals."""
        basis, images = stack(self.vectors, axis=1), stack(self.images, axis=1)
        values, mix = eigh_p(hermitian_part(product(basis, images, adjoint_a=True)))
        vectors, images = product(basis, mix), product(images, mix)
        return values, vectors, images, images - vectors * values

    def restart(self, vectors: Any, images: Any) -> None:
        """Keep these columns and go on where the space would have grown next."""
        direction = self._outside(self.images[-1])
        count = vectors.shape[1]
        self.vectors = [vectors[:, i] for i in range(count)]
        self.images = [images[:, i] for i in range(count)]
        self._add(direction)


def _lanczos(
    apply: Apply, start: Any, k: int, which: str, ncv: int | None, maxiter: int | None, tol: float
) -> tuple[Any, Any]:
    size = start.shape[0]
    most = min(size, max(2 * k + 1, 20) if ncv is None else max(int(ncv), k + 2))
    kept = min(k + max((most - k) // 2, 1), most - 1)
    eps = eps_of(start)
    goal = tol if tol > 0 else 100.0 * eps
    space = _Space(apply, start)
    for _ in range(10 * size if maxiter is None else int(maxiter)):
        space.grow(most)
        values, vectors, images, rests = space.ritz()
        order = _best(values, which)
        chosen = order[:k]
        lengths = euclidean_norm(take_p(rests, chosen, axis=1), 0)
        scale = maximum(largest(abs(values)), eps)
        missed = float(read_on_host(largest(lengths) / scale, "a restart of eigsh"))
        if missed <= goal or most == size:
            break
        keep = order[:kept]
        space.restart(take_p(vectors, keep, axis=1), take_p(images, keep, axis=1))
    else:
        raise ArgumentError(
            "eigsh has not found all eigenvalues. Raise maxiter or ncv, or loosen tol."
        )
    found = take(values, chosen)
    rising = argsort_p(found, axis=0, descending=False, stable=True)
    places = take(chosen, rising)
    return take(values, places), take_p(vectors, places, axis=1)


def _best(values: Any, which: str) -> Any:
    """The numbers of eigenvalues, those first that are asked for."""
    keys = abs(values) if which.endswith("M") else values
    return argsort_p(keys, axis=0, descending=which.startswith("L"), stable=True)


def _attached(apply: Apply, values: Any, vectors: Any) -> tuple[Any, Any]:
    """The pairs with derivatives; complex vectors get none, for their phase is open."""
    found_values, found_vectors = [], []
    for i in range(values.shape[0]):
        value, vector = values[i], vectors[:, i]
        if is_complex(vector):
            found_values.append(real(krylov.inner(vector, apply(vector))))
            found_vectors.append(vector)
            continue
        pair = _attached_pair(apply, concat([vector, reshape_p(value, shape=(1,))], 0))
        found_values.append(pair[-1])
        found_vectors.append(pair[:-1])
    return stack(found_values), stack(found_vectors, axis=1)


def _attached_pair(apply: Apply, pair: Any) -> Any:
    """A vector and its value as the root of A v - λ v = 0 and (1 - v·v) / 2 = 0.

    The Jacobian of these equations is symmetric, so its systems are solved by minimal residuals.
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
        turned = derivative_at(pair)

        def gradient(upstream: Any, turned: Any = turned) -> Any:
            nothing = (krylov.nothing, krylov.nothing)
            start = zeros_like(upstream)
            return solved(iterate, (turned, turned), nothing, upstream, start)[0]

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
    """Return U, s and V^T of the k largest singular values of a matrix, growing.

    They come from the eigenvalues of A^T A (or A A^T, if that is smaller), so values far below the
    largest are less exact. Gradients go to the stored entries.

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
        turned = matrix.transpose().conj()
        ahead, back, shape, dtype = matrix.__matmul__, turned.__matmul__, matrix.shape, matrix.dtype
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
