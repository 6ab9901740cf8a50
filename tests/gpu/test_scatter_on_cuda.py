"""Gather and scatter on the GPU against NumPy: every path and dtype, and repeated indices."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.kernels import along_axis, indexing, segment

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
gather = pytest.importorskip("tapegrad_cupy.kernels.indexing.gather")
scatter = pytest.importorskip("tapegrad_cupy.kernels.indexing.scatter")

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
PRECISION = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-14}
DTYPES = [np.dtype(name) for name in ("float16", "float32", "float64")] + [BFLOAT16]
RNG = np.random.default_rng(2)

# Outer axes, number of entries, positions, inner axes: searched, counted and sorted; runs that end
# in a chunk, span several, and fill all of them; rows with and without vector accesses.
SUMS = [
    ((), 20, 7, (5,)),
    ((2, 3), 9, 5, ()),
    ((), 3000, 50, (8,)),
    ((2,), 3000, 3, (5,)),
    ((), 5000, 1, (16,)),
    ((), 20_000, 1000, (64,)),
    ((3,), 20_000, 2, (3,)),
    ((), 200_000, 50_000, ()),
    ((), 0, 4, (3,)),
    ((), 4, 0, (3,)),
]


def draw(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


@pytest.fixture(params=["any order", "fixed order"])
def order(request):
    """Both ways to add entries of equal index."""
    if request.param == "fixed order":
        tf.config.experimental.enable_op_determinism()
    yield request.param
    tf.config.experimental.disable_op_determinism()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize(("outer", "count", "size", "inner"), SUMS)
def test_entries_add_up_and_indices_out_of_range_are_dropped(
    outer, count, size, inner, dtype, order
) -> None:
    t = draw((*outer, count, *inner), dtype)
    index = RNG.integers(-1, size + 1, count)
    rows = t.astype(float).reshape(math.prod(outer), count, math.prod(inner))
    expected = np.zeros((rows.shape[0], size, rows.shape[2]))
    inside = (index >= 0) & (index < size)
    for row in range(rows.shape[0]):
        np.add.at(expected[row], index[inside], rows[row, inside])

    y = scatter.take_add(cupy.asarray(t), cupy.asarray(index), axis=len(outer), size=size)

    assert y.dtype == dtype
    assert y.shape == (*outer, size, *inner)
    scale = math.sqrt(max(1, count / max(1, size)))
    atol = 8 * PRECISION[dtype.name] * scale
    actual = cupy.asnumpy(y).astype(float).reshape(expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=2 * PRECISION[dtype.name], atol=atol)


@pytest.mark.parametrize("shape", [(8, 20), (40, 50), (64, 200), (5, 40, 100), (64, 4096)])
def test_indices_of_several_axes_are_one_list(shape, order) -> None:
    """Searched, counted, and sorted: a sort along the last axis would mix up the entries."""
    size = 1000
    t, index = draw((*shape, 3), np.dtype("f8")), RNG.integers(0, size, shape)
    expected = np.zeros((size, 3))
    np.add.at(expected, index.reshape(-1), t.reshape(-1, 3))

    y = scatter.take_add(cupy.asarray(t), cupy.asarray(index), axis=0, size=size)

    np.testing.assert_allclose(cupy.asnumpy(y), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch_dims", [1, 2])
def test_gradients_of_gathers_per_example_are_those_of_the_cpu(batch_dims) -> None:
    x, index = draw((40, 3, 400), np.dtype("f8")), RNG.integers(0, 400, (40, 3, 300))
    if batch_dims == 1:
        x, index = x[:, 0], index[:, 0]
    found = []
    for device in ("cpu", "cuda"):
        with tf.device(device):
            values = tf.constant(x)
            with tf.GradientTape() as tape:
                tape.watch(values)
                picked = tf.gather(values, tf.constant(index), batch_dims=batch_dims)
                loss = tf.reduce_sum(tf.sin(picked))
            found.append(tape.gradient(loss, values).numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [17, 5000])
def test_the_same_sum_gives_the_same_bits_if_that_is_wanted(size) -> None:
    t, index = cupy.asarray(draw((50_000, 20), np.dtype("f4"))), cupy.arange(50_000) % size
    tf.config.experimental.enable_op_determinism()
    try:
        first = scatter.take_add(t, index, axis=0, size=size)
        for _ in range(5):
            again = scatter.take_add(t, index, axis=0, size=size)
            np.testing.assert_array_equal(cupy.asnumpy(first), cupy.asnumpy(again))
    finally:
        tf.config.experimental.disable_op_determinism()


def test_sparse_sgd_adds_repeated_rows(order) -> None:
    p, rows = draw((300, 6), np.dtype("f8")), draw((2000, 6), np.dtype("f8"))
    index, rate = RNG.integers(0, 300, 2000), np.array(0.1)
    expected = p.copy()
    np.subtract.at(expected, index, rate * rows)

    y = scatter.descend_rows(*[cupy.asarray(a) for a in (p, rows, index, rate)])

    np.testing.assert_allclose(cupy.asnumpy(y), expected, rtol=1e-12, atol=1e-12)


def test_one_entry_among_very_many_places() -> None:
    size = 2**26 + 1
    one = cupy.ones(1, "int8")

    y = scatter.take_add(one, cupy.asarray([size - 1]), axis=0, size=size)

    assert (int(y[0]), int(y[-1]), int(y.sum(dtype="int64"))) == (0, 1, 1)


def test_complex_numbers_integers_and_strided_rows_add_up_too() -> None:
    index = RNG.integers(0, 9, 3000)
    for dtype in ("complex64", "int8", "int64", "bool"):
        t = RNG.integers(0, 2 if dtype == "bool" else 50, (3000, 6)).astype(dtype)
        expected = np.zeros((9, 6), dtype)
        np.add.at(expected, index, t)
        here = cupy.repeat(cupy.asarray(t), 2, axis=1)[:, ::2]

        y = scatter.take_add(here, cupy.asarray(index.astype("int32")), axis=0, size=9)

        np.testing.assert_array_equal(cupy.asnumpy(y), expected)


@pytest.mark.parametrize("count", [40, 4000, 20_000])
@pytest.mark.parametrize("largest", [True, False])
def test_extremes_by_segment_equal_numpy(count, largest) -> None:
    x, ids = draw((count, 3), np.dtype("f4")), RNG.integers(-1, 11, count)
    x[5, 1] = np.nan
    here, places = cupy.asarray(x), cupy.asarray(ids)

    for empty in (0, 1.0):
        params = {"num": 15, "largest": largest, "empty": empty}
        expected = segment.segment_extreme(x, ids, **params)
        y = scatter.segment_extreme(here, places, **params)
        np.testing.assert_array_equal(cupy.asnumpy(y), expected)
        shares = scatter.segment_ties(here, places, y)
        np.testing.assert_allclose(
            cupy.asnumpy(shares), segment.segment_ties(x, ids, expected), rtol=1e-6
        )
    inside = ids >= 0
    old = draw((15, 3), np.dtype("f4"))
    y = scatter.take_extreme(cupy.asarray(old), here, places, largest=largest)
    expected = indexing.take_extreme(old, x[inside], ids[inside], largest=largest)
    np.testing.assert_array_equal(cupy.asnumpy(y), expected)


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype("c16"), np.dtype("i1")], ids=str)
@pytest.mark.parametrize(("shape", "axis"), [((6, 4), 0), ((3, 50, 7), 1), ((300, 64), 0)])
def test_entries_are_taken_and_replaced(shape, axis, dtype) -> None:
    x = (10 * draw(shape, np.dtype("f8"))).astype(dtype)
    here = cupy.asarray(x)
    for index in (RNG.integers(0, shape[axis], (5, 8)), np.array(2), np.zeros(0, int)):
        places = cupy.asarray(index)
        v = np.take(x, index, axis=axis)[...] + np.ones((), dtype)
        pairs = [
            (gather.take(here, places, axis=axis), np.take(x, index, axis=axis)),
            (gather.take_last(here, places, axis=axis), indexing.take_last(x, index, axis=axis)),
            (
                gather.take_set(here, cupy.asarray(v), places, axis=axis),
                indexing.take_set(x, v, index, axis=axis),
            ),
        ]
        for actual, expected in pairs:
            np.testing.assert_array_equal(cupy.asnumpy(actual), expected)


def test_indices_out_of_range_take_zeros() -> None:
    x = cupy.arange(12.0).reshape(3, 4)

    taken = gather.take(x, cupy.asarray([2, -1, 3]), axis=0)
    strided = [gather.take(x.T, cupy.asarray([i]), axis=1)[:, 0] for i in (-9, 1, 3)]
    rows = gather.segment_take(x, cupy.asarray([2, -1, 7]))
    along = gather.take_along_axis(
        x, cupy.asarray([[-1, 4], [-5, 0], [3, -4]]), axis=1, unique=False
    )

    assert cupy.asnumpy(taken).tolist() == [[8, 9, 10, 11], [0] * 4, [0] * 4]
    assert cupy.asnumpy(cupy.stack(strided)).tolist() == [[0] * 4, [4, 5, 6, 7], [0] * 4]
    assert cupy.asnumpy(rows).tolist() == [[8, 9, 10, 11], [0] * 4, [0] * 4]
    assert cupy.asnumpy(along).tolist() == [[3, 0], [0, 4], [11, 8]]


@pytest.mark.parametrize(("shape", "axis"), [((40, 3000), 1), ((30, 20, 5), 1), ((700,), 0)])
def test_elements_go_out_and_back_along_an_axis(shape, axis) -> None:
    x = draw(shape, np.dtype("f4"))
    ends = (*shape[:axis], 60, *shape[axis + 1 :])
    index = RNG.integers(-shape[axis], shape[axis], ends)
    t = draw(ends, np.dtype("f4"))
    params = {"axis": axis, "length": shape[axis]}
    order = np.argsort(x, axis)

    taken = gather.take_along_axis(cupy.asarray(x), cupy.asarray(index), axis=axis, unique=False)
    added = scatter.scatter_along_axis(cupy.asarray(t), cupy.asarray(index), **params, unique=False)
    put = scatter.scatter_along_axis(cupy.asarray(x), cupy.asarray(order), **params, unique=True)

    np.testing.assert_array_equal(cupy.asnumpy(taken), np.take_along_axis(x, index, axis))
    expected = along_axis.scatter_along_axis(t.astype(float), index, **params, unique=False)
    np.testing.assert_allclose(cupy.asnumpy(added), expected, rtol=1e-5, atol=1e-5)
    expected = along_axis.scatter_along_axis(x, order, **params, unique=True)
    np.testing.assert_array_equal(cupy.asnumpy(put), expected)


@pytest.mark.parametrize("dtype", ["float16", "float32", "bool", "int64", "complex64"])
def test_one_hot_writes_its_two_values(dtype) -> None:
    index = np.array([[1, 0, -1], [5, 2, 3]])
    for axis in (0, 1, 2, -1):
        params = {"depth": 4, "on": 1, "off": 0, "axis": axis, "dtype": np.dtype(dtype)}

        y = gather.one_hot(cupy.asarray(index), **params)

        np.testing.assert_array_equal(cupy.asnumpy(y), indexing.one_hot(index, **params))


def test_an_embedding_trains_as_on_the_cpu() -> None:
    values, ids = draw((500, 16), np.dtype("f4")), RNG.integers(0, 500, (64, 50))
    tables = []
    for place in ("cpu", "cuda:0"):
        with tf.device(place):
            table = tf.Variable(values)
            optimizer = tf.optimizers.SGD(0.1)
            for _ in range(3):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) ** 2)
                optimizer.apply_gradients([(tape.gradient(loss, table), table)])
            tables.append(table.numpy())

    np.testing.assert_allclose(tables[1], tables[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("part", [slice(0, 8), slice(4, 12), slice(3, 10)])
def test_rows_that_are_parts_of_longer_rows_are_added_where_they_are(dtype, part) -> None:
    whole, index = draw((3000, 20), np.dtype(dtype)), RNG.integers(-1, 2000, 3000)
    width = part.stop - part.start
    expected = np.zeros((2000, width))
    np.add.at(expected, index[index >= 0], whole[index >= 0][:, part].astype("f8"))

    y = scatter.segment_sum(cupy.asarray(whole)[:, part], cupy.asarray(index), num=2000)

    np.testing.assert_allclose(cupy.asnumpy(y), expected, rtol=1e-5, atol=1e-5)
