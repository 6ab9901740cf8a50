"""`while` and `for` on tensors inside recorded functions."""

from __future__ import annotations

import numpy as np

import tapegrad as tf
from tests.program.eager_agreement import check, check_gradients


def test_collatz():
    def collatz(n):
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps

    check(collatz, (27,), (6,), (1,))


def test_newton_until_convergence_with_gradients():
    def root(a):
        x = a
        while tf.abs(x * x - a) > 1e-4 * a:
            x = 0.5 * (x + a / x)
        return x

    check(root, (2.0,), (9.0,), (1.0,))
    check_gradients(root, 2.0, 9.0)


def test_for_over_an_unknown_range():
    def series(x, n):
        total = 0.0
        for i in tf.range(n):
            total = total + x ** tf.cast(i, tf.float32)
        return total

    check(series, (0.5, 0), (0.5, 1), (0.5, 7), (2.0, 3))

    def with_limits(a, b, c):
        total = 0
        for i in range(a, b, c):
            total += i
        return total

    check(
        lambda a, b: with_limits(a, b, 2) + with_limits(b, a, -3),
        (1, 10),
        (10, 0),
        (5, 5),
    )


def test_break_and_continue():
    def search(xs, limit):
        total, count = 0.0, 0
        for x in xs:
            if x < 0.0:
                continue
            total += x
            if total > limit:
                break
            count += 1
        return total, count

    xs = [1.0, -2.0, 3.0, 4.0, -1.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    check(search, (xs, 7.5), (xs, 100.0), (xs, -1.0))


def test_a_loop_over_a_long_tensor_with_break():
    def search(xs, limit):
        total = 0.0
        for x in xs:
            if x < 0.0:
                continue
            total = tf.sin(total) + x * tf.cos(total) + tf.exp(-total)
            if total > limit:
                break
        return total

    xs = tf.constant(np.random.default_rng(0).normal(size=300).astype("float32"))
    check(search, (xs, 1.5), (xs, 100.0), (xs, -1.0))
    check_gradients(lambda x: search(xs * x, 1.9), 1.0, 0.5)


def test_else_of_loops():
    def function(n):
        k = 2
        while k * k <= n:
            if n % k == 0:
                found = k
                break
            k += 1
        else:
            found = n
        return found

    check(function, (15,), (13,), (2,), (49,))


def test_a_return_inside_nested_loops():
    def first_above(x, limit):
        for i in tf.range(3):
            for j in tf.range(4):
                if x[i, j] > limit:
                    return i * 10 + j
        return -1

    x = tf.reshape(tf.range(12.0), [3, 4])
    check(first_above, (x, 2.5), (x, 6.5), (x, 100.0), (x, -1.0))


def test_a_return_inside_loops_of_unknown_length():
    def first_above(x, n, limit):
        for i in tf.range(n):
            j = 0
            while j < n:
                if x[i, j] > limit:
                    return i * 10 + j
                j += 1
        return -1

    x = tf.reshape(tf.range(16.0), [4, 4])
    check(first_above, (x, 4, 2.5), (x, 3, 6.5), (x, 4, 100.0), (x, 0, -1.0))


def test_a_loop_that_ends_by_break_alone():
    def halve(x):
        n = 0
        while True:
            if x < 1.0:
                break
            x = x / 2.0
            n += 1
        return x, n

    check(halve, (6.0,), (0.5,), (1000.0,))


def test_loops_in_branches_that_are_not_taken_end():
    def function(n):
        steps = 0
        if n > 0:
            while n != 1:
                n = n // 2
                steps += 1
        return steps

    check(function, (8,), (0,), (-4,), (1,))


def test_nested_while_loops():
    def function(n):
        total = 0
        while n > 0:
            m = n
            while m != 1:
                m = m // 2
                total += 1
            n -= 1
        return total

    check(function, (5,), (0,), (1,))


def test_python_loops_stay_python_loops():
    def function(x):
        names = []
        for name, factor in {"a": 1.0, "b": 2.0}.items():
            if name == "b":
                x = x * factor
            names.append(name)
        if x > 0.0:
            x = x + len(names)
        return x

    check(function, (2.0,), (-2.0,))


def test_a_python_loop_that_a_tensor_ends():
    def function(x):
        for factor in (2.0, 3.0, 5.0, 7.0):
            x = x * factor
            if x > 10.0:
                break
        return x

    check(function, (1.0,), (4.0,), (0.01,))


def test_structures_are_carried():
    def function(x, n):
        state = [x, x]
        named = {"a": x, "b": (x, 0)}
        for _ in tf.range(n):
            state = [state[1], state[0] + state[1]]
            named = {"a": named["a"] * 2.0, "b": (named["b"][0] + 1.0, named["b"][1] + 1)}
        return state, named

    check(function, (1.0, 0), (1.0, 5), (2.0, 12))


def test_entries_of_a_list_are_carried_in_branches_inside_loops():
    def function(x, n):
        best = x
        while n > 0:
            pair = [x, best]
            if n % 2 == 0:
                pair[0] = best * 2.0
            best = pair[0] + pair[1]
            n -= 1
        return best

    check(function, (1.0, 0), (1.0, 5), (2.0, 6))


def test_tensor_arrays():
    def function(n):
        array = tf.TensorArray(tf.int32, size=12)
        for i in tf.range(n):
            array = array.write(i, i * i)
        return array.stack()

    check(function, (1,), (3,), (12,))


def test_arrays_learn_the_shape_of_entries_in_the_first_round():
    def by_while(xs, n):
        array, state, k = tf.TensorArray(tf.float32, size=6), tf.zeros([3]), tf.constant(0)
        while k < n:
            state = tf.tanh(state + xs[k])
            array = array.write(k, state)
            k += 1
        return tf.reduce_sum(array.stack() ** 2)

    def by_range(xs, n):
        array, state = tf.TensorArray(tf.float32, size=6), tf.zeros([3])
        for k in tf.range(n):
            state = tf.tanh(state + xs[k])
            array = array.write(k, state)
        return tf.reduce_sum(array.stack() ** 2)

    xs = tf.constant(np.random.default_rng(1).normal(size=(6, 3)).astype("float32"))
    for function in (by_while, by_range):
        check(function, (xs, 1), (xs, 4), (xs, 6))
        check_gradients(lambda xs, f=function: f(xs, tf.size(xs) // 3), xs)


def test_arrays_in_long_loops_of_a_known_length_are_recorded_once():
    def states(xs):
        array, state = tf.TensorArray(tf.float32, size=400), tf.zeros([3])
        for k in tf.range(400):
            state = tf.tanh(state + xs[k])
            array = array.write(k, state)
        return array.stack()

    xs = tf.constant(np.random.default_rng(1).normal(size=(400, 3)).astype("float32"))
    check(states, (xs,))
    check_gradients(lambda xs: tf.reduce_sum(states(xs) ** 2), xs)
    function = tf.function(states)
    function(xs)
    assert len(function.program(xs).recorded.calls) < 10


def test_a_dynamic_rnn_and_its_gradient():
    rng = np.random.default_rng(0)
    w = tf.constant(rng.normal(size=(3, 3)).astype("float32") * 0.3)

    def rnn(xs):
        h = tf.zeros([2, 3])
        for x in xs:
            h = tf.tanh(x + h @ w)
            if tf.reduce_sum(h) > 3.0:
                h = h * 0.5
        return tf.reduce_sum(h * h)

    check_gradients(rnn, tf.constant(rng.normal(size=(20, 2, 3)).astype("float32")))


def test_gradients_through_while_and_if():
    def function(x):
        y = x
        while y < 10.0:
            if y > 3.0:
                y = y * x
            else:
                y = y + x * x
        return y

    check_gradients(function, 1.5, 2.5, 20.0)


def test_second_derivatives():
    def second(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = x
                for _ in tf.range(12):
                    if y > 3.0:
                        y = tf.sin(y) * x
                    else:
                        y = y + x * x
            g = inner.gradient(y, x)
        return outer.gradient(g, x)

    check(second, (1.1,), (0.3,))


def test_a_training_loop_inside_a_function():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 8)).astype("float32")
    y = x @ rng.normal(size=(8, 1)).astype("float32")

    def trained(compiled):
        w = tf.Variable(tf.zeros([8, 1]))
        optimizer = tf.optimizers.Adam(0.05)

        def run(x, y, n):
            loss = tf.constant(0.0)
            for i in tf.range(n):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(x @ w - y))
                g = tape.gradient(loss, w)
                if i % 2 == 0:
                    g = g * 0.5
                optimizer.apply_gradients([(g, w)])
            return loss

        function = tf.function(run) if compiled else run
        losses = [float(function(x, y, tf.constant(n))) for n in (30, 40)]
        if compiled:
            assert not function.explain().eager_calls
        return losses, w.numpy()

    found, wanted = trained(True), trained(False)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-3, atol=1e-5)


def test_while_over_a_variable():
    v = tf.Variable(1.0)

    @tf.function
    def grow(limit):
        while v < limit:
            v.assign(v * 2.0)
        return v.read_value()

    assert float(grow(tf.constant(10.0))) == 16.0
    assert float(grow(tf.constant(100.0))) == 128.0
    assert not grow.explain().eager_calls


def test_a_long_range_is_recorded_once():
    def function(x):
        total = tf.constant(0.0)
        for i in tf.range(500):
            total = tf.sin(total + x * tf.cast(i, tf.float32)) * 0.9 + tf.cos(total)
        return total

    compiled = check(function, (0.3,), (0.7,))
    assert len(compiled.program(tf.constant(0.3)).recorded.calls) < 20


def test_a_long_range_with_a_list_is_unrolled():
    def function(x):
        found = []
        for i in tf.range(100):
            x = x + tf.cast(i, tf.float32)
            found.append(x)
        return found[-1] + found[3]

    check(function, (0.5,), (1.5,))


class Sum:
    def __init__(self):
        self.total = 0.0
        self.parts = []

    def add(self, x):
        self.total = self.total + x
        self.parts.append(x)


def test_objects_that_rounds_change_are_followed_by_unrolling():
    def function(x):
        total = Sum()
        for i in tf.range(100):
            total.add(x * tf.cast(i, tf.float32))
        return total.total + total.parts[7]

    check(function, (0.5,), (1.5,))


def test_objects_that_branches_change():
    def function(x):
        total = Sum()
        if x > 1.0:
            total.add(x)
        else:
            total.add(-2.0 * x)
        return total.total, total.parts

    check(function, (0.5,), (1.5,))


def test_methods_that_read_an_object_in_a_loop():
    class Iteration:
        def __init__(self):
            self.rate = 0.5

        def slope(self, x):
            return 2.0 * x * self.rate

        def run(self, x, n):
            self.state = x
            while n > 0:
                self.state = self.state - self.slope(self.state) * 0.1
                n -= 1
            return self.state

    check(Iteration().run, (1.0, 5), (2.0, 0))


def test_prints_in_branches_and_loops(capsys):
    @tf.function
    def function(n):
        for i in tf.range(n):
            if i % 2 == 0:
                tf.print("even", i)
        return n

    function(tf.constant(3))
    assert capsys.readouterr().err == "even 0\neven 2\n"
    function(tf.constant(5))
    assert capsys.readouterr().err == "even 0\neven 2\neven 4\n"
    assert not function.explain().eager_calls
