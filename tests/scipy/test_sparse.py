from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as reference

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.scipy import sparse
from tapegrad.testing.sample import Sample, normal
from tests.scipy.on_devices import check_on_cpu, check_on_strict_device

RANDOM = np.random.default_rng(0)
FORMATS = ("coo", "csr", "csc")
each_format = pytest.mark.parametrize("form", FORMATS)


def ours(form, *args, **options):
    return getattr(sparse, f"{form}_array")(*args, **options)


def theirs(form, *args, **options):
    return getattr(reference, f"{form}_array")(*args, **options)


def dense(rows=4, columns=5, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, columns)) * (random.uniform(size=(rows, columns)) < 0.5)


def agree(found, wanted):
    found = found.toarray() if sparse.issparse(found) else found
    wanted = wanted.toarray() if reference.issparse(wanted) else np.asarray(wanted)

    assert tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-13)


@each_format
@pytest.mark.parametrize("other", FORMATS)
def test_arrays_of_scipy_come_in_by_their_parts_and_change_format(form, other):
    matrix = theirs(other, dense())

    found = ours(form, matrix)

    agree(found, matrix)
    assert found.nnz == matrix.nnz
    for name in FORMATS:
        changed, wanted = found.asformat(name), matrix.asformat(name)
        agree(changed, wanted)
        if name != "coo":
            wanted.sort_indices()
            assert changed.indices.numpy().tolist() == wanted.indices.tolist()
            assert changed.indptr.numpy().tolist() == wanted.indptr.tolist()
            agree(changed.data, wanted.data)


def test_the_ways_to_make_an_array():
    row, column, data = [1, 0, 1], [2, 1, 2], [1.0, 2.0, 3.0]

    for form in FORMATS:
        agree(
            ours(form, (data, (row, column)), shape=(3, 4)),
            theirs(form, (data, (row, column)), shape=(3, 4)),
        )
        agree(ours(form, (data, (row, column))), theirs(form, (data, (row, column))))
        agree(ours(form, (2, 3)), theirs(form, (2, 3)))
        agree(ours(form, dense()), dense())
        agree(ours(form, reference.dia_array(np.eye(3))), np.eye(3))
    for form in ("csr", "csc"):
        parts = (data, [2, 0, 1], [0, 1, 1, 3])
        agree(ours(form, parts), theirs(form, parts))
        agree(ours(form, parts, shape=(3, 3)), theirs(form, parts, shape=(3, 3)))
    assert ours("csr", dense(), dtype="float32").dtype == tf.float32


@each_format
def test_products_and_arithmetic(form):
    a, b, square = dense(), dense(seed=1), dense(5, 5, seed=2)
    x, y, wide, tall = (RANDOM.normal(size=s) for s in ((5,), (4,), (5, 3), (2, 4)))
    A, B, S = ours(form, a), ours(form, b), ours(form, square)

    agree(A @ x, a @ x)
    agree(A @ wide, a @ wide)
    agree(y @ A, y @ a)
    agree(tall @ A, tall @ a)
    agree(tf.constant(y) @ A, y @ a)
    agree(A.__rmatmul__(tf.constant(tall)), tall @ a)
    agree(A @ S, a @ square)
    agree(A.T @ B, a.T @ b)
    agree(A.dot(2.0), 2 * a)
    agree(A + B, a + b)
    agree(A + A, 2 * a)
    agree(A - B, a - b)
    agree(A + b, a + b)
    agree(b - A, b - a)
    agree(tf.constant(b) + A, b + a)
    agree(A * 2.0, 2 * a)
    agree(2.0 * A, 2 * a)
    agree(A / 2.0, a / 2)
    agree(-A, -a)
    agree(abs(A), abs(a))
    agree(A**2, a**2)
    agree((A + A.tocoo() * 2.0).power(2), (3 * a) ** 2)
    agree(A * B, a * b)
    agree(A.multiply(A), a * a)
    agree(A.multiply(b), a * b)
    agree(A.multiply(x), a * x)
    agree(A.multiply(y[:, None]), a * y[:, None])
    agree(A.T, a.T)
    agree(A.conj(), a)
    agree(A.copy().astype("float32").astype("float64"), a.astype(np.float32))


@each_format
def test_sums_and_diagonals(form):
    a = dense()
    A = ours(form, a)

    for axis in (None, 0, 1, -1):
        agree(A.sum(axis), a.sum(axis))
        agree(A.mean(axis), a.mean(axis))
    for k in (-5, -2, -1, 0, 1, 3, 6):
        agree(A.diagonal(k), np.diagonal(a, k) if -4 < k < 5 else np.zeros(0))
    agree(A.trace(), np.trace(a))


@each_format
def test_parts(form):
    a = dense()
    A = ours(form, a)

    agree(A[1, 2], a[1, 2])
    agree(A[-1, 0], a[-1, 0])
    agree(A[1:3], a[1:3])
    agree(A[::-1, 1:], a[::-1, 1:])
    agree(A[:, [4, 0, 4]], a[:, [4, 0, 4]])
    agree(A[[2, 2]][:, ::2], a[[2, 2]][:, ::2])
    agree(A[a[:, 0] != 0], a[a[:, 0] != 0])


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_arrays_of_another_library_stay_on_their_device():
    class Foreign:
        format, shape = "csr", (2, 3)

        def __init__(self):
            self.data = tf.constant([1.0, 2.0]).array
            self.indices = tf.constant([2, 0]).array
            self.indptr = tf.constant([0, 1, 2]).array

        def tocoo(self):
            raise AssertionError("the parts of a CSR array are enough")

    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"), strict.forbidding_reads():
            A = sparse.csr_array(Foreign())
            found = A.T @ tf.constant([1.0, 1.0])

        assert A.data.device == "strict:0"
        assert found.numpy().tolist() == [2.0, 0.0, 1.0]
    finally:
        unregister_backend("strict")


def test_entries_at_the_same_place_count_together():
    parts = ([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0]))
    A, wanted = sparse.coo_array(parts), reference.coo_array(parts).toarray()

    agree(A, wanted)
    agree(A @ [1.0, 1.0], wanted @ [1.0, 1.0])
    agree(A**2, wanted**2)
    agree(A.tocsr().multiply(A), wanted**2)
    assert A.sum_duplicates().nnz == 2


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_places_given_on_the_host_are_looked_at_for_any_device(form):
    parts = ([1.0, 2.0, 4.0], [0, 0, 1], [0, 2, 3])
    wanted = theirs(form, parts, shape=(2, 2)).toarray() ** 2
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            agree(ours(form, parts, shape=(2, 2)).power(2), wanted)
            with pytest.raises(ArgumentError, match="2 indices per line got indices from 0 to 2"):
                ours(form, ([1.0, 2.0], [0, 2], [0, 1, 2]), shape=(2, 2))
    finally:
        unregister_backend("strict")


def test_matrices_from_diagonals_and_blocks():
    for m, n, k in ((3, None, 0), (3, 4, 1), (4, 3, -2)):
        agree(sparse.eye_array(m, n, k=k), reference.eye_array(m, n, k=k))
    agree(sparse.diags([1.0, 2.0, 3.0], 1), reference.diags([1.0, 2.0, 3.0], 1))
    lines, offsets = [[1.0, 2.0], [3.0, 4.0, 5.0], [6.0]], [-1, 0, 2]
    agree(sparse.diags_array(lines, offsets=offsets), reference.diags_array(lines, offsets=offsets))
    agree(
        sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(4, 5), format="csr"),
        reference.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(4, 5)),
    )
    A, B = sparse.csr_array(dense()), sparse.coo_array(dense(seed=1))
    agree(sparse.vstack([A, B]), np.vstack([dense(), dense(seed=1)]))
    agree(sparse.hstack([A, B], format="csc"), np.hstack([dense(), dense(seed=1)]))
    agree(sparse.kron(A, B), np.kron(dense(), dense(seed=1)))


def test_tables_of_blocks_and_triangles():
    A, B, C = dense(), dense(seed=1), dense(3, 5, seed=2)
    table = [[A, None], [C, B[:3]]]

    agree(sparse.block_array(table), reference.block_array(table))
    agree(sparse.bmat(table, format="csr"), reference.block_array(table))
    agree(sparse.block_diag([A, C, B]), reference.block_diag([reference.coo_array(A), C, B]))
    agree(sparse.identity(3), np.eye(3))
    for k in (-2, 0, 1):
        agree(sparse.tril(A, k), np.tril(A, k))
        agree(sparse.triu(sparse.csr_array(A), k, format="csc"), np.triu(A, k))


def test_random_matrices():
    found = sparse.random_array((20, 30), density=0.1, format="csr", dtype="float32", rng=3)
    again = sparse.random_array((20, 30), density=0.1, rng=3)

    assert (found.nnz, found.dtype, found.shape, found.format) == (60, tf.float32, (20, 30), "csr")
    values = found.data.numpy()
    assert values.min() > 0
    assert values.max() < 1
    agree(again.tocsr().astype("float32"), found.toarray().numpy())
    assert again.count_nonzero() == 60


@each_format
def test_elements_that_are_zero(form):
    a = dense()
    data, places = np.append(a[a != 0], 0.0), np.nonzero(a)
    row, column = np.append(places[0], 3), np.append(places[1], 4)
    A = ours(form, (data, (row, column)), shape=(4, 5))

    assert A.nnz == A.eliminate_zeros().nnz + 1
    assert A.count_nonzero() == np.count_nonzero(a)
    agree(A.eliminate_zeros(), a)
    for found, wanted in zip(A.nonzero(), np.nonzero(a), strict=True):
        assert found.numpy().tolist() == wanted.tolist()


ROWS, COLUMNS = np.array([0, 0, 1, 3, 3, 3, 2]), np.array([1, 4, 0, 2, 3, 2, 4])


def matrix_of(data):
    return sparse.coo_array((data, (ROWS, COLUMNS)), shape=(4, 5))


SAMPLES = [
    Sample("times-vector", lambda d, x: matrix_of(d) @ x, [normal(7), normal(5)]),
    Sample("times-matrix", lambda d, x: matrix_of(d).tocsr() @ x, [normal(7), normal(5, 2)]),
    Sample(
        "from-the-left",
        lambda d, x: matrix_of(d).tocsc().__rmatmul__(x),
        [normal(7), normal(3, 4)],
    ),
    Sample("dense", lambda d: matrix_of(d).toarray(), [normal(7)]),
    Sample(
        "sum", lambda d, e: (matrix_of(d) + matrix_of(e).tocsr()).sum(0), [normal(7), normal(7)]
    ),
    Sample("multiply", lambda d, x: matrix_of(d).multiply(x).toarray(), [normal(7), normal(4, 5)]),
    Sample(
        "blocks",
        lambda d, e: sparse.block_array([[matrix_of(d), None], [None, matrix_of(e)]]).toarray(),
        [normal(7), normal(7)],
    ),
    Sample("diagonal", lambda d: matrix_of(d).diagonal(1), [normal(7)]),
    Sample(
        "diags",
        lambda a, b: sparse.diags([a, b], [0, 1]).toarray(),
        [normal(4), normal(3)],
    ),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_derivatives_batches_and_recordings(sample):
    check_on_cpu(sample)


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_nothing_is_read_back_from_a_device(sample):
    check_on_strict_device(sample)


def test_gradients_of_a_product_of_two_sparse_arrays():
    data = tf.constant(RANDOM.normal(size=7))

    with tf.GradientTape() as tape:
        tape.watch(data)
        A = matrix_of(data)
        y = (A @ A.T).toarray()
    found = tape.gradient(y, data)

    with tf.GradientTape() as tape:
        tape.watch(data)
        a = matrix_of(data).toarray()
        y = a @ tf.transpose(a)
    np.testing.assert_allclose(found.numpy(), tape.gradient(y, data).numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: sparse.coo_array(np.ones(3)), ShapeError, "must be a matrix"),
        (lambda: sparse.coo_array(np.ones((2, 2)), shape=(2, 3)), ShapeError, "does not match"),
        (lambda: sparse.coo_array(([1.0], ([0, 1], [0, 1]))), ShapeError, "as many entries"),
        (lambda: sparse.coo_array(([1.0], ([0.5], [0]))), ArgumentTypeError, "must be integers"),
        (
            lambda: sparse.coo_array(([1.0], ([3], [0])), shape=(2, 2)),
            ArgumentError,
            "2 rows got indices from 3 to 3",
        ),
        (
            lambda: sparse.csr_array(([1.0], [0], [0, 1]), shape=(2, 2)),
            ShapeError,
            "one more element",
        ),
        (lambda: sparse.coo_array((2, 2)) @ np.ones(3), ShapeError, "cannot be multiplied"),
        (lambda: sparse.coo_array((2, 2)) @ sparse.coo_array((3, 2)), ShapeError, "multiplied"),
        (lambda: sparse.coo_array((2, 2)) + sparse.coo_array((3, 2)), ShapeError, "be added"),
        (lambda: sparse.coo_array((2, 2)).multiply(np.ones(3)), ShapeError, "elementwise"),
        (lambda: sparse.coo_array((2, 2)) ** 0, ArgumentError, "powers above 0"),
        (lambda: sparse.coo_array((2, 2)).sum(2), ArgumentError, "axes 0 and 1"),
        (lambda: sparse.coo_array((2, 2)).asformat("dia"), ArgumentError, "Got 'dia'"),
        (lambda: sparse.coo_array((2, 2))[1], ArgumentTypeError, "by a slice, 1:2"),
        (lambda: sparse.coo_array((2, 2))[2, 0], IndexError, "Index 2 is out of range"),
        (lambda: sparse.coo_array((2, 2))[[2]], IndexError, "out of range for length 2"),
        (lambda: sparse.coo_array((2, 2))[..., 0], ArgumentError, "one or two indices"),
        (lambda: sparse.diags([[1.0], [2.0]], [0, 0]), ArgumentError, "distinct offset"),
        (lambda: sparse.diags([[1.0, 2.0]], [0], shape=(3, 3)), ShapeError, "has 3 elements"),
        (lambda: sparse.block_array([[None, np.eye(2)]]), ShapeError, "a block in each row"),
        (lambda: sparse.block_array([[np.eye(2)], []]), ShapeError, "as many blocks"),
        (lambda: sparse.random_array((2, 2), density=2), ArgumentError, "between 0 and 1"),
        (lambda: sparse.vstack([np.ones((1, 2)), np.ones((1, 3))]), ShapeError, "matching shape"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(call, error, words):
    with pytest.raises(error, match=words):
        call()
