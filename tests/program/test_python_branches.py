"""`if` and the operators that decide, on tensors inside recorded functions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tapegrad as tf
from tests.program.eager_agreement import check, check_gradients


def test_if_and_else():
    def absolute(x):
        if x > 0:
            y = x
        else:
            y = -x
        return y

    check(absolute, (2.0,), (-3.0,), (0.0,))
    check_gradients(absolute, 2.0, -3.0)


def test_elif_and_variables_that_only_some_branches_assign():
    def grade(x):
        label = 0
        if x > 90.0:
            label = 3
        elif x > 50.0:
            label = 2
            bonus = x * 2.0
        else:
            bonus = x
        if x <= 90.0:
            label = bonus
        else:
            label = x + 1.0
        return label

    check(grade, (95.0,), (60.0,), (10.0,))


def test_early_returns():
    def sign(x):
        if x > 0.0:
            return 1.0
        if x < 0.0:
            return -1.0
        return 0.0 * x

    check(sign, (2.0,), (-2.0,), (0.0,))


def test_a_return_in_nested_branches():
    def pick(x, y):
        if x > 0.0:
            if y > 0.0:
                return x + y
            z = x * y
        else:
            z = x
        return z - 1.0

    check(pick, (1.0, 2.0), (1.0, -2.0), (-1.0, 2.0))


def test_returns_inside_with_and_try():
    def function(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            if y > 4.0:
                return tape.gradient(y, x)
        try:
            if x > 1.0:
                return x * 10.0
        finally:
            x = x + 1.0
        return x

    check(function, (3.0,), (1.5,), (0.5,))


def test_boolean_operators_and_chains():
    def inside(x, y):
        a = x > 0.0 and y > 0.0
        b = x < 5.0 or y < 5.0
        c = not a
        d = 0.0 < x < 3.0
        return a, b, c, d, x or y, x and y

    check(inside, (1.0, 2.0), (-1.0, 9.0), (0.0, 4.0), (7.0, 8.0))


def test_conditional_expressions_in_lambdas():
    check(lambda x: x if x > 0.0 else -x, (2.0,), (-3.0,))
    f, g = (lambda x: x if x > 0.0 else -x), (lambda x: 2.0 * x if x > 1.0 else x)
    check(lambda x: f(x) + g(x), (2.0,), (-3.0,), (0.5,))


def test_builtins_that_decide():
    def function(x, y):
        found = any([x > 0.0, y > 0.0]), all(z > 0.0 for z in (x, y))
        return found, max(x, y, 1.0), min([x, y])

    check(function, (2.0, 3.0), (-2.0, 3.0), (-2.0, -3.0))


def test_assignments_happen_in_the_taken_branch():
    v = tf.Variable(0.0)

    @tf.function
    def step(x):
        if x > 0.0:
            v.assign_add(x)
        else:
            v.assign(-1.0)
        return v.read_value()

    assert [float(step(tf.constant(x))) for x in (2.0, 3.0, -1.0, 1.0)] == [2.0, 5.0, -1.0, 0.0]
    assert not step.explain().eager_calls


def test_a_step_with_a_nan_gradient_is_skipped():
    w = tf.Variable([1.0, 2.0])
    skipped = tf.Variable(0)
    optimizer = tf.optimizers.SGD(0.5)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sqrt(x) * w)
        g = tape.gradient(loss, w)
        if tf.reduce_any(tf.math.is_nan(g)):
            skipped.assign_add(1)
        else:
            optimizer.apply_gradients([(g, w)])
        return loss

    step(tf.constant([4.0, 4.0]))
    step(tf.constant([-4.0, 4.0]))
    step(tf.constant([4.0, 0.0]))
    assert w.numpy().tolist() == [-1.0, 1.0]
    assert int(skipped) == 1
    assert not step.explain().eager_calls


def test_state_in_attributes_and_lists():
    class Cell:
        def add(self, x):
            self.total = tf.constant(0.0)
            history = [x, x]
            if x > 0.0:
                self.total = self.total + x
                history[0] = x * 5.0
            else:
                self.total = self.total - 1.0
                history[1] = x - 5.0
            return self.total * 2.0, history

    check(Cell().add, (3.0,), (-3.0,))


def test_entries_that_both_branches_append():
    def function(x):
        found = []
        if x > 0.0:
            found.append(x)
        else:
            found.append(x * 3.0)
        return found

    check(function, (3.0,), (-3.0,))


def test_methods_closures_super_and_private_names():
    scale = 3.0

    class Base:
        def call(self, x):
            return x * 2.0

    class Derived(Base):
        def __init__(self):
            self.__offset = 1.0

        def call(self, x):
            """Return something, with a docstring."""
            if x > 0.0:
                y = super().call(x) + self.__offset
            else:
                y = x * scale
            return y

    check(Derived().call, (2.0,), (-2.0,))


def test_keywords_annotations_and_nonlocal_names():
    def outer(x, *, factor=2.0):
        total: float = 0.0

        def add(y, *rest, twice: bool = False, **options):
            nonlocal total
            if y > 0.0:
                new: float = total + y * factor
                total = new
            else:
                total = total + 1.0

        add(x)
        add(-x, 1, twice=True, other=2)
        return total

    check(outer, (2.0,), (-3.0,))


def test_functions_called_from_functions():
    def helper(x):
        if x > 1.0:
            return helper_of_helper(x)
        return x

    def helper_of_helper(x):
        while x > 1.0:
            x = x / 2.0
        return x

    @tf.function
    def inner(x):
        return helper(x) + 1.0

    check(lambda x: inner(x) * 2.0, (5.0,), (0.5,))


def test_new_closures_of_the_same_code():
    def make(factor):
        def function(x):
            if x > 0.0:
                return x * factor
            return x

        return tf.function(function)

    for factor in (2.0, 3.0):
        function = make(factor)
        assert float(function(tf.constant(1.0))) == factor
        assert float(function(tf.constant(-1.0))) == -1.0
        assert not function.explain().eager_calls


def test_functions_that_are_defined_while_recording():
    def function(x):
        def loss(y):
            if y > 1.0:
                return y * y
            return y

        with tf.GradientTape() as tape:
            tape.watch(x)
            found = loss(x)
        return tape.gradient(found, x)

    check(function, (3.0,), (0.5,))


def primitives_of(function, *args):
    return [call.primitive.name for call in function.program(*args).recorded.calls]


def heavy(x, c, w):
    scale = 1.0
    if c > 0.0:
        for _ in range(4):
            x = tf.tanh(x @ w)
        extra = tf.reduce_sum(x)
        scale = 2.0
    elif c < -1.0:
        return x * 3.0, c
    else:
        extra = tf.cast(c, x.dtype)
    return x * extra, scale * c


def test_a_branch_with_much_work_runs_only_if_it_is_taken():
    rng = np.random.default_rng(0)
    x, w = (tf.constant(rng.normal(size=(80, 80)) * 0.2) for _ in range(2))
    compiled = check(heavy, (x, 1.0, w), (x, -0.5, w), (x, -2.0, w))
    names = primitives_of(compiled, x, tf.constant(1.0), w)
    assert names.count("conditional_loop") == 2
    assert "matmul" not in names

    def gradients(x, c, w):
        with tf.GradientTape() as tape:
            tape.watch([x, c, w])
            y = tf.reduce_sum(heavy(x, c, w)[0] ** 2)
        return tape.gradient(y, [x, c, w], unconnected_gradients="zero")

    check(gradients, (x, 1.0, w), (x, -0.5, w), (x, -2.0, w))


def test_a_short_branch_is_selected():
    compiled = check(heavy, *[(tf.ones([3, 3]), c, tf.ones([3, 3])) for c in (1.0, -0.5)])
    names = primitives_of(compiled, tf.ones([3, 3]), tf.constant(1.0), tf.ones([3, 3]))
    assert "conditional_loop" not in names
    assert "matmul" in names


def test_a_step_with_much_work_in_a_branch():
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(64, 128)))

    def trained(compiled):
        w = tf.Variable(tf.ones([128, 128], "float64") * 0.01)
        optimizer = tf.optimizers.SGD(0.01)
        count = tf.Variable(0)

        def step(x, accept):
            if accept:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(tf.tanh(x @ w) - 0.5))
                optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            else:
                count.assign_add(1)

        function = tf.function(step) if compiled else step
        for accept in (True, False, True, False, False):
            function(x, tf.constant(accept))
        if compiled:
            assert "conditional_loop" in primitives_of(function, x, tf.constant(True))
        return w.numpy(), int(count)

    found, wanted = trained(True), trained(False)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-10)
    assert found[1] == wanted[1] == 3


def test_assertions_check_each_call():
    @tf.function
    def function(x):
        assert x > 0.0, "x must be positive"
        return x / 2.0

    assert float(function(tf.constant(4.0))) == 2.0
    with pytest.raises(AssertionError, match="must be positive"):
        function(tf.constant(-4.0))
    assert float(function(tf.constant(9.0))) == 4.5
    assert not function.explain().eager_calls


def test_an_exception_in_a_branch():
    v = tf.Variable(0.0)

    @tf.function
    def function(x):
        v.assign_add(1.0)
        if x < 0.0:
            raise ValueError("negative")
        return x / 2.0

    assert float(function(tf.constant(4.0))) == 2.0
    with pytest.raises(ValueError, match="negative"):
        function(tf.constant(-4.0))
    assert float(function(tf.constant(9.0))) == 4.5
    assert float(v) == 2.0
    assert not function.explain().eager_calls


def test_input_signatures_and_python_arguments():
    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def signed(x):
        if x > 0.0:
            x = x * 2.0
        return x

    assert float(signed(2.0)) == 4.0
    assert float(signed(-2.0)) == -2.0

    flags = []

    @tf.function
    def python_argument(x, flag):
        flags.append(flag)
        if flag and x > 0.0:
            x = x * 2.0
        return x

    assert float(python_argument(tf.constant(2.0), True)) == 4.0
    assert float(python_argument(tf.constant(-2.0), True)) == -2.0
    assert float(python_argument(tf.constant(2.0), False)) == 2.0
    assert flags[-1] is False


def test_fit_with_control_flow_in_layers_losses_and_steps():
    class Gate(tf.keras.layers.Layer):
        def call(self, x):
            if tf.reduce_mean(x) > 0.0:
                return x * 2.0
            return x

    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(1, kernel_initializer="ones")
            self.gate = Gate()

        def call(self, x):
            return self.gate(self.dense(x))

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=y, y_pred=self(x, training=True))
            grads = tape.gradient(loss, self.trainable_variables)
            if tf.reduce_all(tf.math.is_finite(grads[0])):
                self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
            return {"loss": loss}

    def loss(y, p):
        error = tf.reduce_mean(tf.square(y - p))
        if error > 10.0:
            error = tf.sqrt(error)
        return error

    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 4)).astype("float32")
    y = x.sum(1, keepdims=True)
    found = []
    for eager in (True, False):
        model = Model()
        model.compile(optimizer=tf.optimizers.SGD(0.05), loss=loss, run_eagerly=eager)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            history = model.fit(x, y, batch_size=16, epochs=3, verbose=0, shuffle=False)
        found.append(history.history["loss"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)
