"""Optimizer steps of many variables in one launch: equal to NumPy, without visible aliasing."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import tapegrad as tf

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
multi_updates = pytest.importorskip("tapegrad_cupy.kernels.updates.multi_updates")
multi_tensors = pytest.importorskip("tapegrad_cupy.launch.multi_tensors")

PRECISION = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-13}
SHAPES = [(33, 65), (7,), (), (0, 3), (1,), (1024,), (257, 129), (4097,), (5, 1, 3)]
RULES = {
    "sgd": lambda **o: tf.optimizers.SGD(0.1, **o),
    "momentum": lambda **o: tf.optimizers.SGD(0.1, momentum=0.9, **o),
    "nesterov": lambda **o: tf.optimizers.SGD(0.1, momentum=0.9, nesterov=True, **o),
    "adam": lambda **o: tf.optimizers.Adam(0.1, epsilon=1e-3, **o),
    "amsgrad": lambda **o: tf.optimizers.Adam(0.1, epsilon=1e-3, amsgrad=True, **o),
    "rmsprop": lambda **o: tf.optimizers.RMSprop(0.1, epsilon=1e-3, **o),
    "rmsprop-momentum": lambda **o: tf.optimizers.RMSprop(0.1, momentum=0.5, epsilon=1e-3, **o),
    "rmsprop-centered": lambda **o: tf.optimizers.RMSprop(
        0.1, momentum=0.5, centered=True, epsilon=1.0, **o
    ),
    "adagrad": lambda **o: tf.optimizers.Adagrad(0.1, **o),
}
KERAS = {
    "adadelta": lambda **o: tf.keras.optimizers.Adadelta(0.5, epsilon=1e-3, **o),
    "adamax": lambda **o: tf.keras.optimizers.Adamax(0.1, epsilon=1e-3, **o),
    "nadam": lambda **o: tf.keras.optimizers.Nadam(0.1, epsilon=1e-3, **o),
    "ftrl": lambda **o: tf.keras.optimizers.Ftrl(0.5, l1_regularization_strength=0.1, **o),
    "ftrl-power": lambda **o: tf.keras.optimizers.Ftrl(
        0.5, -0.7, l2_shrinkage_regularization_strength=0.2, beta=0.5, **o
    ),
    # With these betas the sign does not depend on rounding.
    "lion": lambda **o: tf.keras.optimizers.Lion(0.1, 0.5, 0.75, **o),
    "lamb": lambda **o: tf.keras.optimizers.Lamb(0.1, **o),
}


def values(shapes, seed):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=shape)) for shape in shapes]


class Training:
    """Some variables on a device, and an optimizer that moves them by gradients of its own."""

    def __init__(self, place, make, shapes=SHAPES, dtype="float32", **options):
        self.place, self.shapes, self.dtype = place, shapes, dtype
        with tf.device(place):
            self.variables = [tf.Variable(v, dtype=dtype) for v in values(shapes, 0)]
            self.optimizer = make(**options)

    def step(self, number):
        with tf.device(self.place):
            gradients = [tf.constant(g, self.dtype) for g in values(self.shapes, number + 1)]
        self.optimizer.apply_gradients(list(zip(gradients, self.variables, strict=True)))

    def state(self):
        found = [*self.variables, *self.optimizer.variables]
        return [np.asarray(v.numpy(), np.float64) for v in found]


def assert_same(gpu, cpu, dtype):
    for actual, wanted in zip(gpu.state(), cpu.state(), strict=True):
        np.testing.assert_allclose(
            actual, wanted, rtol=4 * PRECISION[dtype], atol=4 * PRECISION[dtype]
        )


@pytest.fixture
def launches(monkeypatch):
    """The names of the kernels that are launched, one entry each."""
    names = []
    make = multi_updates.Kernel.launcher

    def launcher(self, blocks, threads):
        launch = make(self, blocks, threads)

        def counted(*arguments):
            names.append("update")
            launch(*arguments)

        return counted

    monkeypatch.setattr(multi_updates.Kernel, "launcher", launcher)
    return names


# Values


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("rule", [*RULES, *KERAS])
def test_steps_equal_those_on_the_cpu(rule, dtype):
    make = {**RULES, **KERAS}[rule]
    gpu, cpu = (Training(place, make, dtype=dtype) for place in ("cuda:0", "cpu"))

    for number in range(3):
        gpu.step(number)
        cpu.step(number)

    assert_same(gpu, cpu, dtype)
    assert {v.dtype.name for v in gpu.variables} == {dtype}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize(
    "options",
    [
        {"weight_decay": 0.3},
        {"use_ema": True, "ema_momentum": 0.75},
        {"weight_decay": 0.3, "use_ema": True, "global_clipnorm": 2.0},
        {"global_clipnorm": 1e6},
        {"clipnorm": 1.0},
        {"clipvalue": 0.5},
    ],
    ids=str,
)
def test_options_do_what_they_do_on_the_cpu(options, dtype):
    gpu, cpu = (
        Training(place, RULES["adam"], dtype=dtype, **options) for place in ("cuda:0", "cpu")
    )
    for training in (gpu, cpu):
        training.optimizer.exclude_from_weight_decay(training.variables[::2])

    for number in range(4):
        gpu.step(number)
        cpu.step(number)

    assert_same(gpu, cpu, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("rule", KERAS)
def test_optimizers_of_keras_decay_clip_and_average_as_on_the_cpu(rule, dtype):
    options = {"weight_decay": 0.3, "use_ema": True, "ema_momentum": 0.75}
    if rule != "lion":  # whose signs would depend on how a clipped gradient is rounded
        options["global_clipnorm"] = 20.0
    gpu, cpu = (Training(place, KERAS[rule], dtype=dtype, **options) for place in ("cuda:0", "cpu"))
    for training in (gpu, cpu):
        training.optimizer.exclude_from_weight_decay(training.variables[::2])

    for number in range(4):
        gpu.step(number)
        cpu.step(number)

    assert_same(gpu, cpu, dtype)


@pytest.mark.parametrize(
    "options", [{}, {"weight_decay": 0.3, "use_ema": True, "global_clipnorm": 2.0}], ids=str
)
@pytest.mark.parametrize("rule", KERAS)
def test_a_step_of_an_optimizer_of_keras_is_one_launch(rule, options, launches):
    """Of Lamb it is two: all of a variable decides about the length of its step."""
    training = Training("cuda:0", KERAS[rule], **options)
    for number in range(2):
        training.step(number)

    launches.clear()
    training.step(2)

    assert launches == ["update"] * (2 if rule == "lamb" else 1)


@pytest.mark.parametrize("rule", ["adam", *KERAS])
def test_steps_inside_a_function_equal_those_on_the_cpu(rule):
    shapes = [(33, 65), (7,), (), (1024,)]
    make, options = {**RULES, **KERAS}[rule], {"weight_decay": 0.1, "use_ema": True}
    gpu, cpu = (Training(place, make, shapes, **options) for place in ("cuda:0", "cpu"))

    @tf.function
    def step(*gradients):
        gpu.optimizer.apply_gradients(list(zip(gradients, gpu.variables, strict=True)))

    gpu.step(0)  # an eager step before and after: the function moves what is there
    for number in range(1, 4):
        with tf.device("cuda:0"):
            step(*[tf.constant(g, "float32") for g in values(shapes, number + 1)])
    gpu.step(4)
    for number in range(5):
        cpu.step(number)

    assert_same(gpu, cpu, "float32")


def test_more_variables_than_one_launch_takes(launches):
    shapes = [(3 * k % 50,) for k in range(230)]
    gpu, cpu = (Training(place, RULES["adam"], shapes) for place in ("cuda:0", "cpu"))

    for number in range(2):
        launches.clear()
        gpu.step(number)
        cpu.step(number)

    filled = sum(shape != (0,) for shape in shapes)
    assert len(launches) == -(-filled // multi_tensors.capacities(4)[1])
    assert_same(gpu, cpu, "float32")


def test_variables_of_several_dtypes_and_with_sparse_gradients_step_too():
    trainings = []
    for place in ("cuda:0", "cpu"):
        with tf.device(place):
            a, b = (
                tf.Variable(values([(40, 3)], 0)[0]),
                tf.Variable(values([(9,)], 1)[0], dtype="float32"),
            )
            table = tf.Variable(values([(20, 4)], 2)[0], dtype="float32")
            optimizer = tf.optimizers.Adam(0.1, global_clipnorm=1.0)
            for number in range(3):
                rows = tf.constant(values([(6, 4)], number)[0], "float32")
                sparse = tf.IndexedSlices(rows, tf.constant([1, 4, 1, 0, 19, 3]), (20, 4))
                gradients = [tf.ones_like(a), tf.ones_like(b), sparse]
                optimizer.apply_gradients(list(zip(gradients, [a, b, table], strict=True)))
        trainings.append([v.numpy() for v in (a, b, table)])

    for actual, wanted in zip(*trainings, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)


def test_a_constraint_comes_before_the_average():
    results = []
    for place in ("cuda:0", "cpu"):
        with tf.device(place):
            v = tf.Variable([1.0, -1.0], constraint=lambda x: tf.maximum(x, 0.0))
            optimizer = tf.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.5)
            for g in ([3.0, -0.5], [-1.0, 2.0], [0.5, 0.5]):
                optimizer.apply_gradients([(tf.constant(g), v)])
            first = v.numpy()
            optimizer.swap_in_averages()
        results.append([first, v.numpy()])

    np.testing.assert_array_equal(results[0], results[1])


def test_one_variable_twice_makes_two_steps():
    with tf.device("cuda:0"):
        v, w = tf.Variable([1.0]), tf.Variable([1.0])
        tf.optimizers.SGD(0.5).apply_gradients([([1.0], v), ([1.0], w), ([0.5], v)])

    assert (float(v[0]), float(w[0])) == (0.25, 0.5)


def test_complex_variables_take_the_generic_form():
    with tf.device("cuda:0"):
        v = tf.Variable([1 + 2j], dtype="complex64")
        tf.optimizers.Adam(0.5).apply_gradients([(tf.constant([1j], "complex64"), v)])

    np.testing.assert_allclose(v.numpy(), [1 + 1.5j], rtol=1e-5)


def test_strided_and_oddly_placed_gradients_are_read_right():
    with tf.device("cuda:0"):
        whole = tf.constant(values([(9, 8)], 0)[0], "float32")
        v, w = tf.Variable(tf.zeros([8, 9])), tf.Variable(tf.zeros([71]))
        odd = tf.reshape(whole, [-1])[1:]
        tf.optimizers.SGD(1.0).apply_gradients([(tf.transpose(whole), v), (odd, w)])

    np.testing.assert_array_equal(-v.numpy(), whole.numpy().T)
    np.testing.assert_array_equal(-w.numpy(), whole.numpy().reshape(-1)[1:])


# Aliasing


def test_arrays_stay_where_they_are_when_nobody_else_holds_them():
    training = Training("cuda:0", RULES["adam"], weight_decay=0.1, use_ema=True)
    for number in range(3):
        training.step(number)
    places = [v.array.data.ptr for v in training.variables + training.optimizer.variables[2:]]

    training.step(3)

    now = [v.array.data.ptr for v in training.variables + training.optimizer.variables[2:]]
    assert now == places


def readers():
    return {
        "value": lambda v: v.value(),
        "a tensor of it": tf.convert_to_tensor,
        "a view": lambda v: tf.reshape(v, [-1])[1:],
        "a variable of it": tf.Variable,
        "a cupy array": lambda v: tf.convert_to_tensor(v.array.reshape(-1)[::2]),
        "its pointer": lambda v: tf.convert_to_tensor(
            cupy.ndarray(v.array.shape, v.array.dtype, v.array.data)
        ),
        "its memory": lambda v: tf.convert_to_tensor(
            cupy.ndarray((2,), v.array.dtype, v.array.data + 16)
        ),
    }


@pytest.mark.parametrize("how", readers())
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_what_was_read_before_a_step_does_not_change(how, rule):
    training = Training("cuda:0", RULES[rule], [(6, 5), (30,)])
    twin = Training("cuda:0", RULES[rule], [(6, 5), (30,)])
    for number in range(2):
        training.step(number)
        twin.step(number)
    held = [readers()[how](v) for v in [*training.variables, *training.optimizer.variables[2:]]]
    before = [x.numpy() for x in held]

    for number in range(2, 4):
        training.step(number)
        twin.step(number)

    for x, wanted in zip(held, before, strict=True):
        np.testing.assert_array_equal(x.numpy(), wanted)
    for actual, wanted in zip(training.state(), twin.state(), strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_a_tape_that_is_alive_keeps_the_values_it_saved():
    with tf.device("cuda:0"):
        w = tf.Variable([3.0, 4.0, 5.0, 6.0])
        optimizer = tf.optimizers.SGD(0.5)
        for _ in range(2):
            optimizer.apply_gradients([(tf.zeros([4]), w)])
        with tf.GradientTape(persistent=True) as tape:
            y = tf.reduce_sum(w * w * w)
        first = tape.gradient(y, w).numpy()
        optimizer.apply_gradients([(tape.gradient(y, w), w)])

    np.testing.assert_array_equal(tape.gradient(y, w).numpy(), first)
    np.testing.assert_allclose(w.numpy(), [3 - 13.5, 4 - 24, 5 - 37.5, 6 - 54])


def test_a_training_loop_steps_in_place():
    with tf.device("cuda:0"):
        x = tf.constant(values([(8, 4)], 0)[0], "float32")
        w, b = tf.Variable(tf.ones([4, 4])), tf.Variable(tf.zeros([4]))
        optimizer = tf.optimizers.Adam(0.01)
        places = []
        for _ in range(4):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.tanh(x @ w + b) @ tf.transpose(w)))
            gradients = tape.gradient(loss, [w, b])
            optimizer.apply_gradients(zip(gradients, [w, b], strict=True))
            places.append([v.array.data.ptr for v in [w, b, *optimizer.variables[2:]]])

    assert places[1] == places[2] == places[3]


def test_the_gradient_may_be_the_variable_itself():
    with tf.device("cuda:0"):
        w = tf.Variable([1.0, 2.0])
        optimizer = tf.optimizers.SGD(0.5)
        for _ in range(3):
            optimizer.apply_gradients([(w.value(), w)])

    assert w.numpy().tolist() == [0.125, 0.25]


def test_assigned_and_swapped_values_are_taken_over():
    gpu, cpu = (Training(place, RULES["adam"], use_ema=True) for place in ("cuda:0", "cpu"))

    for training in (gpu, cpu):
        for number in range(6):
            training.step(number)
            if number == 2:
                training.variables[0].assign(training.variables[0] * 0.5)
                training.optimizer.variables[3].assign(training.optimizer.variables[3] * 2.0)
            if number in (3, 4):
                training.optimizer.swap_in_averages()

    assert_same(gpu, cpu, "float32")


@pytest.fixture
def own_pool():
    """Memory for one test alone: parts of blocks that other tests left behind would be room too."""
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        yield pool


def test_without_room_nothing_changes(own_pool):
    training = Training("cuda:0", RULES["adam"], [(1 << 22,), (5,)])
    training.step(0)
    held = [v.value() for v in training.variables]
    before = training.state()

    gc.collect()
    own_pool.free_all_blocks()
    # No block is larger than the 16 MiB of a variable, so no block holds two variables.
    own_pool.set_limit(size=own_pool.total_bytes() + (20 << 20))  # a gradient, but no copy
    with pytest.raises(MemoryError, match="The step of 2 variables ran out of memory"):
        training.step(1)
    own_pool.set_limit(size=0)
    after = training.state()

    for position, (actual, wanted) in enumerate(zip(after, before, strict=True)):
        if position != len(held):  # the step count
            np.testing.assert_array_equal(actual, wanted)
    training.step(1)


def test_a_step_with_clipping_can_be_captured_so_nothing_is_read_on_the_host():
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, tf.device("cuda:0"):
        v = tf.Variable(np.ones(1000, "float32"))
        g = tf.constant(np.ones(1000, "float32"))
        optimizer = tf.optimizers.SGD(1.0, global_clipnorm=np.sqrt(10.0))
        for _ in range(2):
            optimizer.apply_gradients([(g, v)])
        stream.begin_capture()
        optimizer.apply_gradients([(g, v)])
        graph = stream.end_capture()
        graph.launch()
    stream.synchronize()

    np.testing.assert_allclose(v.numpy(), 0.7, rtol=1e-6)


# Clipping


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("limit", [0.5, 1e4, float("inf"), 0.0])
def test_clipping_by_the_global_norm_scales_all_tensors(dtype, limit):
    with tf.device("cuda:0"):
        arrays = values([*SHAPES, *[(k,) for k in range(200)]], 0)
        tensors = [tf.constant(array * 0.1, dtype) for array in arrays]
        clipped, norm = tf.clip_by_global_norm([*tensors, None], limit)

    assert clipped.pop() is None
    assert {t.dtype.name for t in [*clipped, norm]} == {dtype}
    exact = [np.asarray(t.numpy(), np.float64) for t in tensors]
    size = np.sqrt(sum((x * x).sum() for x in exact))
    factor = min(1.0, limit / size)
    np.testing.assert_allclose(float(norm), size, PRECISION[dtype])
    for t, x in zip(clipped, exact, strict=True):
        tolerance = 2 * PRECISION[dtype]
        np.testing.assert_allclose(np.asarray(t.numpy(), np.float64), factor * x, tolerance, 1e-6)


def test_large_gradients_do_not_overflow_the_norm():
    with tf.device("cuda:0"):
        big = tf.constant([3e30, 4e30])
        (clipped,), norm = tf.clip_by_global_norm([big], 5.0)

    np.testing.assert_allclose(clipped.numpy(), [3.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(float(norm), 5e30, rtol=1e-6)


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_norm_that_is_not_finite_makes_everything_nan(bad):
    with tf.device("cuda:0"):
        clipped, _ = tf.clip_by_global_norm([tf.constant([bad]), tf.constant([1.0])], 1.0)
        v = tf.Variable([1.0])
        tf.optimizers.SGD(1.0, global_clipnorm=1.0).apply_gradients([(tf.constant([bad]), v)])

    assert np.isnan([*clipped[0].numpy(), *clipped[1].numpy(), *v.numpy()]).all()


def test_sparse_gradients_are_clipped_as_the_tensor_they_stand_for():
    with tf.device("cuda:0"):
        rows = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([2, 2]), (3, 1))
        clipped, norm = tf.clip_by_global_norm([rows, tf.constant([4.0])], 2.5)

    assert isinstance(clipped[0], tf.IndexedSlices)
    assert clipped[0].numpy().tolist() == [[0.0], [0.0], [1.5]]
    assert float(norm) == 5.0
