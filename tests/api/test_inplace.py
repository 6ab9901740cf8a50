"""Writes into tensors and variables are recorded, and do not change other values."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad
from tapegrad.autodiff.batching import vmap
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.ops.control.stop_gradient import identity
from tapegrad.ops.reduction.primitives import sum as reduce_sum


def constant(*values):
    return tapegrad.constant(np.array(values))


def test_a_write_is_recorded():
    x, v = constant(1.0, 2.0, 3.0), constant(7.0)
    with tapegrad.GradientTape() as tape:
        tape.watch([x, v])
        y = x * x
        y[1:] = v * 10.0
        total = reduce_sum(y * constant(1.0, 2.0, 3.0))

    assert y.numpy().tolist() == [1.0, 70.0, 70.0]
    dx, dv = tape.gradient(total, [x, v])
    assert dx.numpy().tolist() == [2.0, 0.0, 0.0]
    assert dv.numpy().tolist() == [50.0]


def test_values_recorded_before_a_write_keep_theirs():
    x = constant(2.0, 3.0)
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = x * 1.0
        z = y * y
        y[0] = 100.0

    assert tape.gradient(z, x).numpy().tolist() == [4.0, 6.0]


def test_second_order_through_a_write():
    x = constant(2.0, 3.0)
    with tapegrad.GradientTape() as outer:
        outer.watch(x)
        with tapegrad.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
            y[0] = x[1] * x[1] * x[1]
        first = inner.gradient(y, x)

    assert first.numpy().tolist() == [0.0, 54.0]
    assert outer.gradient(first, x).numpy().tolist() == [0.0, 36.0]


def test_the_array_that_made_a_tensor_does_not_change():
    source = np.array([1.0, 2.0])
    x = tapegrad.constant(source)
    x[0] = 9.0

    assert source.tolist() == [1.0, 2.0]
    assert x.numpy().tolist() == [9.0, 2.0]


def test_a_slice_sees_a_write_to_its_tensor():
    x = constant(1.0, 2.0)
    part = x[:1]
    x[0] = 9.0

    assert part.numpy().tolist() == [9.0]


def test_an_element_is_a_number_and_keeps_its_value():
    x = constant(1.0, 2.0)
    first = x[0]
    x[0] = 9.0
    first += 1.0

    assert first.numpy() == 2.0
    assert x.numpy().tolist() == [9.0, 2.0]


def test_a_write_through_slices_of_slices_reaches_the_tensor():
    x = tapegrad.constant(np.ones((2, 3)))
    x[1][1:][0] = 5.0

    assert x.numpy().tolist() == [[1.0, 1.0, 1.0], [1.0, 5.0, 1.0]]


def test_a_slice_of_a_slice_of_a_variable_cannot_be_written():
    v = tapegrad.Variable([[[1.0, 2.0]]])

    with pytest.raises(ValueError, match="copy of a slice of a Variable"):
        v[0][0][1] = 3.0


def test_augmented_assignment_to_a_slice_of_a_variable_makes_a_new_tensor():
    v = tapegrad.Variable([[1.0, 2.0]])
    row = v[0]
    part = row[:]
    row += 1.0
    part += 1.0

    assert row.numpy().tolist() == part.numpy().tolist() == [2.0, 3.0]
    assert v.numpy().tolist() == [[1.0, 2.0]]


def test_rows_are_written_in_a_loop():
    x = constant(1.0, 2.0, 3.0, 4.0)
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = tapegrad.numpy.reshape(x * 1.0, (2, 2))
        for row in y:
            row *= row
        total = reduce_sum(y)

    assert y.numpy().tolist() == [[1.0, 4.0], [9.0, 16.0]]
    assert tape.gradient(total, x).numpy().tolist() == [2.0, 4.0, 6.0, 8.0]


def test_rows_that_a_loop_has_not_reached_see_its_writes():
    x = tapegrad.Variable([[1.0], [2.0], [3.0]])
    with tapegrad.GradientTape() as tape:
        y = x * 1.0
        seen = []
        for row in y:
            seen.append(row)
            y[2] = 10.0 * x[0]
        total = reduce_sum(seen[2])

    assert total.numpy() == 10.0
    assert tape.gradient(total, x).numpy().tolist() == [[10.0], [0.0], [0.0]]


def test_values_that_a_tape_saved_survive_writes_through_views():
    x = constant(2.0, 3.0)
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = x * 1.0
        z = y * y
        part = y[:1]
        part += 100.0

    assert y.numpy().tolist() == [102.0, 3.0]
    assert tape.gradient(z, x).numpy().tolist() == [4.0, 6.0]


def test_a_write_that_is_refused_changes_nothing():
    x = constant(1.0, 2.0)
    part = x[:1]
    n = tapegrad.constant([[1, 2]])
    ints = n[0]

    with pytest.raises(ValueError, match="shape"):
        part += [1.0, 2.0, 3.0]
    with pytest.raises(TypeError, match="float64 values into a tensor of int32"):
        ints += 0.5

    assert x.numpy().tolist() == [1.0, 2.0]
    assert n.numpy().tolist() == [[1, 2]]


def test_numpy_copies_are_snapshots():
    x = constant(1.0, 2.0)
    before = x.numpy(), np.asarray(x), x[:1].numpy()
    x[:1] += 5.0

    assert [array.tolist() for array in before] == [[1.0, 2.0], [1.0, 2.0], [1.0]]


def test_many_views_that_nobody_holds_do_not_accumulate():
    x = tapegrad.constant(np.zeros((100, 2)))
    for _ in range(50):
        for row in x:
            row += 1.0

    assert x.numpy().tolist() == [[50.0, 50.0]] * 100
    assert len(x.views) < 100


def test_a_slice_whose_source_is_gone_or_a_copy_can_be_written():
    alone = constant(1.0, 2.0, 3.0)[1:]
    alone[0] = 9.0
    x = constant(1.0, 2.0)
    copy = identity(x[:])
    copy[0] = 9.0

    assert alone.numpy().tolist() == [9.0, 3.0]
    assert x.numpy().tolist() == [1.0, 2.0]


def test_a_broadcast_view_is_not_written_through():
    from tapegrad.ops.shape.functions import broadcast_to

    x = constant(1.0)
    y = broadcast_to(x, (3,))
    y[1] = 5.0

    assert y.numpy().tolist() == [1.0, 5.0, 1.0]
    assert x.numpy().tolist() == [1.0]


def test_integers_and_truth_values_can_be_written():
    n = tapegrad.constant([1, 2, 3])
    n[n > 1] = 0
    b = tapegrad.constant([True, True])
    b[0] = False

    assert n.numpy().tolist() == [1, 0, 0]
    assert n.dtype == "int32"
    assert b.numpy().tolist() == [False, True]


def test_a_value_that_would_lose_something_is_refused():
    with pytest.raises(TypeError, match="float32 values into a tensor of int32"):
        tapegrad.constant([1, 2])[0] = 0.5


def test_a_value_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3,\) to a selection of shape \(2,\)"):
        constant(1.0, 2.0)[:] = [1.0, 2.0, 3.0]


def test_augmented_assignment_makes_a_new_tensor():
    x = y = constant(1.0, 2.0)
    y += 1.0

    assert x.numpy().tolist() == [1.0, 2.0]
    assert y.numpy().tolist() == [2.0, 3.0]


def test_augmented_assignment_to_a_place_is_recorded():
    x = constant(2.0, 3.0)
    with tapegrad.GradientTape() as tape:
        tape.watch(x)
        y = x * 1.0
        y[0] *= y[1]

    assert y.numpy().tolist() == [6.0, 3.0]
    assert tape.gradient(y, x).numpy().tolist() == [3.0, 3.0]


def test_writes_inside_vmap():
    def f(x):
        y = x * 1.0
        y[0] = x[1]
        return y

    assert vmap(f)(tapegrad.constant([[1.0, 2.0], [3.0, 4.0]])).numpy().tolist() == [
        [2.0, 2.0],
        [4.0, 4.0],
    ]


def test_a_shared_tensor_cannot_take_what_differs_between_examples():
    shared = constant(1.0, 2.0)

    def f(v):
        shared[0] = v
        return shared

    with pytest.raises(TypeError, match="index_update"):
        vmap(f)(constant(1.0, 2.0))


# Variables


def test_a_part_of_a_variable_can_be_assigned():
    v = tapegrad.Variable([[1.0, 2.0], [3.0, 4.0]])
    before = v.value()

    assert v[0].assign([9.0, 8.0]) is v
    v[1, 0].assign_add(1.0)
    v[:, 1].assign_sub(1.0)
    v[1, 1] = 0.0

    assert v.numpy().tolist() == [[9.0, 7.0], [4.0, 0.0]]
    assert before.numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_part_of_a_variable_is_a_tensor_with_a_gradient():
    v = tapegrad.Variable([1.0, 2.0, 3.0])
    with tapegrad.GradientTape() as tape:
        y = v[1:] * v[1:]

    assert isinstance(v[0], tapegrad.constant(0.0).__class__)
    assert tape.gradient(y, v).numpy().tolist() == [0.0, 4.0, 6.0]


def test_assigning_is_not_differentiated():
    v = tapegrad.Variable([1.0, 2.0])
    x = tapegrad.constant(5.0)
    with tapegrad.GradientTape(persistent=True) as tape:
        tape.watch(x)
        before = v[0] * 2.0
        v[0] = x * 3.0
        after = v * 2.0

    assert tape.gradient(after, x) is None
    assert tape.gradient(before, v).numpy().tolist() == [2.0, 0.0]
    assert v.numpy().tolist() == [15.0, 2.0]


def test_writing_into_a_part_of_a_variable_names_the_remedy():
    v = tapegrad.Variable([[1.0, 2.0]])

    with pytest.raises(ValueError, match=r"`v\[0, 1\] = x`"):
        v[0][1] = 3.0


def test_assign_checks_the_dtype():
    v = tapegrad.Variable([1.0, 2.0])

    with pytest.raises(TypeError, match=r"expects float32\. Got float64"):
        v[0].assign(constant(1.0)[0])


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("scatter_update", [1.0, 6.0, 4.0]),
        ("scatter_add", [1.0, 13.0, 7.0]),
        ("scatter_sub", [1.0, -9.0, -1.0]),
        ("scatter_mul", [1.0, 60.0, 12.0]),
        ("scatter_min", [1.0, 2.0, 3.0]),
        ("scatter_max", [1.0, 6.0, 4.0]),
    ],
)
def test_scatter_of_rows(method, expected):
    v = tapegrad.Variable([1.0, 2.0, 3.0])
    rows = IndexedSlices(tapegrad.constant([5.0, 6.0, 4.0]), tapegrad.constant([1, 1, 2]), (3,))

    assert getattr(v, method)(rows) is v
    assert v.numpy().tolist() == expected


def test_scatter_by_coordinates():
    v = tapegrad.Variable([[1.0, 2.0], [3.0, 4.0]])
    v.scatter_nd_add([[0, 1]], [10.0])
    v.scatter_nd_sub([[1]], [[1.0, 1.0]])
    v.scatter_nd_update([[0, 0]], [0.0])

    assert v.numpy().tolist() == [[0.0, 12.0], [2.0, 3.0]]
    assert v.gather_nd([[1, 1]]).numpy().tolist() == [3.0]


def test_sparse_read_has_a_sparse_gradient():
    v = tapegrad.Variable([1.0, 2.0, 3.0])
    with tapegrad.GradientTape() as tape:
        y = v.sparse_read([2, 2])

    assert isinstance(tape.gradient(y, v), IndexedSlices)


def write_to_argument(x):
    x[1:] *= 3.0
    y = x[:1]
    y += x[1:2]
    return reduce_sum(x * x)


EXPECTED_GRADIENT, EXPECTED_HESSIAN = [14.0, 78.0, 36.0], [[2, 6, 0], [6, 36, 0], [0, 0, 18]]


@pytest.mark.parametrize(
    "gradient",
    [
        tapegrad.grad,
        lambda f: lambda x: tapegrad.grad(f, (0,))(x)[0],
        lambda f: lambda x: tapegrad.value_and_grad(f)(x)[1],
        lambda f: lambda x: tapegrad.vjp(f, x)[1](tapegrad.constant(1.0, "float64")),
        lambda f: tapegrad.jacobian(f, mode="reverse"),
        lambda f: tapegrad.jacobian(f, mode="forward"),
        lambda f: tapegrad.jacobian(f),
        lambda f: lambda x: tapegrad.vmap(tapegrad.grad(f))(x[None])[0],
        lambda f: tapegrad.grad(tapegrad.function(f)),
        lambda f: lambda x: tapegrad.grad(lambda parts: f(parts["x"]))({"x": x})["x"],
    ],
)
def test_transforms_differentiate_by_the_argument_before_it_is_written(gradient):
    x = constant(1.0, 2.0, 2.0)

    assert gradient(write_to_argument)(x).numpy().tolist() == EXPECTED_GRADIENT
    assert x.numpy().tolist() == [1.0, 2.0, 2.0]


def test_second_derivatives_by_an_argument_that_is_written():
    x = constant(1.0, 2.0, 2.0)

    assert tapegrad.hessian(write_to_argument)(x).numpy().tolist() == EXPECTED_HESSIAN
    for column, direction in zip(EXPECTED_HESSIAN, np.eye(3), strict=True):
        found = tapegrad.hvp(write_to_argument, x, tapegrad.constant(direction))
        assert found.numpy().tolist() == column
