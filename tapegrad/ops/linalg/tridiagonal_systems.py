"""Systems of tridiagonal matrices, as one primitive.

A matrix is given by its bands, `[..., 3, n]`: the superdiagonal, which ends with an unused entry,
the diagonal, and the subdiagonal, which begins with an unused entry.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.linalg.common import batches
from tapegrad.ops.products.primitives import conjugate
from tapegrad.ops.reduction.recurrence import first_along, shift
from tapegrad.ops.shape.joining import concat_p
from tapegrad.ops.shape.primitives import reshape_p, sum_p, sum_to_shape

_MOST_DENSE = 100_000
"""Up to this many entries, a factorization of dense matrices takes less time than n steps."""


def band(bands: Any, index: int) -> Any:
    """Return one of the three diagonals."""
    return slice_p(bands, index=(*[slice(None)] * (len(bands.shape) - 2), index, slice(None)))


def shifted(x: Any, by: int, axis: int = -2) -> Any:
    """Shift entries by one position, up (by=1) or down (by=-1), and fill in zero."""
    axis %= len(x.shape)
    return shift(x, axis, by, zeros_like(first_along(x, axis)))


def join_bands(upper: Any, main: Any, lower: Any) -> Any:
    """Return three diagonals as the bands of one matrix."""
    rows = [reshape_p(x, shape=(*x.shape[:-1], 1, x.shape[-1])) for x in (upper, main, lower)]
    return concat_p(*rows, axis=len(main.shape) - 1, sizes=(1, 1, 1))


def adjoint_bands(bands: Any) -> Any:
    """Return the bands of the conjugate transpose."""
    upper, main, lower = (conjugate(band(bands, i)) for i in range(3))
    return join_bands(shifted(lower, -1, -1), main, shifted(upper, 1, -1))


def bands_product(bands: Any, x: Any) -> Any:
    """Return the product of tridiagonal matrices and matrices."""
    upper, main, lower = (
        reshape_p(found, shape=(*found.shape, 1)) for found in (band(bands, i) for i in range(3))
    )
    return upper * shifted(x, -1) + main * x + lower * shifted(x, 1)


def _outer_bands(a: Any, b: Any, shape: tuple[int, ...]) -> Any:
    """Return the bands of a b^H, with zeros in the unused entries."""
    b = conjugate(b)
    last = (max(len(a.shape), len(b.shape)) - 1,)
    upper, main, lower = (
        sum_p(a * beside, axis=last, keepdims=False)
        for beside in (shifted(b, -1), b, shifted(b, 1))
    )
    return sum_to_shape(join_bands(upper, main, lower), shape)


def _solve(xp: Any, bands: Any, rhs: Any, *, adjoint: bool, perturb: bool) -> Any:
    upper, main, lower = (bands[..., i, :] for i in range(3))
    n = main.shape[-1]
    edge = xp.zeros((*main.shape[:-1], min(n, 1)), dtype=main.dtype, device=main.device)
    upper, lower = (
        xp.concat([upper[..., : n - 1], edge], axis=-1),
        xp.concat([edge, lower[..., 1:]], axis=-1),
    )
    if adjoint:
        conj = xp.conj if xp.isdtype(main.dtype, "complex floating") else lambda x: x
        upper, main, lower = (
            xp.concat([conj(lower)[..., 1:], edge], axis=-1),
            conj(main),
            xp.concat([edge, conj(upper)[..., : n - 1]], axis=-1),
        )
    if n < 2 or (math.prod(main.shape) * n < _MOST_DENSE and not perturb):
        return xp.linalg.solve(_dense(xp, upper, main, lower), rhs)
    least = None
    if perturb:
        sizes = xp.abs(xp.concat([upper, main, lower], axis=-1))
        limits = xp.finfo(main.dtype)
        relative, absolute = float(limits.eps), float(limits.smallest_normal)
        least = xp.max(sizes, axis=-1, keepdims=True) * relative + absolute
    return _substitute(xp, _eliminate(xp, upper, main, lower, rhs, least))


def _dense(xp: Any, upper: Any, main: Any, lower: Any) -> Any:
    n = main.shape[-1]
    places = xp.arange(n, device=main.device)
    distance = places[None, :] - places[:, None]
    zero = xp.zeros((), dtype=main.dtype, device=main.device)
    total = zero
    for k, diagonal in ((1, upper), (0, main), (-1, lower)):
        total = total + xp.where(distance == k, diagonal[..., :, None], zero)
    return total


def _eliminate(xp: Any, upper: Any, main: Any, lower: Any, rhs: Any, least: Any) -> list[Any]:
    """Return (pivot, next entry, second entry, right-hand side) of the rows of an upper triangle.

    Each step exchanges two rows where the entry below the pivot is larger. Pivots smaller than
    `least` are replaced.
    """
    n = main.shape[-1]
    zero = xp.zeros((), dtype=main.dtype, device=main.device)
    one = xp.ones((), dtype=main.dtype, device=main.device)

    def kept(pivot: Any) -> Any:
        return pivot if least is None else xp.where(xp.abs(pivot) < least, least * one, pivot)

    rows = []
    pivot, beside, right = main[..., :1], upper[..., :1], rhs[..., 0, :]
    for k in range(1, n):
        below, own, after = (x[..., k : k + 1] for x in (lower, main, upper))
        own_right = rhs[..., k, :]
        swap = xp.abs(below) > xp.abs(pivot)
        best = kept(xp.where(swap, below, pivot))
        factor = xp.where(swap, pivot, below) / xp.where(best == 0, one, best)
        first, second = xp.where(swap, own, beside), xp.where(swap, after, zero)
        top = xp.where(swap, own_right, right)
        rows.append((best, first, second, top))
        pivot = xp.where(swap, beside, own) - factor * first
        beside = xp.where(swap, zero, after) - factor * second
        right = xp.where(swap, right, own_right) - factor * top
    return [*rows, (kept(pivot), zero, zero, right)]


def _substitute(xp: Any, rows: list[Any]) -> Any:
    """Solve from the last row up. Solutions of a singular matrix are NaN."""
    found: list[Any] = []
    nan = xp.full((), float("nan"), dtype=rows[0][0].dtype, device=rows[0][0].device)
    after = second_after = xp.zeros_like(rows[-1][-1])
    for pivot, first, second, right in reversed(rows):
        x = (right - first * after - second * second_after) / xp.where(pivot == 0, nan, pivot)
        after, second_after = x, after
        found.append(x)
    return xp.stack(found[::-1], axis=-2)


tridiagonal_solve_p = batches(Primitive("tridiagonal_solve", _solve))


@tridiagonal_solve_p.vjp
def _vjp(
    t: Any,
    y: Any,
    x1: Any,
    x1_shape: tuple[int, ...],
    x2_shape: tuple[int, ...],
    *,
    adjoint: bool,
    perturb: bool,
    needs: tuple[bool, bool],
) -> tuple[Any, Any]:
    """With y = A^-1 b: db = A^-H dy, and dA has the bands of -db y^H."""
    back = tridiagonal_solve_p(x1, t, adjoint=not adjoint, perturb=perturb)
    bands = None
    if needs[0]:
        bands = -_outer_bands(*((y, back) if adjoint else (back, y)), x1_shape)
    return bands, sum_to_shape(back, x2_shape) if needs[1] else None


def _bands_jvp(t: Any, y: Any, x1: Any, *, adjoint: bool, perturb: bool) -> Any:
    moved = bands_product(adjoint_bands(t) if adjoint else t, y)
    return -tridiagonal_solve_p(x1, moved, adjoint=adjoint, perturb=perturb)


tridiagonal_solve_p.jvps(
    _bands_jvp,
    lambda t, x1, *, adjoint, perturb: tridiagonal_solve_p(x1, t, adjoint=adjoint, perturb=perturb),
)
