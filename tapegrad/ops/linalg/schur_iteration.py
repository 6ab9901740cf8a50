"""The Schur decomposition with Array API functions: the shifted QR algorithm.

All matrices of a stack take the same fixed number of sweeps; each has a window of active rows.
Nothing is read on the host.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class _Diagonals(NamedTuple):
    """The diagonal, superdiagonal and subdiagonal of Hessenberg matrices."""

    main: Any
    above: Any
    below: Any


def decompose(xp: Any, x: Any) -> tuple[Any, Any]:
    """Return t and z with x = z t z^H: z unitary, t upper triangular.

    For real matrices t has 2 × 2 blocks for complex eigenvalues. The result is NaN for a matrix
    that does not converge, such as one that contains NaN.
    """
    n = x.shape[-1]
    z = xp.broadcast_to(xp.eye(n, dtype=x.dtype, device=x.device), x.shape)
    if n < 2:
        return xp.astype(x, x.dtype, copy=True), xp.astype(z, x.dtype, copy=True)
    if _is_complex(xp, x):
        h, z = _pad(xp, x, 0), _pad(xp, z, 0)
        _reduce_to_hessenberg(xp, h, z, n)
        h, z, finished = _complex_sweeps(xp, h, z)
        h = xp.triu(h)
    else:
        # A reflection of three rows may start in the last but one row.
        h, z = _pad(xp, x, 1), _pad(xp, z, 1)
        _reduce_to_hessenberg(xp, h, z, n)
        finished = _real_sweeps(xp, h, z, n)
        h, z = xp.triu(h[..., :n, :n], k=-1), z[..., :n, :n]
    lost = xp.full((), float("nan"), dtype=h.dtype, device=h.device)
    return xp.where(finished, h, lost), xp.where(finished, z, lost)


def _reduce_to_hessenberg(xp: Any, h: Any, z: Any, n: int) -> None:
    """Reduce h to Hessenberg form in place, and apply the same reflections to z."""
    for k in range(n - 2):
        column = h[..., k + 1 : n, k : k + 1]
        # Skip matrices whose column is already clear.
        is_needed = xp.any(column[..., 1:, :] != 0, axis=-2, keepdims=True)
        _reflect(xp, h, z, column, is_needed, k + 1)
    h[...] = xp.triu(h, k=-1)  # rounding errors below could grow where columns are 0


def _is_complex(xp: Any, x: Any) -> bool:
    return bool(xp.isdtype(x.dtype, "complex floating"))


def _pad(xp: Any, x: Any, more: int) -> Any:
    """Return a copy with `more` zero rows and columns, so that all reflections have equal width."""
    n = x.shape[-1] + more
    wide = xp.zeros((*x.shape[:-2], n, n), dtype=x.dtype, device=x.device)
    wide[..., : x.shape[-1], : x.shape[-1]] = x
    return wide


def _adjoint(xp: Any, x: Any) -> Any:
    transposed = xp.matrix_transpose(x)
    return xp.conj(transposed) if _is_complex(xp, x) else transposed


def _quotient(xp: Any, a: Any, b: Any, otherwise: float) -> Any:
    """Return a / b, and `otherwise` where b is 0."""
    one = xp.ones((), dtype=b.dtype, device=b.device)
    value = xp.full((), otherwise, dtype=a.dtype, device=a.device)
    return xp.where(b == 0, value, a / xp.where(b == 0, one, b))


def _reflect(xp: Any, h: Any, z: Any, column: Any, is_active: Any, k: int) -> None:
    """Apply, from row k on, the Householder reflection that maps `column` to its first axis."""
    rows = slice(k, k + column.shape[-2])
    sizes = xp.abs(column)
    # Scale the column, because squares of tiny numbers would underflow.
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
    """Return the largest absolute entry of each matrix, as a vector of length 1."""
    return xp.max(xp.max(xp.abs(h), axis=-1), axis=-1, keepdims=True)


def _coupled(xp: Any, d: _Diagonals, scale: Any) -> Any:
    """Return which subdiagonal entries exceed the rounding error of the matrix."""
    eps = float(xp.finfo(scale.dtype).eps)
    return ~(xp.abs(d.below) <= eps * scale)  # NaN counts as coupled


def _are_finished(xp: Any, is_open: Any, scale: Any) -> Any:
    """Return which matrices are finite and have no open block, as 1 × 1 matrices."""
    is_finite = scale <= float(xp.finfo(scale.dtype).max)
    return (is_finite & ~xp.any(is_open, axis=-1, keepdims=True))[..., None]


def _last_of(xp: Any, is_marked: Any, positions: Any) -> Any:
    return xp.max(xp.where(is_marked, positions, xp.zeros_like(positions)), axis=-1, keepdims=True)


def _select(xp: Any, values: Any, is_selected: Any) -> Any:
    """Return the one selected value and keep its axis; 0 if none is selected."""
    zero = xp.zeros((), dtype=values.dtype, device=values.device)
    return xp.sum(xp.where(is_selected, values, zero), axis=-1, keepdims=True)


def _sweeps(n: int) -> range:
    """Return the sweeps: most matrices need 3 or 4 per row, multiple eigenvalues need more."""
    return range(40 + 4 * n)


# Complex matrices: single shifts, with full QR decompositions


def _complex_sweeps(xp: Any, h: Any, z: Any) -> tuple[Any, Any, Any]:
    """Shift for the last coupled row; return h, z, and which matrices are finished."""
    n = h.shape[-1]
    one = xp.eye(n, dtype=h.dtype, device=h.device)
    positions = xp.arange(n, device=h.device)
    scale = _scale(xp, h)
    h = xp.where(xp.isfinite(scale)[..., None], h, xp.zeros_like(h))
    for sweep in _sweeps(n):
        d = _diagonals(xp, h, n)
        coupled = _coupled(xp, d, scale)
        h = _deflate(xp, h, coupled, positions)
        is_last = positions[1:] == _last_of(xp, coupled, positions[1:])
        shift = _wilkinson_shift(xp, d, is_last, is_exceptional=sweep % 10 == 9)[..., None] * one
        q, r = xp.linalg.qr(h - shift)
        is_active = xp.any(coupled, axis=-1, keepdims=True)[..., None]
        h = xp.where(is_active, xp.triu(xp.matmul(r, q) + shift, k=-1), h)
        z = xp.where(is_active, xp.matmul(z, q), z)
    return h, z, _are_finished(xp, _coupled(xp, _diagonals(xp, h, n), scale), scale)


def _deflate(xp: Any, h: Any, coupled: Any, positions: Any) -> Any:
    """Set subdiagonal entries within rounding to 0.

    Otherwise a shift that equals an eigenvalue further up would make them grow again.
    """
    whole = xp.concat([coupled, xp.ones_like(coupled[..., :1])], axis=-1)[..., None, :]
    is_below = positions[:, None] == positions + 1
    return xp.where(is_below & ~whole, xp.zeros_like(h), h)


def _wilkinson_shift(xp: Any, d: _Diagonals, is_last: Any, is_exceptional: bool) -> Any:
    """Return the eigenvalue of the last coupled 2 × 2 block that is nearer to its last entry."""
    end, start = _select(xp, d.main[..., 1:], is_last), _select(xp, d.main[..., :-1], is_last)
    if is_exceptional:
        return end + _select(xp, d.below, is_last)
    corner = _select(xp, d.above * d.below, is_last)
    half, gap = (start + end) * 0.5, (start - end) * 0.5
    root = xp.sqrt(gap * gap + corner)
    one, other = half + root, half - root
    return xp.where(xp.abs(one - end) < xp.abs(other - end), one, other)


# Real matrices: two conjugate shifts, with reflections of three rows (Francis 1961)


def _real_sweeps(xp: Any, h: Any, z: Any, n: int) -> Any:
    """Sweep in place and standardize the blocks; return which matrices are finished.

    Each matrix is swept in its last window of more than two coupled rows.
    """
    scale = _scale(xp, h)
    positions = xp.arange(n, device=h.device)
    for sweep in _sweeps(n) if n > 2 else ():
        d = _diagonals(xp, h, n)
        coupled = _coupled(xp, d, scale)
        last = _last_of(xp, coupled[..., 1:] & coupled[..., :-1], positions[2:])
        start = _last_of(xp, ~coupled & (positions[1:] <= last), positions[1:])
        columns = _first_column(xp, d, last, positions, is_exceptional=sweep % 10 == 9)
        for k in range(n - 1):
            _chase(xp, h, z, columns, (start <= k) & (k < last), start, last, k)
        h[...] = xp.triu(h, k=-1)  # only rounding errors are below
    coupled = _coupled(xp, _diagonals(xp, h, n), scale)
    _standardize_blocks(xp, h, z, n, scale[..., None])
    return _are_finished(xp, coupled[..., 1:] & coupled[..., :-1], scale)


def _first_column(
    xp: Any, d: _Diagonals, last: Any, positions: Any, is_exceptional: bool
) -> list[Any]:
    """Return the first column of the product of both shifted matrices, for every start row.

    Entries beyond the end of the matrix are 0.
    """
    is_last = positions[1:] == last
    product = d.main[..., 1:] * d.main[..., :-1] - d.above * d.below
    trace = _select(xp, d.main[..., 1:] + d.main[..., :-1], is_last)
    det = _select(xp, product, is_last)
    if is_exceptional:
        size = xp.abs(_select(xp, d.below, is_last))
        size = size + xp.abs(_select(xp, d.below[..., :-1], positions[2:] == last))
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
    """Apply one reflection of a sweep: it creates the bulge, or moves it down by one row."""
    parts = []
    for i, column in enumerate(columns):
        begun = column[..., k : k + 1]
        moved = h[..., k + i, k - 1 : k] if k else begun
        part = xp.where(start == k, begun, moved)
        parts.append(xp.where(last >= k + i, part, xp.zeros_like(part)))
    _reflect(xp, h, z, xp.stack(parts, axis=-2), is_active[..., None], k)


def _standardize_blocks(xp: Any, h: Any, z: Any, n: int, scale: Any) -> None:
    """Split 2 × 2 blocks with real eigenvalues; make the diagonal entries of the others equal."""
    eps = float(xp.finfo(scale.dtype).eps)
    for k in range(n - 1):
        is_coupled = xp.abs(h[..., k + 1 : k + 2, k : k + 1]) > eps * scale
        cosine, sine, is_real = _standard_rotation(xp, h[..., k : k + 2, k : k + 2])
        cosine = xp.where(is_coupled, cosine, xp.ones_like(cosine))
        sine = xp.where(is_coupled, sine, xp.zeros_like(sine))
        _rotate(xp, h, z, cosine, sine, k)
        corner = h[..., k + 1 : k + 2, k : k + 1]
        keeps = is_coupled & ~is_real
        h[..., k + 1 : k + 2, k : k + 1] = xp.where(keeps, corner, xp.zeros_like(corner))


def _standard_rotation(xp: Any, block: Any) -> tuple[Any, Any, Any]:
    """Return the cosine and sine that standardize a block, and whether its eigenvalues are real."""
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
