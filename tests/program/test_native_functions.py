"""Reductions, scans, indices, sorting and random draws in sequences give what NumPy gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy import switches
from tapegrad_numpy.kernels.philox import KERNELS as PHILOX
from tapegrad_numpy.kernels.updates import KERNELS
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.sequences.functions import Functions
from tests.program.native_calls import check_native, items_of, run_native

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

RNG = np.random.default_rng(23)
SHAPES = (
    (1,), (7,), (300,), (5, 3), (130, 4), (3, 200), (2, 70, 5), (4, 1, 90), (9, 2, 3), (50, 600)
)  # fmt: skip


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    x = 8 * RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * RNG.standard_normal(shape)
    return x > 0 if dtype == "bool" else x.astype(dtype)


def axes_of(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return all sets of axes that lie beside each other."""
    ends = itertools.combinations(range(len(shape) + 1), 2)
    return [tuple(range(first, last)) for first, last in ends]


def close(name: str, x: np.ndarray, params: dict[str, Any], expected: Any) -> None:
    wanted = np.asarray(expected)
    found = run_native(name, [x], params, [(wanted.shape, wanted.dtype)])
    assert found is not None, f"{name} is no instruction for {x.dtype}{x.shape}"
    unit = 1e-5 if np.finfo(wanted.dtype).eps > 1e-10 else 1e-13
    np.testing.assert_allclose(found[0], wanted, rtol=unit, atol=unit * 100, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_sums_and_means(dtype: str) -> None:
    wide = np.result_type(dtype, np.float64)
    for shape in SHAPES:
        x = numbers(shape, dtype)
        for axis in axes_of(shape):
            params = {"axis": axis, "keepdims": False}
            total = x.astype(wide).sum(axis)
            close("sum", x, params, np.asarray(total).astype(dtype))
            close("mean", x, params, np.asarray(x.astype(wide).mean(axis)).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_extremes_and_their_positions(dtype: str) -> None:
    for shape in SHAPES:
        x = numbers(shape, dtype)
        for axis in axes_of(shape):
            params = {"axis": axis, "keepdims": True}
            check_native("max", [x], params, x.max(axis, keepdims=True))
            check_native("min", [x], params, x.min(axis, keepdims=True))
        for one in range(len(shape)):
            check_native("argmax", [x], {"axis": one}, x.argmax(one))
            check_native("argmin", [x], {"axis": one}, x.argmin(one))


def test_whole_numbers_and_truth_values() -> None:
    x, flags = RNG.integers(-9, 9, (5, 70, 3)), RNG.random((5, 70, 3)) < 0.9
    for axis in axes_of(x.shape):
        params = {"axis": axis, "keepdims": False}
        check_native("sum", [x], params, x.sum(axis))
        check_native("sum", [x.astype(np.int32)], params, x.sum(axis, dtype=np.int32))
        check_native("prod", [x], params, x.prod(axis))
        check_native("sum", [flags], params, flags.sum(axis))
        check_native("count_nonzero", [flags], params, flags.sum(axis))
        check_native("any", [flags], params, flags.any(axis))
        check_native("all", [flags], params, flags.all(axis))


def test_nan_is_beyond_all_numbers() -> None:
    x = RNG.standard_normal((4, 100))
    x[1, 40] = x[2, 0] = x[3, 99] = x[1, 60] = np.nan
    params = {"axis": (1,), "keepdims": False}
    for name in ("max", "min", "sum"):
        check_native(name, [x[1:].copy()], params, np.full(3, np.nan))
    check_native("argmax", [x], {"axis": 1}, x.argmax(1))
    check_native("argmin", [x], {"axis": 1}, x.argmin(1))
    check_native("sort", [x], {"axis": 1, "descending": False}, np.sort(x, axis=1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_sum_exp(dtype: str) -> None:
    for shape in SHAPES:
        x = 10 * numbers(shape, dtype)
        for axis in axes_of(shape):
            expected = np.logaddexp.reduce(x.astype(float).reshape(shape), axis=axis[0])
            for more in axis[1:]:
                expected = np.logaddexp.reduce(expected, axis=axis[0] + 0 * more)
            params = {"axis": axis, "keepdims": False}
            close("logsumexp", x, params, np.asarray(expected).astype(dtype))


def test_log_sum_exp_of_infinite_numbers() -> None:
    inf = np.inf
    x = np.array([[-inf, -inf, -inf], [inf, 0, 1], [-inf, 2, -inf], [np.nan, 1, 2]])
    expected = np.array([-inf, inf, 2, np.nan])
    params = {"axis": (1,), "keepdims": False}
    check_native("logsumexp", [x], params, expected)
    check_native("logsumexp", [x.T.copy()], {"axis": (0,), "keepdims": False}, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_scans(dtype: str) -> None:
    for shape in SHAPES:
        x = RNG.integers(-3, 3, shape).astype(dtype)
        x = x / x.dtype.type(4) if dtype[0] == "f" else x
        for axis in range(len(shape)):
            for reverse in (False, True):
                params = {"axis": axis, "exclusive": False, "reverse": reverse}
                turned = np.flip(x, axis) if reverse else x
                for name, scan in (("cumulative_sum", np.cumsum), ("cumulative_prod", np.cumprod)):
                    y = scan(turned, axis=axis, dtype=dtype)
                    check_native(name, [x], params, np.flip(y, axis) if reverse else y)
    check_native(
        "cumulative_sum",
        [np.arange(5).astype(dtype)],
        {"axis": 0, "exclusive": True, "reverse": True},
        np.array([10, 9, 7, 4, 0], dtype),
    )


def test_recurrences_and_running_log_sum_exp() -> None:
    a, b = RNG.standard_normal((2, 3, 40, 2))
    y = np.zeros_like(b)
    for k in range(40):
        y[:, k] = a[:, k] * (y[:, k - 1] if k else 0) + b[:, k]
    found = run_native("linear_recurrence", [a, b], {"axis": 1, "reverse": False}, [(b.shape, "d")])
    assert found is not None
    np.testing.assert_allclose(found[0], y, rtol=1e-12)
    x = RNG.standard_normal((3, 40)) * 30
    x[0, :2] = -np.inf
    close(
        "cumulative_logsumexp",
        x[1:].copy(),
        {"axis": 1, "reverse": False},
        np.logaddexp.accumulate(x[1:], 1),
    )
    check_native(
        "cumulative_logsumexp", [x[:1, :2].copy()], {"axis": 1, "reverse": False}, x[:1, :2]
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("length", "step"), [(8, 3), (4, 4), (3, 5), (20, 1)])
def test_frames_and_their_sums(dtype: str, length: int, step: int) -> None:
    x = RNG.integers(-9, 9, (3, 20)).astype(dtype)
    starts = range(0, 20 - length + 1, step)
    parts = np.stack([x[:, k : k + length] for k in starts], 1)
    total = np.zeros((3, starts[-1] + length), dtype)
    for k, start in enumerate(starts):
        total[:, start : start + length] += parts[:, k]
    check_native("frames", [x], {"length": length, "step": step}, parts)
    check_native("overlap_and_add", [parts], {"step": step}, total)


def test_positions_and_offsets() -> None:
    for dtype in ("int32", "int64", "float32"):
        params = {"length": 9, "dtype": np.dtype(dtype)}
        check_native("positions_like", [np.zeros(2)], params, np.arange(9, dtype=dtype))
    at = RNG.integers(0, 5, (2, 3, 4))
    check_native("offset_index", [at], {"axis": 1, "length": 5}, at + 5 * np.arange(3)[:, None])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rate_dtype", ["float32", "float64"])
def test_rows_move_along_gradients(dtype: str, rate_dtype: str) -> None:
    """Indices repeat and may count from the end; terms are added in their order."""
    rng = np.random.default_rng(3)
    for index, tail in (("int32", (5,)), ("int64", (2, 3)), ("int64", ())):
        p = rng.normal(size=(7, *tail)).astype(dtype)
        at = np.append(rng.integers(0, 7, 30), [-1, -7]).astype(index)
        rows = rng.normal(size=(32, *tail)).astype(dtype)
        rate = np.asarray(0.3, rate_dtype)
        expected = p.copy()
        for k, row in zip(at, rows):
            expected[k] += row * np.dtype(dtype).type(-float(rate))
        check_native("sgd_rows_update", [p, rows, at, rate], {}, expected)
        kernel = KERNELS["sgd_rows_update"]
        np.testing.assert_array_equal(kernel(p, rows, at, rate)[0], expected)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_rows_by_index(dtype: str, index: str) -> None:
    for width in (1, 2, 3, 4, 9):
        x = numbers((6, 7, width), dtype)
        at = RNG.integers(0, 7, (3, 5)).astype(index)
        check_native("take", [x, at], {"axis": 1}, x[:, at])
        check_native("gather_rows", [x, at - 5], {}, x[at - 5])
        v = numbers((6, 3, 5, width), dtype)
        total = np.zeros((6, 7, width), dtype)
        for i, j in np.ndindex(3, 5):
            total[:, at[i, j]] += v[:, i, j]
        check_native("take_add", [v, at], {"axis": 1, "size": 7}, total)
        added = x.copy()
        for i, j in np.ndindex(3, 5):
            added[:, at[i, j]] += v[:, i, j]
        check_native("added_rows", [x, v, at], {"axis": 1}, added)
        written = x.copy()
        for i, j in np.ndindex(3, 5):
            written[:, at[i, j]] = v[:, i, j]
        check_native("take_set", [x, v, at], {"axis": 1}, written)
        kept = x.copy()
        kept[1:5:2, 6:2:-1] = v[:2, 0, :4]
        part = np.ascontiguousarray(v[:2, 0, :4])
        where = (slice(1, 5, 2), slice(6, 2, -1))
        check_native("slice_set", [x, part], {"index": where}, kept)
        ids = np.array([0, 3, -1, 3, 1, 0], index)
        sums = np.zeros((4, 7, width), dtype)
        for row, place in zip(x, ids):
            if place >= 0:
                sums[place] += row
        check_native("segment_sum", [x, ids], {"num": 4}, sums)


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_of_segments(dtype: str, index: str) -> None:
    x = RNG.integers(0, 3, (12, 5)).astype(dtype)  # many of them are equal
    x[3, 2] = np.nan
    ids = np.array([0, 3, -1, 3, 1, 0, 0, 1, 1, 3, -1, 3], index)
    limits = np.finfo(dtype)
    for largest, empty in itertools.product((True, False), (0.0, -1.0)):
        fill = 0 if empty == 0 else limits.min if largest else limits.max
        best, shares = np.full((4, 5), fill, dtype), np.zeros((12, 5), dtype)
        for segment in (0, 1, 3):
            rows = x[ids == segment]
            best[segment] = rows.max(0) if largest else rows.min(0)
            hits = (rows == best[segment]) | (np.isnan(rows) & np.isnan(best[segment]))
            shares[ids == segment] = hits / hits.sum(0)
        params = {"num": 4, "largest": largest, "empty": empty}
        check_native("segment_extreme", [x, ids], params, best)
        check_native("segment_ties", [x, ids, best], {}, shares.astype(dtype))
    check_native("segment_take", [best, ids], {}, np.where(ids[:, None] < 0, 0, best[ids]))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
def test_elements_along_an_axis(dtype: str) -> None:
    x = numbers((4, 6, 3), dtype)
    for axis, length in enumerate(x.shape):
        shape = [4, 6, 3]
        shape[axis] = 5
        at = RNG.integers(-length, length, shape)
        params = {"axis": axis, "unique": False}
        check_native("take_along_axis", [x, at], params, np.take_along_axis(x, at, axis))
        if dtype[0] == "f":
            t, total = numbers(tuple(shape), dtype), np.zeros(x.shape, dtype)
            for place in np.ndindex(*shape):
                to = [*place]
                to[axis] = at[place]
                total[tuple(to)] += t[place]
            more = {"axis": axis, "length": length, "unique": False}
            check_native("scatter_along_axis", [t, at], more, total)


@pytest.mark.parametrize(
    ("name", "arrays", "params", "shape"),
    [
        ("gather_rows", [np.ones((4, 2)), np.array([0, 4])], {}, (2, 2)),
        ("take", [np.ones((4, 2)), np.array([-3])], {"axis": 1}, (4, 1)),
        ("take_add", [np.ones((2, 2)), np.array([0, 3])], {"axis": 0, "size": 3}, (3, 2)),
        ("added_rows", [np.ones((3, 2)), np.ones((2, 2)), np.array([0, 3])], {"axis": 0}, (3, 2)),
        (
            "sgd_rows_update",
            [np.ones((3, 2)), np.ones((2, 2)), np.array([0, 3]), np.ones(())],
            {},
            (3, 2),
        ),
        ("segment_sum", [np.ones((2, 2)), np.array([0, 3])], {"num": 3}, (3, 2)),
        ("segment_take", [np.ones((2, 2)), np.array([0, 2])], {}, (2, 2)),
        ("take_along_axis", [np.ones((2, 2)), np.array([[2, 0]])], {"axis": 0}, (1, 2)),
    ],
)
def test_wrong_indices_are_left_to_python(name: str, arrays: Any, params: Any, shape: Any) -> None:
    assert run_native(name, arrays, params, [(shape, "float64")], code=3) is not None


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_sorting(dtype: str) -> None:
    for shape in (*SHAPES[3:-1], (7,), (2, 250)):
        x = RNG.integers(-20, 20, shape).astype(dtype)  # many of them are equal
        for axis in range(len(shape)):
            params = {"axis": axis, "descending": False}
            check_native("sort", [x], params, np.sort(x, axis=axis))
            order = np.argsort(x, axis=axis, kind="stable")
            check_native("argsort", [x], {**params, "stable": True}, order)
            down = np.argsort(-x, axis=axis, kind="stable")
            turned = {"axis": axis, "descending": True}
            check_native("argsort", [x], {**turned, "stable": True}, down)
            check_native("sort", [x], turned, np.take_along_axis(x, down, axis))
        order = np.argsort(-x, axis=-1, kind="stable")
        for k in (1, 3, 32):
            if k <= shape[-1]:
                best = order[..., :k]
                check_native("top_k", [x], {"k": k}, np.take_along_axis(x, best, -1), best)


@pytest.mark.parametrize("right", [False, True])
def test_searches(right: bool) -> None:
    x, v = np.sort(RNG.integers(0, 9, (3, 20)).astype(float), 1), RNG.integers(-1, 10, (3, 7)) * 1.0
    side: Any = "right" if right else "left"
    expected = np.stack([np.searchsorted(a, b, side) for a, b in zip(x, v)])
    check_native("searchsorted", [x, v], {"right": right}, expected)
    check_native("searchsorted", [x[0], v], {"right": right}, np.searchsorted(x[0], v, side))


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_cross_entropy_and_its_gradient(index: str) -> None:
    x, t = 4 * RNG.standard_normal((3, 5, 7)), RNG.standard_normal((3, 5))
    labels = RNG.integers(0, 7, (3, 5)).astype(index)
    log_softmax = x - np.log(np.exp(x).sum(-1, keepdims=True))
    loss = -np.take_along_axis(log_softmax, labels[..., None].astype(int), -1)[..., 0]
    gradient = t[..., None] * (np.exp(log_softmax) - np.eye(7)[labels])
    name, results = "sparse_cross_entropy_and_gradient", [((3, 5), "d"), ((3, 5, 7), "d")]

    found = run_native(name, [x, labels, t], {}, results)

    assert found is not None
    np.testing.assert_allclose(found[0], loss, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found[1], gradient, rtol=1e-12, atol=1e-14)
    assert run_native(name, [x, labels + np.array(7, index), t], {}, results, code=3) is not None


DRAWS: list[tuple[str, str, dict[str, Any]]] = [
    ("random_uniform", "float32", {}),
    ("random_uniform", "float64", {}),
    ("random_integers", "int32", {"low": -5, "high": 1000}),
    ("random_integers", "int64", {"low": -5, "high": 10**17}),
    ("random_bernoulli", "bool", {"rate": 0.3}),
]


@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: f"{draw[0]} {draw[1]}")
def test_draws_are_those_of_the_kernels(draw: Any) -> None:
    name, dtype, params = draw
    state = np.array([2**63 + 12345, 2**40 + 7], np.uint64)
    for count in (1, 2, 3, 5, 255, 256, 257, 1023, 1024, 1025, 5001):
        given = {"shape": (count,), **params}
        given |= {} if dtype == "bool" else {"dtype": np.dtype(dtype)}
        expected = PHILOX[name](state, **given)
        check_native(name, [state], given, expected)


def viterbi(em: Any, table: Any) -> Any:
    best, pointers = em[0], []
    for t in range(1, 6):
        candidates = best[:, None] + table
        pointers.append(tf.argmax(candidates, 0))
        best = tf.reduce_max(candidates, 0) + em[t]
    state = tf.argmax(best)
    path = [state]
    for pointer in reversed(pointers):
        state = tf.gather(pointer, state)
        path.append(state)
    return tf.stack(path[::-1])


def routed(x: Any, gates: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([x, gates])
        values, places = tf.math.top_k(x @ gates, 2)
        chosen = tf.gather(x, places, batch_dims=1) * tf.nn.softmax(values)
        loss = tf.reduce_sum(tf.sort(tf.cumsum(chosen, 1), 0) ** 2)
    return loss, tape.gradient(loss, [x, gates])


def pooled(x: Any, table: Any) -> Any:
    ids = tf.constant(np.array([0, 0, 2, 1, 2, 2]))
    with tf.GradientTape() as tape:
        tape.watch([x, table])
        rows = tf.gather(table, tf.argsort(x[:, 0], stable=True)) + x
        sums = tf.math.unsorted_segment_sum(rows, ids, 4)
        largest = tf.math.unsorted_segment_max(rows, ids, 3)
        loss = tf.reduce_sum(tf.reduce_logsumexp(sums, 0) * tf.reduce_mean(sums, 0))
        loss += tf.reduce_sum(largest**2)
    return loss, tape.gradient(loss, [x, table])


@pytest.mark.parametrize("python", [viterbi, routed, pooled])
def test_programs_are_one_sequence_and_equal_eager_mode(python: Callable[..., Any]) -> None:
    args = [tf.constant(RNG.standard_normal((6, 6))) for _ in range(2)]
    compiled = tf.function(python, wait=True)

    for _ in range(2):
        found, expected = tf.nest.flatten(compiled(*args)), tf.nest.flatten(python(*args))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)

    assert len(items_of(compiled, *args)) == 1


def test_rounds_of_a_loop_may_sort_and_gather() -> None:
    @tf.function(wait=True)
    def f(x: Any) -> Any:
        for _ in tf.range(500):
            x = tf.gather(tf.cumsum(tf.sort(x)), tf.argsort(x, stable=True)) / tf.reduce_sum(x)
        return x

    x = RNG.random(6) + 0.5
    expected = x
    for _ in range(500):
        expected = (
            np.cumsum(np.sort(expected))[np.argsort(expected, kind="stable")] / expected.sum()
        )
    for _ in range(2):
        np.testing.assert_allclose(f(tf.constant(x)), expected, rtol=1e-9)


def test_arrays_that_are_not_contiguous_are_copied_for_the_sequence() -> None:
    f = tf.function(lambda x: tf.reduce_sum(tf.sin(x) @ tf.cos(x), 0), wait=True)
    x = RNG.standard_normal((6, 6))
    f(tf.constant(x))

    wide = tf.constant(np.concatenate([x, x], 1))[:, ::2]
    found = f(wide), f(tf.transpose(tf.constant(x)))

    for one, given in zip(found, (np.concatenate([x, x], 1)[:, ::2], x.T)):
        np.testing.assert_allclose(one, (np.sin(given) @ np.cos(given)).sum(0), rtol=1e-12)


def test_functions_are_found_again_after_direct_calls_were_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    functions = Functions(lambda: "int nothing(const int64_t *h, char **data) { return 0; }")

    monkeypatch.setattr(switches, "DIRECT_CALLS", False)
    assert functions.step("nothing", (), (), 1) is None
    monkeypatch.undo()
    assert functions.step("nothing", (), (), 1) is not None
