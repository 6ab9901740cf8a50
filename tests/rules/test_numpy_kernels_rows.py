"""Kernels of the NumPy backend that sort, gather, scatter, reduce and scan, by plain definitions.

Each is compared with a loop over Python numbers or another function of NumPy: with ties, with
repeated and negative indices, at sizes on both sides of the limits where a kernel changes its way.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

from tapegrad.core.backend.registry import get_backend

K = get_backend("numpy").kernels
RNG = np.random.default_rng(17)
INF, NAN = math.inf, math.nan


def same(found, expected, rtol=0.0):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=rtol)


# Sorting


def by_value_then_place(row, k):
    return sorted(range(len(row)), key=lambda i: (-row[i], i))[:k]


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
@pytest.mark.parametrize(
    ("count", "k"), [(1, 1), (8, 1), (9, 1), (16, 2), (17, 2), (40, 3), (6, 6)]
)
def test_top_k_takes_the_first_of_those_that_tie(count, k, dtype):
    rows = RNG.integers(0, 4, (30, count)).astype(dtype)

    values, places = K["top_k"](rows, k=k)

    expected = [by_value_then_place(row.tolist(), k) for row in rows]
    same(places, expected)
    same(values, np.take_along_axis(rows, np.array(expected), 1))


def test_top_k_of_more_axes_and_of_distinct_numbers():
    x = RNG.permutation(2 * 3 * 50).reshape(2, 3, 50).astype(float)

    values, places = K["top_k"](x, k=4)

    same(values, -np.sort(-x, -1)[..., :4])
    same(np.take_along_axis(x, places, -1), values)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_descending_order_keeps_ties_in_place(axis):
    x = RNG.integers(0, 3, (7, 9))

    same(K["argsort"](x, axis=axis, descending=True, stable=True), np.argsort(-x, axis, "stable"))
    same(K["argsort"](x, axis=axis, descending=False, stable=True), np.argsort(x, axis, "stable"))
    same(K["sort"](x, axis=axis, descending=True), -np.sort(-x, axis))


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_row_by_row(right):
    rows = np.sort(RNG.integers(0, 6, (4, 8)), axis=1)
    sought = RNG.integers(-1, 7, (4, 5))

    found = K["searchsorted"](rows, sought, right=right)

    def place(row, value):
        return sum(v <= value if right else v < value for v in row)

    same(found, [[place(row, v) for v in values] for row, values in zip(rows, sought)])
    same(K["searchsorted"](rows[0], sought[0], right=right), found[0])


def test_unique_in_order_of_appearance():
    x = np.array([5, 3, 5, 9, 3, 3])

    first, number, counts = K["unique"](x)

    same(first, [0, 1, 3])
    same(number, [0, 1, 0, 2, 1, 1])
    same(counts, [2, 3, 1])


# Places along an axis


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_scatter_along_axis_adds_repeated_places(axis, dtype):
    t = RNG.integers(-3, 4, (3, 4, 5)).astype(dtype)
    indices = RNG.integers(-6, 6, t.shape)
    expected = np.zeros([6 if i == axis else n for i, n in enumerate(t.shape)])
    for place in np.ndindex(t.shape):
        target = [*place]
        target[axis] = indices[place] % 6
        expected[tuple(target)] += t[place]

    found = K["scatter_along_axis"](t, indices, axis=axis, length=6, unique=False)

    same(found, expected)
    assert found.dtype == dtype


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatter_along_axis_of_places_that_do_not_repeat(axis):
    t = RNG.normal(size=(3, 4, 5))
    indices = np.argsort(RNG.normal(size=t.shape), axis)

    found = K["scatter_along_axis"](t, indices, axis=axis, length=t.shape[axis], unique=True)

    same(np.take_along_axis(found, indices, axis), t)
    same(K["take_along_axis"](found, indices, axis=axis, unique=True), t)


@pytest.mark.parametrize("index", [-4, 3])
def test_scatter_along_axis_refuses_what_lies_outside(index):
    indices = np.array([0, index])
    with pytest.raises(ValueError, match="outside the axis of length 3"):
        K["scatter_along_axis"](np.ones(2), indices, axis=0, length=3, unique=False)
    inside = np.array([-3, 2])
    found = K["scatter_along_axis"](np.ones(2), inside, axis=0, length=3, unique=False)
    same(found, [1.0, 0.0, 1.0])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(4,), (2, 3), ()])
def test_take_add_is_the_transpose_of_take(axis, shape):
    x = RNG.normal(size=(4, 5, 6))
    indices = RNG.integers(0, x.shape[axis], shape)
    taken = K["take"](x, indices, axis=axis)
    same(taken, np.take(x, indices, axis))
    strided = np.asfortranarray(x)
    same(K["take"](strided, indices, axis=axis), taken)
    t = RNG.normal(size=taken.shape)

    added = K["take_add"](t, indices, axis=axis, size=x.shape[axis])

    assert added.shape == x.shape
    assert (added * x).sum() == pytest.approx((taken * t).sum(), rel=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_of_entries_set_twice_the_last_stays_and_gets_the_gradient(axis):
    x, v = np.zeros((5, 6)), RNG.normal(size=(5, 6))
    indices = np.array([1, 3, 1, 2, 3])[: x.shape[axis]]
    v = np.take(v, np.arange(len(indices)), axis)

    found = K["take_set"](x, v, indices, axis=axis)
    kept = K["take_last"](np.ones_like(x), indices, axis=axis)

    expected = x.copy()
    for number, index in enumerate(indices):
        expected[(slice(None),) * axis + (index,)] = v[(slice(None),) * axis + (number,)]
    same(found, expected)
    assert not x.any()
    is_last = np.array([index not in indices[n + 1 :] for n, index in enumerate(indices)])
    same(kept, np.ones_like(v) * np.expand_dims(is_last, 1 - axis))


@pytest.mark.parametrize("largest", [True, False])
def test_extremes_of_rows_share_their_gradients_where_they_tie(largest):
    x, v = np.array([1.0, 5.0, 2.0]), np.array([1.0, 4.0, 2.0, 2.0])
    indices = np.array([0, 1, 2, 2])

    y = K["take_extreme"](x, v, indices, largest=largest)
    of_x, of_v = K["extreme_shares"](x, v, indices, y)

    same(y, [1.0, 5.0, 2.0] if largest else [1.0, 4.0, 2.0])
    same(of_x, [0.5, 1.0 if largest else 0.0, 1 / 3], 1e-15)
    same(of_v, [0.5, 0.0 if largest else 1.0, 1 / 3, 1 / 3], 1e-15)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot_leaves_out_what_is_out_of_range(axis):
    indices = np.array([[0, 2, -1], [3, 1, 2]])

    found = K["one_hot"](indices, depth=3, on=7, off=1, axis=axis, dtype=np.dtype("int16"))

    expected = np.where(np.arange(3) == indices[..., None], 7, 1)
    same(found, np.moveaxis(expected, -1, axis))
    assert found.dtype == "int16"


def test_joined_indices_are_positions_in_row_major_order():
    a, b = np.array([0, -1, 2]), np.array([-4, 3, 1])

    found = K["linear_index"](a, b, lengths=(3, 4), axes=(0, 1), name="x[...]")

    same(found, np.ravel_multi_index((a % 3, b % 4), (3, 4)))
    for wrong in (-5, 4):
        with pytest.raises(IndexError, match=f"index {wrong} for axis 1 of length 4"):
            K["linear_index"](
                a, np.array([0, 0, wrong]), lengths=(3, 4), axes=(0, 1), name="x[...]"
            )


# Segments

IDS = np.array([2, 0, 2, -1, 0, 4])


def rows_of(x, number):
    return [row for row, i in zip(x, IDS) if i == number]


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_segments_leave_negative_numbers_out(dtype):
    x = RNG.integers(-3, 4, (6, 2)).astype(dtype)
    groups = [rows_of(x, number) for number in range(6)]

    same(K["segment_sum"](x, IDS, num=6), [np.sum([[0, 0], *g], 0) for g in groups])
    same(K["segment_prod"](x, IDS, num=6), [np.prod([[1, 1], *g], 0) for g in groups])
    taken = K["segment_take"](x, IDS)
    same(taken, [x[i] if i >= 0 else [0, 0] for i in IDS])
    with pytest.raises(ValueError, match="below 4; one is 4"):
        K["segment_sum"](x, IDS, num=4)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "int16"])
def test_extremes_of_segments_and_their_ties(largest, dtype):
    x = np.array([[3, 1], [2, 5], [3, 4], [9, -9], [2, 6], [0, 0]], dtype)
    limits = np.finfo(dtype) if dtype == "float64" else np.iinfo(dtype)
    nothing = limits.min if largest else limits.max
    pick = np.max if largest else np.min
    params = {"num": 6, "largest": largest}

    found = K["segment_extreme"](x, IDS, empty=-INF if largest else INF, **params)
    zero = K["segment_extreme"](x, IDS, empty=0, **params)

    groups = [rows_of(x, number) for number in range(6)]
    same(found, [pick(g, 0) if g else [nothing] * 2 for g in groups])
    same(zero, [pick(g, 0) if g else [0, 0] for g in groups])
    if dtype == "float64":
        shares = K["segment_ties"](x, IDS, zero)
        hits = np.array([[0.0, 0.0] if i < 0 else row == zero[i] for row, i in zip(x, IDS)])
        count = [np.sum([h for h, j in zip(hits, IDS) if j == i], 0) for i in IDS]
        same(shares, hits / np.maximum(count, 1), 1e-15)


def test_a_nan_in_a_segment_takes_its_gradient():
    x, ids = np.array([1.0, NAN, 3.0]), np.array([0, 0, 1])
    best = K["segment_extreme"](x, ids, num=2, largest=True, empty=0)

    assert math.isnan(best[0])
    same(K["segment_ties"](x, ids, best), [0.0, 1.0, 1.0])


# Reductions


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "bool", "complex128"])
def test_reductions_are_numpys(axis, keepdims, dtype):
    x = RNG.integers(0, 3, (2, 3, 4)).astype(dtype)
    wide = x.astype("float64" if x.dtype.kind != "c" else dtype)
    how = {"axis": axis, "keepdims": keepdims}

    same(K["sum"](x, **how), np.sum(wide, **how))
    same(K["mean"](x, **how), np.mean(wide, **how), 1e-3 if dtype == "float16" else 1e-14)
    same(K["prod"](x, **how), np.prod(wide, **how))
    same(K["count_nonzero"](x, **how), np.count_nonzero(x, **how))
    same(K["any"](x, **how), np.any(x, **how))
    same(K["all"](x, **how), np.all(x, **how))
    if dtype not in ("bool", "int8"):
        squares = np.sum(abs(wide) ** 2, **how)
        same(K["sum_of_squares"](x, **how), squares, 1e-14)
        same(K["euclidean_norm"](x, **how), np.sqrt(squares), 1e-3 if "16" in dtype else 1e-14)


def test_half_precision_counts_beyond_2048():
    ones = np.ones((2, 5000), "float16")

    same(K["sum"](ones, axis=(1,), keepdims=False), [5000.0] * 2)
    same(K["mean"](ones, axis=(0, 1), keepdims=False), 1.0)
    same(K["cumulative_sum"](ones[0], axis=0, exclusive=False, reverse=False)[-1], 5000.0)


def test_the_mean_of_nothing_is_nan():
    found = K["mean"](np.zeros((3, 0)), axis=(1,), keepdims=False)

    assert found.shape == (3,)
    assert np.isnan(found).all()


@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("keepdims", [True, False])
def test_logsumexp_with_infinities(axis, keepdims):
    x = RNG.normal(scale=300.0, size=(4, 5))
    with_infinities = x.copy()
    with_infinities[0] = -INF
    with_infinities[1, 2] = INF
    with_infinities[:, 3] = -INF

    for values in (x, with_infinities):
        expected = scipy.special.logsumexp(values, axis, keepdims=keepdims)
        same(K["logsumexp"](values, axis=axis, keepdims=keepdims), expected, 1e-14)


def test_logsumexp_of_numbers_beside_infinity_does_not_warn():
    x = np.array([[800.0, INF, 1.0], [800.0, 0.0, -INF]])
    same(K["logsumexp"](x, axis=(1,), keepdims=False), [INF, 800.0])


def test_the_logsumexp_of_nothing():
    same(K["logsumexp"](np.zeros((3, 0)), axis=(1,), keepdims=False), [-INF] * 3)
    same(K["logsumexp"](np.zeros((3, 0)), axis=(1,), keepdims=True), [[-INF]] * 3)


def test_ties_share_and_nan_is_an_extreme():
    x = np.array([[1.0, 3.0, 3.0], [2.0, NAN, 5.0], [7.0, 6.0, 5.0]])
    y = np.max(x, 1)

    found = K["ties"](x, y, axis=(1,), keepdims=False)

    same(found, [[0, 0.5, 0.5], [0, 1, 0], [1, 0, 0]])
    same(K["ties"](x, y[:, None], axis=(1,), keepdims=True), found)


def test_differences_of_infinities_under_the_exponential():
    x = np.array([INF, -INF, -INF, 1.0, 1.0])
    y = np.array([INF, -INF, 0.0, INF, 0.5])

    same(K["exp_difference"](x, y), [1.0, 0.0, 0.0, 0.0, math.exp(0.5)], 1e-15)


# Scans


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
def test_running_sums_and_products(axis, reverse, exclusive, dtype):
    x = RNG.integers(0, 3, (4, 5)).astype(dtype)
    wide = np.moveaxis(x.astype("float64"), axis, -1)
    wide = wide[..., ::-1] if reverse else wide
    n = wide.shape[-1]

    for name, reduce in (("cumulative_sum", np.sum), ("cumulative_prod", np.prod)):
        found = K[name](x, axis=axis, exclusive=exclusive, reverse=reverse)
        expected = np.stack([reduce(wide[..., : i + (not exclusive)], -1) for i in range(n)], -1)
        expected = expected[..., ::-1] if reverse else expected
        same(found, np.moveaxis(expected, -1, axis))


def test_a_running_sum_over_nothing():
    for exclusive in (False, True):
        found = K["cumulative_sum"](np.zeros((0, 3)), axis=0, exclusive=exclusive, reverse=False)
        assert found.shape == (0, 3)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_place_of_a_running_extreme_is_where_it_stood_first(largest, axis):
    x = RNG.integers(0, 5, (6, 7)).astype(float)
    x[2, 3] = NAN
    found = np.moveaxis(K["running_index"](x, axis=axis, largest=largest), axis, -1)

    def first(row):
        if np.isnan(row).any():
            return int(np.isnan(row).argmax())
        return int(row.argmax() if largest else row.argmin())

    rows = np.moveaxis(x, axis, -1)
    same(found, [[first(row[: i + 1]) for i in range(len(row))] for row in rows])


@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 64, 65, 100, 257])
@pytest.mark.parametrize("width", [1, 3, 256])
@pytest.mark.parametrize("reverse", [False, True])
def test_linear_recurrences_of_any_length(n, width, reverse):
    a, b = RNG.uniform(-1.2, 1.2, (2, width, n))
    expected = np.zeros((width, n))
    last = np.zeros(width)
    for i in reversed(range(n)) if reverse else range(n):
        last = expected[:, i] = a[:, i] * last + b[:, i]

    found = K["linear_recurrence"](a, b, axis=1, reverse=reverse)

    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# Rows of scores


def test_softmax_of_masked_rows_is_zero_and_the_rest_is_scipys():
    x = RNG.normal(scale=50.0, size=(4, 6))
    x[1, :3] = -INF
    x[2] = -INF
    plain = np.delete(x, 2, 0)

    for axis, values in ((1, x), (0, x.T)):
        found = np.moveaxis(K["softmax"](values, axis=axis), axis, 1)
        same(np.delete(found, 2, 0), scipy.special.softmax(plain, 1), 1e-13)
        assert not found[2].any()
        logs = np.moveaxis(K["log_softmax"](values, axis=axis), axis, 1)
        same(np.delete(logs, 2, 0), scipy.special.log_softmax(plain, 1), 1e-13)
        assert (logs[2] == -INF).all()


@pytest.mark.parametrize("label", [-1, 6])
def test_labels_out_of_range_are_refused(label):
    logits = RNG.normal(size=(3, 6))
    with pytest.raises(ValueError, match=rf"from 0 to 5, .*Got the label {label}\."):
        K["sparse_cross_entropy"](logits, np.array([0, label, 5]))


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_cross_entropies_are_their_definitions(dtype):
    logits, labels = RNG.normal(size=(5, 6)).astype(dtype), np.array([0, 5, 2, 2, 1])
    logs = scipy.special.log_softmax(logits.astype("float64"), 1)
    rtol = 1e-13 if dtype == "float64" else 2e-3

    loss, weights = K["sparse_cross_entropy"](logits, labels)
    same(loss, -logs[np.arange(5), labels], rtol)
    same(weights, np.exp(logs), rtol)
    t = RNG.normal(size=5).astype(dtype)
    slope = K["sparse_cross_entropy_gradient"](t, weights, labels)
    wanted = t[:, None] * (np.exp(logs) - np.eye(6)[labels])
    np.testing.assert_allclose(slope, wanted, rtol=rtol, atol=rtol)

    shares = RNG.uniform(size=(5, 6)).astype(dtype)
    loss, total = K["cross_entropy"](logits, shares)
    same(loss, -(shares.astype("float64") * logs).sum(1), rtol)
    slope = K["cross_entropy_gradient"](t, logits, shares, total)
    wanted = t[:, None] * (np.exp(logs) * shares.sum(1, keepdims=True) - shares)
    np.testing.assert_allclose(slope, wanted, rtol=4 * rtol, atol=4 * rtol)


def test_an_impossible_class_costs_nothing_unless_it_is_the_label():
    logits = np.array([[0.0, -INF], [0.0, -INF]])

    loss, _ = K["cross_entropy"](logits, np.array([[1.0, 0.0], [0.5, 0.5]]))

    same(loss, [0.0, INF])


# Frames


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_overlap_and_add_is_the_transpose_of_frames(step, count):
    length = 5
    x = RNG.normal(size=(2, count, length))

    found = K["overlap_and_add"](x, step=step)

    size = (count - 1) * step + length if count else 0
    expected = np.zeros((2, size))
    for k in range(count):
        expected[:, k * step : k * step + length] += x[:, k]
    np.testing.assert_allclose(found, expected, atol=1e-14)
    frames = K["frames"](expected, length=length, step=step)
    same(frames, np.stack([expected[:, k * step : k * step + length] for k in range(count)], 1)
         if count else np.empty((2, 0, length)))  # fmt: skip


def test_convolutions_of_stacks():
    a, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 3, 2))

    found = K["convolve"](a, b)

    same(found, [[np.convolve(*pair) for pair in zip(*rows)] for rows in zip(a, b)])
    same(K["convolve"](a[0, 0], b[0, 0]), found[0, 0])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_running_logsumexp(axis, reverse):
    x = RNG.normal(scale=100.0, size=(4, 5))

    found = K["cumulative_logsumexp"](x, axis=axis, reverse=reverse)

    ordered = np.flip(x, axis) if reverse else x
    parts = [
        scipy.special.logsumexp(np.take(ordered, range(i + 1), axis), axis)
        for i in range(x.shape[axis])
    ]
    expected = np.stack(parts, axis)
    same(found, np.flip(expected, axis) if reverse else expected, 1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("axis", [0, 1])
def test_gradients_of_softmax_keep_the_dtype(axis, dtype):
    y = scipy.special.softmax(RNG.normal(size=(4, 5)), axis).astype(dtype)
    t = RNG.normal(size=y.shape).astype(dtype)
    wide_y, wide_t = y.astype("float64"), t.astype("float64")
    rtol = {"float64": 1e-14, "float32": 1e-6, "float16": 4e-3}[dtype]

    found = K["softmax_gradient"](t, y, axis=axis)
    of_logs = K["log_softmax_gradient"](t, np.log(y), axis=axis)

    assert found.dtype == of_logs.dtype == dtype
    wanted = wide_y * (wide_t - (wide_t * wide_y).sum(axis, keepdims=True))
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)
    wanted = wide_t - wide_y * wide_t.sum(axis, keepdims=True)
    np.testing.assert_allclose(of_logs, wanted, rtol=4 * rtol, atol=4 * rtol)


def test_the_largest_integer_along_the_last_of_three_axes():
    x = RNG.integers(0, 9, (3, 4, 5))

    values, places = K["top_k"](x, k=1)

    same(values, x.max(-1, keepdims=True))
    same(places, x.argmax(-1)[..., None])
