"""Jacobians and batch jacobians of tapes."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.extend import PRIMITIVES, Primitive


@pytest.fixture
def x():
    return tf.constant([1.0, 2.0, 3.0])


@pytest.fixture
def batch():
    return tf.constant(np.arange(1.0, 7.0).reshape(3, 2))


def record(function, *inputs, persistent=False):
    """Run a function on watched inputs; return the tape and the result."""
    with tf.GradientTape(persistent=persistent) as tape:
        tape.watch(list(inputs))
        result = function(*inputs)
    return tape, result


def test_J1_rows_are_targets_and_columns_sources(x):
    tape, y = record(lambda x: tf.reshape(x, (3, 1)) * tf.constant([[1.0, 10.0]]), x)

    jacobian = tape.jacobian(y, x)

    assert jacobian.shape == (3, 2, 3)
    assert jacobian.numpy()[1].tolist() == [[0.0, 1.0, 0.0], [0.0, 10.0, 0.0]]


@pytest.mark.parametrize("target", [(), (2,), (2, 3)])
@pytest.mark.parametrize("source", [(), (2,), (4, 1)])
def test_J1_the_shape_is_that_of_the_target_and_then_of_the_source(target, source):
    x = tf.constant(np.ones(source))
    tape, y = record(lambda x: tf.broadcast_to(tf.reduce_sum(x), target) * 2.0, x)

    jacobian = tape.jacobian(y, x)

    assert jacobian.shape == (*target, *source)
    assert (jacobian.numpy() == 2.0).all()


def test_J1_sources_may_be_any_nest(x):
    w = tf.constant(2.0)
    tape, y = record(lambda x, w: x * w, x, w)

    jacobians = tape.jacobian(y, {"x": [x], "w": w})

    assert jacobians["x"][0].numpy().tolist() == (2.0 * np.eye(3)).tolist()
    assert jacobians["w"].numpy().tolist() == [1.0, 2.0, 3.0]


def test_J1_targets_may_be_a_nest_too(x):
    tape, y = record(lambda x: [x * 2.0, tf.reduce_sum(x)], x)

    first, second = tape.jacobian(y, x)

    assert first.shape == (3, 3)
    assert second.numpy().tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("target", [3.0, None, np.ones(2)], ids=["float", "None", "ndarray"])
def test_J1_other_targets_are_refused_by_type(x, target):
    tape, _ = record(lambda x: x * 2.0, x)

    with pytest.raises(TypeError, match=f"target.*{type(target).__name__}"):
        tape.jacobian(target, x)


def test_J2_an_unconnected_source_gives_none(x):
    tape, y = record(lambda x: x * 2.0, x)

    assert tape.jacobian(y, tf.constant(1.0)) is None


def test_J2_or_zeros(x):
    tape, y = record(lambda x: x * 2.0, x)

    jacobian = tape.jacobian(y, tf.constant([1.0, 2.0]), unconnected_gradients="zero")

    assert jacobian.numpy().tolist() == np.zeros((3, 2)).tolist()


@pytest.mark.filterwarnings("ignore:Calling gradient")
@pytest.mark.parametrize("persistent", [False, True])
def test_J3_a_jacobian_inside_the_block(x, persistent):
    with tf.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y = x * x
        jacobian = tape.jacobian(y, x)

    assert jacobian.numpy().tolist() == np.diag([2.0, 4.0, 6.0]).tolist()


def test_J3_a_non_persistent_tape_is_used_up(x):
    tape, y = record(lambda x: x * x, x)
    tape.jacobian(y, x)

    with pytest.raises(RuntimeError, match="A non-persistent GradientTape can only"):
        tape.jacobian(y, x)


def test_J4_without_pfor_a_persistent_tape_is_asked_for(x):
    tape, y = record(lambda x: x * x, x)

    with pytest.raises(RuntimeError, match="persistent"):
        tape.jacobian(y, x, experimental_use_pfor=False)


def test_J4_with_one_it_works(x):
    tape, y = record(lambda x: x * x, x, persistent=True)

    jacobian = tape.jacobian(y, x, experimental_use_pfor=False)

    assert jacobian.numpy().tolist() == np.diag([2.0, 4.0, 6.0]).tolist()


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize("argument", ["parallel_iterations", "chunk_size"])
def test_J5_the_number_of_rows_at_a_time_does_not_change_the_result(x, argument, rows):
    tape, y = record(lambda x: x * x, x)

    jacobian = tape.jacobian(y, x, **{argument: rows})

    assert jacobian.numpy().tolist() == np.diag([2.0, 4.0, 6.0]).tolist()


@pytest.mark.parametrize("rows", [0, -1, 2.5, "2"])
@pytest.mark.parametrize("argument", ["parallel_iterations", "chunk_size"])
def test_J5_other_numbers_of_rows_are_refused(x, argument, rows):
    tape, y = record(lambda x: x * x, x)

    with pytest.raises(ValueError, match=f"{argument} must be a positive integer. Got {rows!r}"):
        tape.jacobian(y, x, **{argument: rows})


def test_J6_an_operation_without_batching_rule_is_looped_over(x):
    double = Primitive("double_without_batching", lambda xp, a: a * 2.0)
    double.vjps(lambda t: double(t))
    tape, y = record(double, x)
    jacobian = tape.jacobian(y, x)
    del PRIMITIVES["double_without_batching"]

    assert jacobian.numpy().tolist() == (2.0 * np.eye(3)).tolist()


def test_J7_sparse_rows_are_made_dense():
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        y = tf.gather(table, [1])

    jacobian = tape.jacobian(y, table)

    assert jacobian.shape == (1, 2, 2, 2)
    assert jacobian.numpy()[0, 0].tolist() == [[0.0, 0.0], [1.0, 0.0]]


@pytest.mark.parametrize("pfor", [True, False])
def test_J8_an_empty_target_gives_an_empty_jacobian(pfor):
    x = tf.constant(np.ones((0, 2)))
    tape, y = record(lambda x: x * x, x, persistent=True)

    jacobian = tape.jacobian(y, x, experimental_use_pfor=pfor)

    assert jacobian.shape == (0, 2, 0, 2)


def test_J8_an_empty_target_of_a_filled_source():
    x = tf.constant(np.ones(3))
    tape, y = record(lambda x: tf.reshape(x, (3, 1)) * tf.constant(np.ones((1, 0))), x)

    assert tape.jacobian(y, x).shape == (3, 0, 3)


def test_J9_a_jacobian_has_no_fixed_cost(x):
    tape, y = record(lambda x: x * x, x, persistent=True)
    times = []
    for _ in range(5):
        start = time.process_time()
        tape.jacobian(y, x)
        times.append(time.process_time() - start)

    assert min(times) < 0.05  # TensorFlow: 0.1 s and more


def test_J10_the_jacobian_of_a_gradient_is_the_hessian(x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        inner, y = record(lambda x: tf.reduce_sum(x * x * x), x)
        first = inner.gradient(y, x)

    assert outer.jacobian(first, x).numpy().tolist() == np.diag([6.0, 12.0, 18.0]).tolist()


def test_J10_the_jacobian_of_a_jacobian(x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        inner, y = record(lambda x: x * x * x, x)
        first = inner.jacobian(y, x)
    second = outer.jacobian(first, x)

    expected = np.zeros((3, 3, 3))
    expected[np.arange(3), np.arange(3), np.arange(3)] = [6.0, 12.0, 18.0]
    assert second.numpy().tolist() == expected.tolist()


def test_J10_the_tape_has_a_hessian_of_its_own(x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x * x)

    assert tape.hessian(y, x).numpy().tolist() == np.diag([6.0, 12.0, 18.0]).tolist()


def test_B1_the_result_has_one_jacobian_per_example(batch):
    tape, y = record(lambda x: x * x, batch)

    jacobian = tape.batch_jacobian(y, batch)

    assert jacobian.shape == (3, 2, 2)
    assert jacobian.numpy()[2].tolist() == [[10.0, 0.0], [0.0, 12.0]]


def test_B1_the_axes_of_the_target_come_first():
    x = tf.constant(np.ones((4, 3)))
    w = tf.constant(np.arange(6.0).reshape(3, 2))
    tape, y = record(lambda x: tf.matmul(x, w), x)

    jacobian = tape.batch_jacobian(y, x)

    assert jacobian.shape == (4, 2, 3)
    assert jacobian.numpy()[0].tolist() == w.numpy().T.tolist()


def test_B1_it_agrees_with_the_full_jacobian(batch):
    tape, y = record(lambda x: tf.reshape(x * x, (3, 2, 1)) * x[:, None], batch, persistent=True)

    full = tape.jacobian(y, batch).numpy()

    expected = np.stack([full[k, :, :, k] for k in range(3)])
    np.testing.assert_allclose(tape.batch_jacobian(y, batch).numpy(), expected)


@pytest.mark.parametrize(("which", "rank"), [("target", 1), ("source", 1)])
def test_B1_both_sides_need_a_batch_axis(batch, which, rank):
    flat = tf.constant([1.0, 2.0, 3.0])
    tape, y = record(lambda x: x * x, batch)
    arguments = {"target": y, "source": batch, which: flat}

    with pytest.raises(ValueError, match=f"{which} of rank at least 2"):
        tape.batch_jacobian(**arguments)


def test_B1_the_batch_sizes_must_agree(batch):
    tape, y = record(lambda x: x[:2] * 2.0, batch)

    with pytest.raises(ValueError, match=r"same first dimension. Got 2 and 3"):
        tape.batch_jacobian(y, batch)


@pytest.mark.parametrize("source", [None, [1.0]], ids=["None", "list"])
def test_B1_other_sources_are_refused_by_type(batch, source):
    tape, y = record(lambda x: x * x, batch)

    with pytest.raises(TypeError, match=f"source.*{type(source).__name__}"):
        tape.batch_jacobian(y, source)


@pytest.mark.parametrize("mode", ["none", "zero"])
def test_B2_an_unconnected_source_always_gives_zeros(batch, mode):
    tape, y = record(lambda x: x * x, batch)
    other = tf.constant(np.ones((3, 4), "float32"))

    jacobian = tape.batch_jacobian(y, other, unconnected_gradients=mode)

    assert jacobian.shape == (3, 2, 4)
    assert jacobian.dtype == y.dtype
    assert not jacobian.numpy().any()


def coupled(x):
    return x - tf.reduce_mean(x, 0)


def test_B3_coupled_examples_give_column_sums(batch):
    tape, y = record(coupled, batch)

    np.testing.assert_allclose(tape.batch_jacobian(y, batch).numpy(), 0.0, atol=1e-12)


def test_B3_coupled_examples_are_found_on_request(batch):
    tape, y = record(coupled, batch)

    with pytest.raises(ValueError, match=r"independent examples.*Use jacobian"):
        tape.batch_jacobian(y, batch, check_independence=True)


def test_B3_independent_examples_pass_the_check(batch):
    tape, y = record(lambda x: x * x, batch)

    assert tape.batch_jacobian(y, batch, check_independence=True).shape == (3, 2, 2)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_B4_chunks_work_on_a_non_persistent_tape(batch, rows):
    tape, y = record(lambda x: x * x, batch)

    jacobian = tape.batch_jacobian(y, batch, parallel_iterations=rows)

    assert jacobian.numpy()[0].tolist() == [[2.0, 0.0], [0.0, 4.0]]


@pytest.mark.parametrize("shape", [(3, 0), (0, 2), (0, 0)])
def test_B5_empty_examples_and_batches_give_empty_results(shape):
    x = tf.constant(np.ones(shape))
    tape, y = record(lambda x: x * x, x)

    assert tape.batch_jacobian(y, x).shape == (*shape, shape[1])


def test_B6_a_used_tape_is_reported_before_shapes(batch):
    tape, y = record(lambda x: x * x, batch)
    tape.gradient(y, batch)

    with pytest.raises(RuntimeError, match="A non-persistent"):
        tape.batch_jacobian(tf.constant(1.0), batch)
