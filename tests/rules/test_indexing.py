from __future__ import annotations

import numpy as np
import pytest

import tapegrad
from tapegrad.autodiff.batching import vmap
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.errors import ArgumentTypeError, IndexOutOfRangeError, ShapeError
from tapegrad.ops import creation
from tapegrad.ops.indexing import functions as indexing, gather, scatter, slices_and_masks
from tapegrad.ops.reduction.primitives import sum as reduce_sum
from tapegrad.ops.shape import diagonal, functions as shapes, joining, padding

X = np.arange(24.0).reshape(2, 3, 4)


def constant(value):
    return tapegrad.constant(np.asarray(value))


# Errors are sentences


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (5, "index 5 for axis 0 of length 2"),
        ((0, -4), "index -4 for axis 1 of length 3"),
        ((slice(None), [0, 3]), "index 3 for axis 1 of length 3"),
        (([0, 1], slice(None), [0, 9]), "index 9 for axis 2 of length 4"),
        ((0, 0, 0, 0), "has 3 axes. Got 4"),
    ],
)
def test_an_index_out_of_range_names_axis_index_and_length(index, words):
    with pytest.raises(IndexOutOfRangeError, match=words):
        constant(X)[index]
    with pytest.raises(IndexError, match=words):
        constant(X)[index] = 0.0


@pytest.mark.parametrize(
    ("index", "error", "words"),
    [
        (0.5, ArgumentTypeError, "integers, booleans, slices"),
        (([0, 1], [0, 1, 2]), ShapeError, "broadcast together"),
        ([True, False, True], ShapeError, r"must have the shape \(2,\)"),
        (slice(None, None, 0), ValueError, "step of a slice cannot be 0"),
        (slice(0.5), TypeError, "bounds and step of a slice must be integers"),
    ],
)
def test_an_index_that_makes_no_sense_says_why(index, error, words):
    with pytest.raises(error, match=words):
        constant(X)[index]


def test_gather_out_of_range_is_an_error():
    with pytest.raises(IndexError, match="gather got index 3 for axis 0 of length 3"):
        gather.gather(constant([1.0, 2.0, 3.0]), [3])


def test_gather_with_float_indices_names_the_remedy():
    with pytest.raises(ArgumentTypeError, match=r"tapegrad\.cast"):
        gather.gather(constant([1.0, 2.0]), constant([0.0]))


def test_a_mask_that_differs_between_examples_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"tapegrad\.where"):
        vmap(lambda x, m: x[m])(constant(np.ones((2, 3))), constant(np.ones((2, 3), bool)))


def test_iterating_over_a_number_is_refused():
    with pytest.raises(TypeError, match="0-d tensor"):
        iter(constant(1.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda: joining.concat([]),
        lambda: joining.stack([constant([1.0]), constant([1.0, 2.0])]),
        lambda: joining.split(constant([1.0, 2.0, 3.0]), 2),
        lambda: padding.pad([1.0], [[1, 1], [1, 1]]),
        lambda: padding.pad([1.0], [[-1, 1]]),
        lambda: padding.pad([1.0], [[1, 1]], "MIRROR"),
        lambda: diagonal.matrix_diag_part(X, k=7),
        lambda: shapes.squeeze(X, 0),
        lambda: scatter.scatter_nd([[0]], [[1.0, 2.0]], [3]),
        lambda: creation.range(0, 3, 0),
    ],
)
def test_what_does_not_fit_is_a_value_error(call):
    with pytest.raises(ValueError, match=r"\.$"):
        call()


# Gradients at awkward points


def test_repeated_indices_add_up_when_read():
    x = constant([1.0, 2.0, 3.0])
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = x[[0, 0, 2]] * constant([1.0, 10.0, 100.0])

    assert tape.gradient(y, x).numpy().tolist() == [11.0, 0.0, 100.0]


def test_of_repeated_writes_the_last_gets_the_gradient():
    x, v = constant([1.0, 2.0]), constant([5.0, 6.0])
    with tapegrad.GradientTape() as tape:
        tape.watch([x, v])
        y = indexing.index_update(x, [0, 0], v) * constant([3.0, 4.0])

    dx, dv = tape.gradient(y, [x, v])
    assert dx.numpy().tolist() == [0.0, 4.0]
    assert dv.numpy().tolist() == [0.0, 3.0]


@pytest.mark.parametrize("function", [scatter.tensor_scatter_nd_max, scatter.tensor_scatter_nd_min])
def test_ties_of_scatter_max_and_min_share_equally(function):
    x, u = constant([1.0, 0.0]), constant([1.0, 1.0])
    with tapegrad.GradientTape() as tape:
        tape.watch([x, u])
        y = function(x, [[0], [0]], u)

    dx, du = tape.gradient(y, [x, u])
    np.testing.assert_allclose(dx.numpy(), [1 / 3, 1])
    np.testing.assert_allclose(du.numpy(), [1 / 3, 1 / 3])


def test_nan_next_to_a_written_place_does_not_spread():
    x = constant([np.nan, 2.0])
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = indexing.index_update(x, 0, 1.0)

    assert y.numpy().tolist() == [1.0, 2.0]
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 1.0]


def test_one_hot_and_shape_have_no_gradient():
    x = tapegrad.Variable([1.0, 2.0])
    with tapegrad.GradientTape(persistent=True) as tape:
        hot = creation.one_hot([1], 2, on_value=x[0])
        count = shapes.size(x)

    with pytest.warns(tapegrad.errors.TapeExitWarning, match="one_hot"):
        assert tape.gradient(hot, x) is None
    assert count.dtype == "int32"


def test_integers_are_gathered_and_scattered_exactly():
    big = np.array([2**53 + 1, 1], np.int64)

    total = scatter.scatter_nd([[0], [0]], constant(big), [1])

    assert total.numpy().tolist() == [2**53 + 2]


def test_small_integer_indices_do_not_overflow():
    x = constant(np.arange(300.0))

    assert float(x[constant(np.int8(-1))]) == 299.0
    assert x[constant(np.array([-1, -128], np.int8))].numpy().tolist() == [299.0, 172.0]
    assert x[constant(np.array([255], np.uint8))].numpy().tolist() == [255.0]


def test_an_index_array_changed_later_does_not_change_the_gradient():
    x, index = constant([1.0, 2.0]), np.array([0, 0])
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = x[index]
    index[:] = 1

    assert tape.gradient(y, x).numpy().tolist() == [2.0, 0.0]


def test_reading_a_large_scatter_in_pieces_gives_the_same(monkeypatch):
    kernels = pytest.importorskip("tapegrad_numpy.kernels.indexing")
    rng = np.random.default_rng(0)
    t, index = rng.normal(size=(3, 50, 7)), rng.integers(0, 9, 50)
    whole = kernels.take_add(t, index, axis=1, size=9)
    monkeypatch.setattr(kernels, "_CHUNK", 20)

    expected = np.zeros((3, 9, 7))
    np.add.at(expected, (slice(None), index), t)
    np.testing.assert_allclose(whole, expected)
    np.testing.assert_allclose(kernels.take_add(t, index, axis=1, size=9), expected)


# The generic kernels, which NumPy's own replace

INDEX = np.array([[2, 0], [2, 1]])
GENERIC = {
    "linear_index": ([INDEX - 3, INDEX], {"lengths": (3, 4), "axes": (0, 1), "name": "Indexing"}),
    "take": ([X, INDEX], {"axis": 1}),
    "gather_rows": ([X[0], INDEX], {}),
    "take_add": ([X[:, [0, 1, 1, 0]].reshape(2, 2, 2, 4), INDEX], {"axis": 1, "size": 3}),
    "added_rows": ([X, X[:, [0, 1, 1, 0]].reshape(2, 2, 2, 4), INDEX], {"axis": 1}),
    "take_set": ([X, X[:, [0, 1, 1, 0]].reshape(2, 2, 2, 4) - 50, INDEX], {"axis": 1}),
    "take_last": ([X, INDEX], {"axis": 1}),
    "take_extreme": ([X[0], X[0, ::-1], INDEX.reshape(-1)[:3]], {"largest": True}),
    "extreme_shares": ([X[0], X[0], np.array([0, 0, 2]), np.maximum(X[0], X[0, [0, 0, 2]])], {}),
    "one_hot": ([INDEX], {"depth": 3, "on": 5, "off": -1, "axis": 1, "dtype": np.dtype("float32")}),
}


@pytest.mark.parametrize("name", GENERIC)
def test_the_generic_kernel_agrees_with_numpys(name):
    strict = pytest.importorskip("tapegrad_strict")
    kernels = pytest.importorskip("tapegrad_numpy.kernels.indexing").KERNELS
    arrays, params = GENERIC[name]
    xp = strict.StrictBackend.xp

    results = PRIMITIVES[name].forward(xp, *[xp.asarray(array) for array in arrays], **params)

    expected = kernels[name](*arrays, **params)
    if not isinstance(expected, tuple):
        results, expected = (results,), (expected,)
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(strict.unpack(result), want)


# Dtypes


def test_range_follows_the_ends():
    assert creation.range(3).dtype == "int32"
    assert creation.range(0, 1.0, 0.25).dtype == "float32"
    assert creation.range(np.float64(1), 3).dtype == "float64"
    assert creation.range(3, dtype="int64").dtype == "int64"
    assert creation.range(5, 0, -2).numpy().tolist() == [5, 3, 1]


def test_numbers_in_lists_take_the_dtype_of_the_tensors_next_to_them():
    x = constant(np.float64(2.0))

    assert joining.stack([x, 1]).dtype == "float64"
    assert (constant([1.0, 2.0]) * [3, 4]).dtype == "float64"
    assert shapes.ravel([x, 1.0]).dtype == "float64"


def test_a_list_of_tensors_is_a_tensor_with_gradients():
    a, b = constant(2.0), constant(3.0)
    with tapegrad.GradientTape() as tape:
        tape.watch([a, b])
        y = constant([10.0, 100.0]) * [a, b * b]

    assert [float(g) for g in tape.gradient(y, [a, b])] == [10.0, 600.0]


def test_a_list_with_a_batched_value_stays_batched():
    result = vmap(lambda x: shapes.ravel([[x, 1.0]]))(constant([1.0, 2.0]))

    assert result.numpy().tolist() == [[1.0, 1.0], [2.0, 1.0]]


# Sparse gradients


def rows_of(table, *indices):
    """Gradient of the sum of squares of gathered rows."""
    with tapegrad.GradientTape() as tape:
        y = 0.0
        for index in indices:
            rows = gather.gather(table, index)
            y = y + reduce_sum(rows * rows)
    return tape.gradient(y, table)


TABLE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def test_gather_of_a_variable_gives_indexed_slices():
    grad = rows_of(tapegrad.Variable(TABLE), [[2, 0], [2, 2]])

    assert isinstance(grad, IndexedSlices)
    assert grad.indices.numpy().tolist() == [2, 0, 2, 2]
    assert grad.values.shape == (4, 2)
    np.testing.assert_allclose(grad.numpy(), [[2, 4], [0, 0], [30, 36]])


def test_several_gathers_are_joined_not_merged():
    grad = rows_of(tapegrad.Variable(TABLE), [0], [0, 1])

    assert sorted(grad.indices.numpy().tolist()) == [0, 0, 1]
    np.testing.assert_allclose(grad.numpy(), [[4, 8], [6, 8], [0, 0]])


def test_sparse_and_dense_gradients_add_to_a_dense_one():
    table = tapegrad.Variable(TABLE)
    with tapegrad.GradientTape() as tape:
        y = reduce_sum(gather.gather(table, [1, 1])) + reduce_sum(table * 3.0)

    grad = tape.gradient(y, table)
    assert isinstance(grad, tapegrad.constant(0.0).__class__)
    assert grad.numpy().tolist() == [[3, 3], [5, 5], [3, 3]]


@pytest.mark.parametrize(
    "read",
    [
        lambda v: gather.gather(v, [1, 1], axis=1),
        lambda v: v[[1, 1]],
        lambda v: gather.gather(v * 1.0, [1, 1]),
        lambda v: gather.gather_nd(v, [[1], [1]]),
    ],
)
def test_other_reads_give_dense_gradients(read):
    table = tapegrad.Variable(TABLE)
    with tapegrad.GradientTape() as tape:
        y = read(table)

    assert not isinstance(tape.gradient(y, table), IndexedSlices)


def test_indexed_slices_are_dense_wherever_one_is_needed():
    grad = rows_of(tapegrad.Variable(TABLE), [1])

    assert (grad * 2.0).numpy()[1].tolist() == [12.0, 16.0]
    assert np.sum(grad) == 14.0
    assert grad[1].numpy().tolist() == [6.0, 8.0]
    assert len(list(grad)) == 3
    with pytest.raises(TypeError, match="dense"):
        grad[0] = 1.0


def test_second_order_through_a_gather():
    table = tapegrad.Variable(TABLE)
    with tapegrad.GradientTape() as outer:
        with tapegrad.GradientTape() as inner:
            rows = gather.gather(table, [2, 2, 0])
            y = reduce_sum(rows * rows * rows)
        grad = inner.gradient(y, table)
        total = reduce_sum(grad * grad)

    assert isinstance(grad, IndexedSlices)
    d = np.array([[1.0], [0], [2]])  # how often each row was read
    expected = 2 * (d * 3 * TABLE**2) * (d * 6 * TABLE)
    np.testing.assert_allclose(outer.gradient(total, table).numpy(), expected)


def test_jacobian_through_a_gather_is_dense():
    table = tapegrad.Variable(TABLE)
    with tapegrad.GradientTape() as tape:
        y = gather.gather(table, [2, 0, 2]) * 3.0

    jacobian = tape.jacobian(y, table).numpy()
    expected = np.zeros((3, 2, 3, 2))
    for k, row in enumerate([2, 0, 2]):
        expected[k, [0, 1], row, [0, 1]] = 3
    np.testing.assert_allclose(jacobian, expected)


def test_jacobian_with_sparse_and_dense_parts():
    table = tapegrad.Variable([1.0, 2.0])
    with tapegrad.GradientTape() as tape:
        y = gather.gather(table, [0]) * table

    np.testing.assert_allclose(tape.jacobian(y, table).numpy(), [[2, 0], [2, 1]])


def test_gather_with_batch_dims_needs_equal_leading_axes():
    with pytest.raises(ShapeError, match="batch_dims=1"):
        gather.gather(constant(X), [[0], [1], [1]], batch_dims=1)


def test_dynamic_partition_checks_the_labels():
    with pytest.raises(ValueError, match="between 0 and 1"):
        slices_and_masks.dynamic_partition(constant([1.0, 2.0]), [0, 2], 2)
