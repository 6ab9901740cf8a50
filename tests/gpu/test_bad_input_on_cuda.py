"""Invalid input on the GPU: indices out of range, dtypes, captures and deferred reads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.backend.registry import get_backend
from tapegrad.demo import digits

cupy = pytest.importorskip("cupy")

MIXED = {
    "add": lambda a, b: a + b,
    "matmul": lambda a, b: tf.reshape(a, (1, 2)) @ tf.reshape(b, (2, 1)),
    "concat": lambda a, b: tf.concat([a, b], 0),
    "where": lambda a, b: tf.where(a > 0.0, a, b),
    "take": lambda a, b: a[tf.cast(b, "int64")],
}


@pytest.fixture(autouse=True)
def on_the_gpu():
    with tf.device("cuda:0"):
        yield


@pytest.mark.parametrize("name", MIXED)
def test_two_devices_in_one_operation_are_both_named(name) -> None:
    a = tf.constant([1.0, 0.0])
    b = tf.to_device(a, "cpu")

    with pytest.raises(tf.errors.DeviceError, match=f"^{name}.* got tensors on ") as caught:
        MIXED[name](a, b)

    assert "cuda:0" in str(caught.value)
    assert "cpu" in str(caught.value)


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.longdouble])
def test_dtypes_that_no_tensor_has_are_refused(kind) -> None:
    value = np.ones(2).astype(kind)

    for make in (tf.constant, tf.convert_to_tensor, tf.Variable):
        with pytest.raises(tf.errors.DTypeError, match="cast it first"):
            make(value)
    with pytest.raises(tf.errors.DTypeError, match="Tensors hold values of"):
        tf.cast(tf.constant([1.0]), kind)


# Indices. Without a check, distant ones would access unrelated memory.

WRONG = [7, -8, 10**6, -(10**9), 2**40, -(2**62)]
TABLE = np.arange(1.0, 22.0, dtype=np.float32).reshape(7, 3)


@pytest.mark.parametrize("wrong", WRONG)
def test_reading_out_of_range_gives_zeros(wrong) -> None:
    x, index = tf.constant(TABLE), tf.constant(np.array([1, wrong, -1]))
    expected = TABLE[[1, 0, 6]]
    expected[1] = 0.0
    columns = tf.constant(np.array([[2, wrong]] * 7))

    results = {
        "gather": tf.gather(x, index),
        "embedding": tf.nn.embedding_lookup(tf.Variable(x), index),
        "item": x[index],
        "take": np.take(x, index, axis=0),
        "strided": tf.transpose(tf.gather(tf.transpose(x), index, axis=1)),
        "nd": tf.gather_nd(x, tf.reshape(index, (3, 1))),
    }

    for name, result in results.items():
        np.testing.assert_array_equal(result.numpy(), expected, err_msg=name)
    along = np.take_along_axis(x, columns, 1).numpy()
    np.testing.assert_array_equal(along, np.stack([TABLE[:, 2], 0 * TABLE[:, 0]], 1))


@pytest.mark.parametrize("wrong", WRONG)
def test_an_index_out_of_range_is_not_one_of_the_next_row_or_example(wrong) -> None:
    x = tf.constant(TABLE)
    rows, columns = tf.constant(np.array([3, 3])), tf.constant(np.array([wrong, 1]))
    batch = tf.constant(np.stack([TABLE, TABLE + 100.0]))
    index = tf.constant(np.array([[0, wrong], [wrong, 6]]))

    picked = x[rows, columns].numpy()
    batched = tf.gather(batch, index, batch_dims=1).numpy()
    mapped = tf.vmap(tf.gather)(batch, index).numpy()

    assert picked.tolist() == [0.0, TABLE[3, 1]]
    for result in (batched, mapped):
        np.testing.assert_array_equal(result[0], [TABLE[0], [0, 0, 0]])
        np.testing.assert_array_equal(result[1], [[0, 0, 0], TABLE[6] + 100.0])


@pytest.mark.parametrize("wrong", WRONG)
def test_writing_out_of_range_is_dropped_and_so_is_its_gradient(wrong) -> None:
    x, index = tf.constant(TABLE), tf.constant(np.array([1, wrong]))
    v = tf.ones([2, 3])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, v])
        added = tf.tensor_scatter_nd_add(x, tf.reshape(index, (2, 1)), v)
        written = tf.tensor_scatter_nd_update(x, tf.reshape(index, (2, 1)), v)
        taken = tf.gather(x, index)

    expected = TABLE.copy()
    expected[1] += 1.0
    np.testing.assert_array_equal(added.numpy(), expected)
    expected[1] = 1.0
    np.testing.assert_array_equal(written.numpy(), expected)
    for result in (added, written):
        assert tape.gradient(result, v).numpy().tolist() == [[1.0] * 3, [0.0] * 3]
    assert float(tf.reduce_sum(tape.gradient(taken, x))) == 3.0


def test_a_sparse_step_moves_no_foreign_row() -> None:
    for optimizer in (tf.optimizers.SGD(1.0), tf.optimizers.Adagrad(1.0), tf.optimizers.Adam(1.0)):
        v = tf.Variable(TABLE)
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(v, tf.constant(np.array([2, 10**6, -(10**6)]))))
        optimizer.apply_gradients([(tape.gradient(y, v), v)])

        moved = (v.numpy() != TABLE).any(axis=1)

        assert moved.tolist() == [False, False, True, False, False, False, False]


def test_labels_and_segments_out_of_range() -> None:
    labels, data = tf.constant([0, 7]), tf.constant([1.0, 2.0])

    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.zeros([2, 3]))

    assert np.isnan(loss.numpy()).tolist() == [False, True]
    assert tf.math.unsorted_segment_sum(data, labels, 2).numpy().tolist() == [1.0, 0.0]


def test_an_empty_axis_is_refused_without_a_look_at_the_values() -> None:
    with tf.debug.transfers("raise"), pytest.raises(IndexError, match="axis 0, which is empty"):
        tf.gather(tf.zeros([0, 3]), tf.constant([0]))


def test_with_the_check_on_the_index_is_named() -> None:
    x, index = tf.constant(TABLE), tf.constant([[0], [9]])

    with tf.debug.check_indices(), pytest.raises(IndexError) as caught:
        tf.gather(x, index)

    assert str(caught.value) == (
        "gather got index 9 for axis 0 of length 7. Allowed are -7 to 6. "
        "It stands at [1, 0] of the indices."
    )


# Captures


def test_a_host_array_inside_a_capture_is_refused_and_the_capture_goes_on() -> None:
    x = tf.constant([1.0, 2.0])
    (x + x).numpy()  # compiles before the capture
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            with pytest.raises(tf.errors.TransferError, match=r"Placing float64\[2\] cannot be"):
                tf.constant(np.ones(2))
            with pytest.raises(tf.errors.TransferError, match=r"Reading float32\[2\] cannot be"):
                x.numpy()
            with pytest.raises(tf.errors.TransferError, match="Reading"):
                x.numpy_later()
            y = x + x
        finally:
            graph = stream.end_capture()
        graph.launch()
        stream.synchronize()

    assert y.numpy().tolist() == [2.0, 4.0]


# Deferred reads


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, bool, ml_dtypes.bfloat16])
def test_values_arrive_later(kind) -> None:
    value = np.arange(12).reshape(3, 4).astype(kind)
    x = tf.constant(value)

    for later, expected in (
        (x.numpy_later(), value),
        (tf.transpose(x).numpy_later(), value.T),
        (x[:0].numpy_later(), value[:0]),
        (x[1, 2].numpy_later(), value[1, 2]),
    ):
        result = later.result()
        assert later.done()
        assert result.dtype == value.dtype
        np.testing.assert_array_equal(result, expected)


def test_asking_for_a_value_does_not_wait_for_it() -> None:
    x = tf.constant(np.ones((4096, 4096), np.float32))
    for _ in range(3):  # nothing is compiled or allocated below
        tf.reduce_mean((x @ x) / 4096.0).numpy_later().result()

    y = x
    for _ in range(100):
        y = (x @ y) / 4096.0
    with tf.debug.transfers("raise") as seen:
        later = tf.reduce_mean(y).numpy_later()
    was_done = later.done()

    assert not was_done
    assert float(later.result()) == pytest.approx(1.0, rel=1e-3)
    assert seen.count == 1


def test_a_reading_that_nobody_keeps_harms_no_other() -> None:
    x = tf.constant(np.arange(1000.0))

    for _ in range(50):
        (x * 2.0).numpy_later()
    readings = [(x + float(k)).numpy_later() for k in range(50)]

    for k, reading in enumerate(readings):
        np.testing.assert_array_equal(reading.result(), np.arange(1000.0) + k)


def test_the_demo_never_waits_inside_its_loop() -> None:
    with tf.debug.transfers("raise") as seen:
        result = digits.train(epochs=3, batch=64, seed=0)

    assert result.device == "cuda:0"
    assert 0.0 < result.loss < 2.3
    assert seen.count == 5  # the loss of each epoch, the end of the clock, and the predictions


# Devices and libraries


def test_the_backend_names_its_libraries_and_devices() -> None:
    memory = get_backend("cupy").memory("cuda:0")

    assert dict(memory.libraries()).keys() >= {"cuBLASLt", "cuDNN", "nvmath"}
    assert "GiB" in memory.description


@pytest.mark.parametrize(
    "move", [lambda x: x.to("cpu"), lambda x: tf.to_device(x, "cpu")], ids=["to", "to_device"]
)
def test_moving_to_the_host_is_differentiable(move) -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = move(x) ** 2

    gradient = tape.gradient(y, x)

    assert (y.device, gradient.device) == ("cpu", "cuda:0")
    assert gradient.numpy().tolist() == [2.0, 4.0]


def test_identity_in_a_block_moves_there_and_the_gradient_comes_back() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.device("cpu"):
            y = tf.identity(x)
        z = y * y

    assert (y.device, tape.gradient(z, x).device) == ("cpu", "cuda:0")


WRONG_KINDS = {
    "digits as a shape": lambda x: tf.reshape(x, "6"),
    "a fraction of a size": lambda x: tf.zeros([2.9]),
    "a fraction of an axis": lambda x: tf.argmax(x, axis=1.9),
    "a tensor as an axis": lambda x: tf.reduce_sum(x, axis=x),
    "a tensor as a flag": lambda x: tf.numpy.sum(x, keepdims=x),
    "text as a tolerance": lambda x: tf.numpy.isclose(x, x, rtol="1"),
}


@pytest.mark.parametrize("name", WRONG_KINDS)
def test_arguments_of_another_kind_are_refused_without_a_read(name) -> None:
    x = tf.ones([2, 3])

    with tf.debug.transfers("raise"), pytest.raises(tf.errors.ArgumentKindError, match="Got"):
        WRONG_KINDS[name](x)


def test_tolerances_of_isclose_may_be_tensors() -> None:
    x = tf.constant([1.0, 2.0])

    found = tf.numpy.isclose(x, x + 0.5, rtol=tf.constant([0.0, 1.0]))

    assert found.numpy().tolist() == [False, True]


# Shapes


HUGE = {
    "MeanIoU": lambda n: tf.keras.metrics.MeanIoU(num_classes=n),
    "zeros": lambda n: tf.zeros([n, n]),
    "one_hot": lambda n: tf.one_hot([0, 1], n * n),
    "tile": lambda n: tf.tile(tf.ones([2, 2]), [n, n]),
    "segments": lambda n: tf.math.unsorted_segment_sum(tf.ones([2, 8]), [0, 1], n * n),
    "broadcasting": lambda n: tf.broadcast_to(1.0, [n, 1]) + tf.broadcast_to(1.0, [1, n]),
    "matmul": lambda n: tf.broadcast_to(1.0, [n, 1]) @ tf.broadcast_to(1.0, [1, n]),
}


@pytest.mark.parametrize("size", [2**30, 2**31])
@pytest.mark.parametrize("name", HUGE)
def test_results_that_no_memory_holds_are_refused_at_once(name, size) -> None:
    with pytest.raises(tf.errors.ShapeError, match=r"No memory holds|too large"):
        HUGE[name](size)


def test_the_limit_of_dimensions_is_named() -> None:
    deep = np.zeros((1,) * 40, np.float32)

    for call in (
        lambda: tf.constant(deep),
        lambda: tf.constant([1.0]) + deep,
        lambda: tf.reshape(tf.constant([1.0]), deep.shape),
    ):
        with pytest.raises(tf.errors.ShapeError, match=r"at most 32 dimensions. Got 40"):
            call()
