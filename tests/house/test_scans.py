"""The kernels for scans, run on the host, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.house.host_cuda import run_kernel

pytest.importorskip("cupy")
scan = pytest.importorskip("tapegrad_cupy.kernels.scan.scan")
source = pytest.importorskip("tapegrad_cupy.kernels.scan.scan_source")

INFINITE = np.array([-np.inf, -np.inf, 3.0, -np.inf, 800.0, 1.0, np.inf, 2.0])


def shifted(y, axis, start):
    return np.concatenate([np.full_like(y.take([0], axis), start), y], axis).take(
        range(y.shape[axis]), axis
    )


def expected(kind, x, a, axis, exclusive):
    """The result of a forward scan along an axis."""
    if kind == source.SUM:
        y = np.cumsum(x, axis, dtype=x.dtype)
        return shifted(y, axis, 0) if exclusive else y
    if kind == source.PRODUCT:
        y = np.cumprod(x, axis, dtype=x.dtype)
        return shifted(y, axis, 1) if exclusive else y
    if kind == source.LOGSUMEXP:
        return np.logaddexp.accumulate(x, axis)
    if kind == source.RECURRENCE:
        y = np.moveaxis(x, axis, 0).copy()
        factors = np.moveaxis(a, axis, 0)
        for i in range(1, len(y)):
            y[i] += factors[i] * y[i - 1]
        return np.moveaxis(y, 0, axis)
    better = np.greater if kind == source.LARGEST else np.less
    lines = np.moveaxis(x, axis, 0)
    y = np.zeros(lines.shape, np.int64)
    for i in range(1, len(lines)):
        best = np.take_along_axis(lines, y[i - 1][None], 0)[0]
        wins = better(lines[i], best) | (np.isnan(lines[i]) & ~np.isnan(best))
        y[i] = np.where(wins & ~np.isnan(best), i, y[i - 1])
    return np.moveaxis(y, 0, axis)


def run(form, x, a, axis, segments=None, by_rows=False):
    """Scan with the kernels that the backend launches, in at least two segments if it is said."""
    n, inner = x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    lines = x.size // n
    y = np.full(x.shape, 7, np.int64 if form.kind in (source.LARGEST, source.SMALLEST) else x.dtype)
    totals = np.zeros(lines * 64 * form.element_bytes, np.uint8)
    factors = 0 if a is None else a
    if by_rows:
        threads, per = 64, -(-n // (segments or 1))
        count = -(-n // per)
        text, name = form.source(source.ROWS, threads), "scan_rows"
        blocks, rest = lines * count, [n, per, count]
    else:
        threads, per = 128, -(-n // (segments or 1))
        count = -(-n // per)
        text, name = form.source(source.COLUMNS, threads), "scan_columns"
        blocks, rest = -(-lines * count // threads), [n, per, count, inner, lines]
    for target in (0, y) if count > 1 else (y,):
        run_kernel(text, name, [x, factors, target, totals, *rest], blocks, threads)
    return y


@pytest.mark.parametrize("kind", range(6))
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("segments", [1, 3])
@pytest.mark.parametrize("n", [33, 700])
def test_rows(kind, reverse, segments, n):
    if reverse and kind in (source.LARGEST, source.SMALLEST):
        return
    rng = np.random.default_rng(n)
    x, a = rng.normal(size=(3, n)), rng.uniform(0.2, 1.0, size=(3, n))
    if kind in (source.LARGEST, source.SMALLEST):
        x = np.round(x, 1)  # with ties
        x[1, 20] = np.nan
    if kind == source.PRODUCT:
        x = 1 + 0.05 * x
    if kind == source.LOGSUMEXP:
        x[0, :8] = INFINITE
        x[2, 9] = np.nan
    exclusive = kind == source.PRODUCT
    form = scan._Form(kind, "float64", reverse, exclusive)
    given = a if kind == source.RECURRENCE else None
    flip = slice(None, None, -1 if reverse else 1)
    y = run(form, x, given, 1, segments, by_rows=True)[:, flip]
    with np.errstate(all="ignore"):
        z = expected(kind, x[:, flip], a[:, flip], 1, exclusive)
    np.testing.assert_allclose(y, z, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", range(6))
@pytest.mark.parametrize("segments", [1, 4])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_columns(kind, segments, axis):
    rng = np.random.default_rng(kind)
    x, a = rng.normal(size=(5, 31, 6)), rng.uniform(0.2, 1.0, size=(5, 31, 6))
    reverse = kind in (source.SUM, source.RECURRENCE)
    exclusive = kind == source.SUM
    form = scan._Form(kind, "float64", reverse, exclusive)
    given = a if kind == source.RECURRENCE else None
    turn = (lambda z: np.flip(z, axis)) if reverse else (lambda z: z)
    y = turn(run(form, x, given, axis, segments))
    z = expected(kind, turn(x), turn(a), axis, exclusive)
    np.testing.assert_allclose(y, z, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32"])
def test_sums_wrap_around_like_their_dtype(dtype):
    x = np.random.default_rng(0).integers(0, 100, (3, 300)).astype(dtype)
    y = run(scan._Form(source.SUM, dtype, False, False), x, None, 1, 2, by_rows=True)
    np.testing.assert_array_equal(y, np.cumsum(x, 1, dtype=dtype))


@pytest.mark.parametrize("lines", [1, 3, 1000, 10**6])
@pytest.mark.parametrize("n", [33, 256, 5000, 10**6, 2**31])
def test_segments_cover_each_line(lines, n):
    threads, segments, per = scan.plan_rows(lines, n)
    assert segments <= threads  # each thread reads the total of one segment
    assert segments == 1 or per % (threads * scan._EACH) == 0
    assert per * (segments - 1) < n <= per * segments
    count, each = scan.plan_columns(lines, n)
    assert count <= 64
    assert each * (count - 1) < n <= each * count
