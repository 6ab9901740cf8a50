"""TensorFlow's names around graphs: scopes, dependencies, eager execution; and other small ones."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import tapegrad as tf


def test_code_is_eager_except_while_a_function_is_recorded():
    found = []

    @tf.function
    def step(x):
        found.append(tf.executing_eagerly())
        assert tf.inside_function() != tf.executing_eagerly()
        return x + 1.0

    step(tf.constant(1.0))
    found.append(tf.executing_eagerly())
    assert not tf.inside_function()
    tf.config.run_functions_eagerly(True)
    try:
        step(tf.constant(1.0))
    finally:
        tf.config.run_functions_eagerly(False)

    assert found == [False, True, True]


def test_name_scopes_nest_and_end_with_their_block():
    with tf.name_scope("a") as a:
        with pytest.raises(ZeroDivisionError), tf.name_scope("b") as b:
            1 / 0  # noqa: B018
        with tf.name_scope("c") as c, tf.name_scope(a) as again:
            pass
        with tf.name_scope("") as root:
            pass

    assert (a, b, c, again, root) == ("a/", "a/b/", "a/c/", "a/", "")
    with tf.name_scope("d") as d:
        assert d == "d/"
    with pytest.raises(TypeError, match=r"string as the name. Got int"):
        tf.name_scope(3)


def test_a_name_scope_decorates_a_function_that_calls_itself():
    @tf.name_scope("outer")
    def deepest(depth):
        with tf.name_scope("here") as name:
            return deepest(depth - 1) if depth else name

    assert deepest(1) == "outer/here/outer/here/"
    assert deepest(0) == "outer/here/"


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "recorded"])
def test_control_dependencies_and_group_keep_the_order(wrap):
    total = tf.Variable(1.0)

    @wrap
    def step(x):
        with tf.control_dependencies([total.assign_add(x)]):
            before = total * 10.0
        tf.group(total.assign(total * 2.0), tf.no_op())
        return before

    assert [float(step(tf.constant(2.0))) for _ in range(2)] == [30.0, 80.0]
    assert float(total) == 16.0
    with pytest.raises(TypeError, match="takes a list"), tf.control_dependencies(3):
        pass


def test_a_block_in_init_scope_runs_once_and_makes_a_lasting_variable():
    made = []

    @tf.function
    def scaled(x):
        with tf.init_scope():
            made.append(tf.Variable(tf.ones(()) * 3.0))
        return x * made[0]

    assert [float(scaled(tf.constant(v))) for v in (1.0, 2.0)] == [3.0, 6.0]
    made[0].assign(5.0)
    assert float(scaled(tf.constant(2.0))) == 10.0
    assert len(made) == 1


def test_tapes_do_not_see_what_init_scope_computes():
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        with tf.init_scope():
            hidden = x * x
        y = hidden * x

    assert float(tape.gradient(y, x)) == 4.0


# Initializers, versions, loggers, NumPy


@pytest.mark.parametrize(
    ("initializer", "values"),
    [
        (tf.zeros_initializer(), [0.0, 0.0]),
        (tf.ones_initializer(), [1.0, 1.0]),
        (tf.constant_initializer(3.0), [3.0, 3.0]),
    ],
)
def test_constant_initializers(initializer, values):
    made = initializer(shape=(2,), dtype=tf.float64)

    assert (made.tolist(), made.dtype) == (values, tf.float64)


def test_random_initializers_draw_from_their_distributions():
    normal = tf.random_normal_initializer(mean=1.0, stddev=0.1, seed=1)((1000,)).numpy()
    uniform = tf.random_uniform_initializer(minval=2.0, maxval=3.0, seed=1)((1000,)).numpy()

    assert abs(normal.mean() - 1.0) < 0.02
    assert abs(normal.std() - 0.1) < 0.02
    assert 2.0 <= uniform.min() < 2.1
    assert 2.9 < uniform.max() <= 3.0


def test_versions_and_loggers():
    assert [int(part) >= 0 for part in tf.version.VERSION.split(".")] == [True] * 3
    assert tuple(map(int, tf.version.VERSION.split(".")[:2])) >= (2, 16)
    assert tf.get_logger() is logging.getLogger("tapegrad")


def test_experimental_numpy_is_the_numpy_face():
    from tapegrad.experimental import numpy as tnp

    tnp.experimental_enable_numpy_behavior(prefer_float32=True)

    assert tf.experimental.numpy is tnp
    assert tnp.sum is tf.numpy.sum
    assert tnp.float32 is tf.numpy.float32
    np.testing.assert_array_equal(tnp.arange(3).numpy(), [0, 1, 2])
    assert {"sum", "experimental_enable_numpy_behavior"} <= set(dir(tnp))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tnp.nothing  # noqa: B018
    with pytest.raises(AttributeError, match=r"tapegrad\.experimental.*'nothing'"):
        tf.experimental.nothing  # noqa: B018


def test_assignments_convert_in_the_modes_with_promotion():
    from tapegrad.experimental import numpy as tnp

    total = tf.Variable(10)
    small, real = tf.constant(5, tf.int16), tf.constant(0.5)
    try:
        tnp.experimental_enable_numpy_behavior(dtype_conversion_mode="all")
        total.assign_add(small)
        assert tf.function(lambda x: total.assign_sub(x).read_value())(small).numpy() == 10
        assert total.assign(small).numpy() == 5
        assert total.dtype == tf.int32
        with pytest.raises(tf.errors.DTypeError, match=r"expects int32\. Got a tensor of float32"):
            total.assign_add(real)
    finally:
        tnp.experimental_enable_numpy_behavior()
    with pytest.raises(tf.errors.DTypeError, match=r"expects int32\. Got a tensor of int16"):
        total.assign_add(small)
    with pytest.raises(tf.errors.ArgumentError, match="dtype_conversion_mode"):
        tnp.experimental_enable_numpy_behavior(dtype_conversion_mode="everything")


# Assertions and devices


def test_assertions_stand_beside_the_functions():
    tf.Assert(tf.constant(True), ["never"])
    tf.assert_equal([1.0], [1.0])
    tf.assert_rank(tf.Variable([[1.0]]), 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="x is too small"):
        tf.Assert(tf.constant([True, False]), ["x is", "too small", tf.constant(3.0)])
    with pytest.raises(ValueError, match=r"Wrong\. .* requires rank 1\. Got shape \(\)"):
        tf.assert_rank(3.0, 1, message="Wrong")
    with pytest.raises(ValueError, match="requires"):
        tf.assert_less([1.0], [1.0])
    with pytest.raises(ValueError, match="requires"):
        tf.assert_greater([1.0], [1.0])


def test_an_assertion_of_a_recorded_function_is_checked_in_each_call():
    @tf.function
    def step(x):
        tf.Assert(x >= 0.0, ["x must not be negative"])
        return x + 1.0

    assert float(step(tf.constant(4.0))) == 5.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="x must not be negative"):
        step(tf.constant(-4.0))


def test_a_gpu_is_available_if_it_is_listed(monkeypatch):
    found = tf.config.list_physical_devices("GPU")

    assert tf.test.is_gpu_available() == bool(found)
    assert tf.test.gpu_device_name() == ("/device:GPU:0" if found else "")
    with pytest.raises(ValueError, match="compute capabilities"):
        tf.test.is_gpu_available(min_cuda_compute_capability=(9, 0))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "cupy" or None)
    assert tf.test.is_built_with_cuda()
    assert tf.test.is_built_with_gpu_support()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not tf.test.is_built_with_cuda()


@pytest.mark.parametrize("kind", [AttributeError, TypeError, RuntimeError])
def test_a_tensor_that_leaves_its_recording_raises_errors_of_tensorflows_kinds(kind: type) -> None:
    kept = []

    @tf.function
    def leak(x: tf.Tensor) -> tf.Tensor:
        kept.append(x + 1.0)
        return x

    leak(tf.constant(1.0))

    with pytest.raises(kind, match="after the recording"):
        kept[0].numpy()
