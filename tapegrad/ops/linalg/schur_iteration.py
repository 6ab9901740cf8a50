"""The Schur decomposition in Array API terms: reflections, shifts, a fixed number of sweeps.

All matrices of a stack take the same steps; each has its own window of rows in which they count.
Nothing is read on the host.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class _Diagonals(NamedTuple):
    """The diagonal of Hessenberg matrices and its two neighbours."""

    main: Any
    above: Any
    below: Any


def decompose(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return t and z with x = z t z^H: z unitary, t upper triangular.

    For real matrices t has 2 × 2 blocks where eigenvalues are complex. What does not converge,
    such as a matrix with NaN in it, is NaN.
    """
    n = x.shape[-1]
    z = xp.broadcast_to(xp.eye(n, dtype=x.dtype, device=x.device), x.shape)
    if n < 2:
        return xp.astype(x, x.dtype, copy=True), xp.astype(z, x.dtype, copy=True)
    if _is_complex(xp, x):
        h, z = _padded(xp, x, 0), _padded(xp, z, 0)
        _reduce_to_hessenberg(xp, h, z, n)
        h, z, finished = _complex_sweeps(xp, h, z)
        h = xp.triu(h)
    else:
        # A reflection in three rows may begin in the last but one.
        h, z = _padded(xp, x, 1), _padded(xp, z, 1)
        _reduce_to_hessenberg(xp, h, z, n)
        finished = _real_sweeps(xp, h, z, n)
        h, z = xp.triu(h[..., :n, :n], k=-1), z[..., :n, :n]
    lost = xp.full((), float("nan"), dtype=h.dtype, device=h.device)
    return xp.where(finished, h, lost), xp.where(finished, z, lost)


def _reduce_to_hessenberg(xp: Any, h: Any, z: Any, n: int) -> None:
    """Clear what lies below the first subdiagonal of h, in place, and turn z along."""
    for k in range(n - 2):
        column = h[..., k + 1 : n, k : k + 1]
        # Nothing is turned where there is nothing to clear.
        is_needed = xp.any(column[..., 1:, :] != 0, axis=-2, keepdims=True)
        _reflect(xp, h, z, column, is_needed, k + 1)
    h[...] = xp.triu(h, k=-1)  # the rounding there could grow, where columns are 0


def _is_complex(xp: Any, x: Any) -> bool:
    return bool(xp.isdtype(x.dtype, "complex floating"))


def _padded(xp: Any, x: Any, more: int) -> Any:
    """A copy with rows and columns of zeros at the end, so that every reflection has its width."""
    n = x.shape[-1] + more
    wide = xp.zeros((*x.shape[:-2], n, n), dtype=x.dtype, device=x.device)
    wide[..., : x.shape[-1], : x.shape[-1]] = x
    return wide


def _adjoint(xp: Any, x: Any) -> Any:
    turned = xp.matrix_transpose(x)
    return xp.conj(turned) if _is_complex(xp, x) else turned


def _quotient(xp: Any, a: Any, b: Any, otherwise: float) -> Any:
    """a / b, and another number where b is 0."""
    one = xp.ones((), dtype=b.dtype, device=b.device)
    value = xp.full((), otherwise, dtype=a.dtype, device=a.device)
    return xp.where(b == 0, value, a / xp.where(b == 0, one, b))


def _reflect(xp: Any, h: Any, z: Any, column: Any, is_active: Any, k: int) -> None:
    """Turn rows and columns from k on so that the column becomes a multiple of its first axis."""
    rows = slice(k, k + column.shape[-2])
    sizes = xp.abs(column)
    # Scaled, because squares of tiny numbers would be 0.
    column = _quotient(xp, column, xp.astype(xp.max(sizes, axis=-2, keepdims=True), h.dtype), 0.0)
    length = xp.sqrt(xp.sum(xp.abs(column) ** 2, axis=-2, keepdims=True))
    first = column[..., :1, :]
    phase = _quotient(xp, first, xp.astype(xp.abs(first), h.dtype), 1.0)
    normal = xp.concat([first + phase * xp.astype(length, h.dtype), column[..., 1:, :]], axis=-2)
    back = _adjoint(xp, normal)
    square = xp.sum(xp.abs(normal) ** 2, axis=-2, keepdims=True)
    none = xp.zeros_like(square)
    factor = xp.astype(xp.where(is_active, _quotient(xp, none + 2, square, 0.0), none), h.dtype)
    h[..., rows, :] = h[..., rows, :] - factor * normal * xp.matmul(back, h[..., rows, :])
    for matrix in (h, z):
        part = matrix[..., :, rows]
        matrix[..., :, rows] = part - xp.matmul(part, normal) * (factor * back)


def _diagonals(xp: Any, h: Any, n: int) -> _Diagonals:
    size = h.shape[-1]
    flat = xp.reshape(h, (*h.shape[:-2], size * size))
    main = flat[..., :: size + 1][..., :n]
    return _Diagonals(main, flat[..., 1 :: size + 1][..., : n - 1],
                      flat[..., size :: size + 1][..., : n - 1])  # fmt: skip


def _scale(xp: Any, h: Any) -> Any:
    """The largest entry of each matrix, as a vector of one."""
    return xp.max(xp.max(xp.abs(h), axis=-1), axis=-1, keepdims=True)


def _coupled(xp: Any, d: _Diagonals, scale: Any) -> Any:
    """Which neighbours on the diagonal are still tied by more than the matrix's own rounding."""
    eps = float(xp.finfo(scale.dtype).eps)
    return ~(xp.abs(d.below) <= eps * scale)  # NaN counts as tied


def _are_finished(xp: Any, is_open: Any, scale: Any) -> Any:
    """Finite matrices without an open block, marked as 1 × 1 matrices."""
    is_finite = scale <= float(xp.finfo(scale.dtype).max)
    return (is_finite & ~xp.any(is_open, axis=-1, keepdims=True))[..., None]


def _last_of(xp: Any, is_marked: Any, places: Any) -> Any:
    return xp.max(xp.where(is_marked, places, xp.zeros_like(places)), axis=-1, keepdims=True)


def _picked(xp: Any, values: Any, is_there: Any) -> Any:
    """The one value that is marked, with its axis; 0 where none is."""
    zero = xp.zeros((), dtype=values.dtype, device=values.device)
    return xp.sum(xp.where(is_there, values, zero), axis=-1, keepdims=True)


def _sweeps(n: int) -> range:
    """With 3 or 4 for each row most matrices have some to spare; the rest is for multiple ones."""
    return range(40 + 4 * n)


# Complex matrices: one shift, by whole QR decompositions.


def _complex_sweeps(xp: Any, h: Any, z: Any) -> tuple[Any, Any, Any]:
    """Shift for the last row that is tied; return h, z, and which matrices are finished."""
    n = h.shape[-1]
    one = xp.eye(n, dtype=h.dtype, device=h.device)
    places = xp.arange(n, device=h.device)
    scale = _scale(xp, h)
    h = xp.where(xp.isfinite(scale)[..., None], h, xp.zeros_like(h))
    for sweep in _sweeps(n):
        d = _diagonals(xp, h, n)
        tied = _coupled(xp, d, scale)
        h = _untied(xp, h, tied, places)
        is_last = places[1:] == _last_of(xp, tied, places[1:])
        shift = _wilkinson_shift(xp, d, is_last, is_exceptional=sweep % 10 == 9)[..., None] * one
        q, r = xp.linalg.qr(h - shift)
        is_active = xp.any(tied, axis=-1, keepdims=True)[..., None]
        h = xp.where(is_active, xp.triu(xp.matmul(r, q) + shift, k=-1), h)
        z = xp.where(is_active, xp.matmul(z, q), z)
    return h, z, _are_finished(xp, _coupled(xp, _diagonals(xp, h, n), scale), scale)


def _untied(xp: Any, h: Any, tied: Any, places: Any) -> Any:
    """Clear ties within rounding; a shift that equals an eigenvalue above would revive them."""
    whole = xp.concat([tied, xp.ones_like(tied[..., :1])], axis=-1)[..., None, :]
    is_below = places[:, None] == places + 1
    return xp.where(is_below & ~whole, xp.zeros_like(h), h)


def _wilkinson_shift(xp: Any, d: _Diagonals, is_last: Any, is_exceptional: bool) -> Any:
    """The eigenvalue of the last tied 2 × 2 block that is nearer to its last entry."""
    end, start = _picked(xp, d.main[..., 1:], is_last), _picked(xp, d.main[..., :-1], is_last)
    if is_exceptional:
        return end + _picked(xp, d.below, is_last)
    corner = _picked(xp, d.above * d.below, is_last)
    half, gap = (start + end) * 0.5, (start - end) * 0.5
    root = xp.sqrt(gap * gap + corner)
    one, other = half + root, half - root
    return xp.where(xp.abs(one - end) < xp.abs(other - end), one, other)


# Real matrices: two conjugate shifts, by reflections of three rows (Francis 1961).


def _real_sweeps(xp: Any, h: Any, z: Any, n: int) -> Any:
    """Sweep in place, and bring blocks in standard form; return which matrices are finished.

    Each matrix is swept in the last window of its rows that has more than two.
    """
    scale = _scale(xp, h)
    places = xp.arange(n, device=h.device)
    for sweep in _sweeps(n) if n > 2 else ():
        d = _diagonals(xp, h, n)
        tied = _coupled(xp, d, scale)
        last = _last_of(xp, tied[..., 1:] & tied[..., :-1], places[2:])
        start = _last_of(xp, ~tied & (places[1:] <= last), places[1:])
        columns = _first_column(xp, d, last, places, is_exceptional=sweep % 10 == 9)
        for k in range(n - 1):
            _chase(xp, h, z, columns, (start <= k) & (k < last), start, last, k)
        h[...] = xp.triu(h, k=-1)  # below there is rounding only
    tied = _coupled(xp, _diagonals(xp, h, n), scale)
    _standardize_blocks(xp, h, z, n, scale[..., None])
    return _are_finished(xp, tied[..., 1:] & tied[..., :-1], scale)


def _first_column(
    xp: Any, d: _Diagonals, last: Any, places: Any, is_exceptional: bool
) -> list[Any]:
    """The first column of the product of both shifted matrices, for every row it may begin in.

    Zeros stand where the matrix ends.
    """
    is_last = places[1:] == last
    product = d.main[..., 1:] * d.main[..., :-1] - d.above * d.below
    trace = _picked(xp, d.main[..., 1:] + d.main[..., :-1], is_last)
    det = _picked(xp, product, is_last)
    if is_exceptional:
        size = xp.abs(_picked(xp, d.below, is_last))
        size = size + xp.abs(_picked(xp, d.below[..., :-1], places[2:] == last))
        trace, det = 1.5 * size, size * size
    zero = xp.zeros_like(trace)
    corner = xp.concat([d.above * d.below, zero], axis=-1)
    lower = xp.concat([d.below, zero], axis=-1)
    following = xp.concat([d.main[..., 1:], zero], axis=-1)
    next_lower = xp.concat([d.below[..., 1:], zero, zero], axis=-1)
    return [
        d.main * d.main + corner - trace * d.main + det,
        lower * (d.main + following - trace),
        lower * next_lower,
    ]


def _chase(
    xp: Any, h: Any, z: Any, columns: list[Any], is_active: Any, start: Any, last: Any, k: int
) -> None:
    """One reflection of a sweep: it begins the bulge, or moves it a row further down."""
    parts = []
    for i, column in enumerate(columns):
        begun = column[..., k : k + 1]
        moved = h[..., k + i, k - 1 : k] if k else begun
        part = xp.where(start == k, begun, moved)
        parts.append(xp.where(last >= k + i, part, xp.zeros_like(part)))
    _reflect(xp, h, z, xp.stack(parts, axis=-2), is_active[..., None], k)


def _standardize_blocks(xp: Any, h: Any, z: Any, n: int, scale: Any) -> None:
    """Split 2 × 2 blocks with real eigenvalues; others get equal entries on the diagonal."""
    eps = float(xp.finfo(scale.dtype).eps)
    for k in range(n - 1):
        is_tied = xp.abs(h[..., k + 1 : k + 2, k : k + 1]) > eps * scale
        cosine, sine, is_real = _standard_turn(xp, h[..., k : k + 2, k : k + 2])
        cosine = xp.where(is_tied, cosine, xp.ones_like(cosine))
        sine = xp.where(is_tied, sine, xp.zeros_like(sine))
        _rotate(xp, h, z, cosine, sine, k)
        corner = h[..., k + 1 : k + 2, k : k + 1]
        keeps = is_tied & ~is_real
        h[..., k + 1 : k + 2, k : k + 1] = xp.where(keeps, corner, xp.zeros_like(corner))


def _standard_turn(xp: Any, block: Any) -> tuple[Any, Any, Any]:
    """The cosine and sine of the rotation for a block, and whether its eigenvalues are real."""
    a, b = block[..., :1, :1], block[..., :1, 1:]
    c, d = block[..., 1:, :1], block[..., 1:, 1:]
    half = (a - d) * 0.5
    inner = half * half + b * c
    is_real = inner >= 0
    root = xp.sqrt(xp.where(is_real, inner, xp.zeros_like(inner)))
    along = half + xp.where(half < 0, -root, root)
    length = xp.hypot(along, c)
    total = b + c
    spread = xp.hypot(a - d, total)
    cosine = xp.sqrt((_quotient(xp, xp.abs(total), spread, 1.0) + 1) * 0.5)
    sine = _quotient(xp, xp.where(total < 0, half, -half), spread * cosine, 0.0)
    cosine = xp.where(is_real, _quotient(xp, along, length, 1.0), cosine)
    return cosine, xp.where(is_real, _quotient(xp, c, length, 0.0), sine), is_real


def _rotate(xp: Any, h: Any, z: Any, cosine: Any, sine: Any, k: int) -> None:
    upper, lower = h[..., k : k + 1, :], h[..., k + 1 : k + 2, :]
    rows = xp.concat([cosine * upper + sine * lower, cosine * lower - sine * upper], axis=-2)
    h[..., k : k + 2, :] = rows
    for matrix in (h, z):
        left, right = matrix[..., :, k : k + 1], matrix[..., :, k + 1 : k + 2]
        columns = xp.concat([cosine * left + sine * right, cosine * right - sine * left], axis=-1)
        matrix[..., :, k : k + 2] = columns
