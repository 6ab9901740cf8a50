"""Control flow, printing and assertions inside a recorded function."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import RecordingError


def agree(python: Any, *calls: tuple[Any, ...]) -> None:
    """Check that a function gives the same results as its eager Python code."""
    recorded = tf.function(python)
    for call in calls:
        found = tf.nest.flatten(recorded(*map(tf.constant, call)))
        expected = tf.nest.flatten(python(*map(tf.constant, call)))
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6)


def test_cond_decides_anew_at_each_call() -> None:
    f = tf.function(lambda x: tf.cond(x > 0.0, lambda: x * x, lambda: -x))

    assert [float(f(tf.constant(k))) for k in (3.0, -2.0, 0.5)] == [9.0, 2.0, 0.25]


def test_both_branches_may_return_structures_and_numbers() -> None:
    def f(x: Any) -> Any:
        return tf.cond(x > 0.0, lambda: {"a": x, "n": 1}, lambda: {"a": -x, "n": 2})

    agree(f, (1.0,), (-3.0,))


def test_the_gradient_is_that_of_the_branch_taken() -> None:
    @tf.function
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.cond(x > 0.0, lambda: x * x * x, lambda: 5.0 * x)
        return tape.gradient(y, x)

    assert [float(gradient(tf.constant(k))) for k in (2.0, -2.0)] == [12.0, 5.0]


def test_an_infinite_value_of_the_other_branch_does_not_spoil_the_result() -> None:
    f = tf.function(lambda x: tf.cond(x > 0.0, lambda: 1.0 / x, lambda: x * 0.0))

    with np.errstate(divide="ignore"):
        assert [float(f(tf.constant(k))) for k in (2.0, 0.0)] == [0.5, 0.0]


def test_a_branch_assigns_only_where_it_is_taken() -> None:
    up, down = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function
    def step(x: Any) -> Any:
        def yes() -> Any:
            up.assign_add(1.0)
            return up * 10.0

        def no() -> Any:
            down.assign_sub(1.0)
            up.assign(up * 2.0)
            return down * 10.0

        return tf.cond(x > 0.0, yes, no)

    results = [float(step(tf.constant(k))) for k in (1.0, 1.0, -1.0, 1.0)]

    assert results == [10.0, 20.0, -10.0, 50.0]
    assert (float(up), float(down)) == (5.0, -1.0)


def test_random_numbers_are_drawn_only_in_the_branch_taken() -> None:
    def draw(p: Any) -> Any:
        return tf.cond(p, lambda: tf.random.normal([2]), lambda: tf.zeros([2]))

    recorded, choices = tf.function(draw), (True, False, True, True)
    tf.random.set_seed(3)
    found = [recorded(tf.constant(p)).numpy() for p in choices]
    tf.random.set_seed(3)
    expected = [draw(tf.constant(p)).numpy() for p in choices]

    np.testing.assert_array_equal(found, expected)


def test_an_optimizer_may_step_in_a_branch() -> None:
    """Skipping steps whose gradient is not finite, as loss scaling does."""

    def make() -> Any:
        w, optimizer = tf.Variable([1.0, 2.0]), tf.optimizers.Adam(0.1)

        def step(g: Any) -> Any:
            def apply() -> None:
                optimizer.apply_gradients([(g, w)])

            tf.cond(tf.reduce_all(tf.math.is_finite(g)), apply, lambda: None)
            return w.value()

        return step

    eager, recorded = make(), tf.function(make())
    for gradient in ([1.0, 2.0], [np.inf, 1.0], [0.5, -1.0], [np.nan, 0.0], [1.0, 1.0]):
        g = tf.constant(gradient)
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(recorded(g).numpy(), eager(g).numpy(), rtol=1e-6)


def test_branches_inside_branches() -> None:
    def f(x: Any, y: Any) -> Any:
        inner = lambda: tf.cond(y > 0.0, lambda: x + y, lambda: x - y)  # noqa: E731
        return tf.cond(x > 0.0, inner, lambda: x * y)

    agree(f, (1.0, 2.0), (1.0, -2.0), (-1.0, 2.0), (-1.0, -2.0))


@pytest.mark.parametrize(
    "branches",
    [
        (lambda: tf.zeros([2]), lambda: tf.zeros([3])),
        (lambda: tf.zeros([2]), lambda: tf.zeros([2], "float64")),
    ],
)
def test_branches_with_results_that_differ_in_kind_are_refused(branches: Any) -> None:
    with pytest.raises(ValueError, match=r"same shape and dtype.*float32\[2\] and"):
        tf.function(lambda x: tf.cond(x > 0.0, *branches))(tf.constant(1.0))


def test_branches_of_different_structure_are_refused() -> None:
    with pytest.raises(TypeError, match="must return the same structure inside a recorded"):
        tf.function(lambda x: tf.cond(x > 0.0, lambda: [x], lambda: x))(tf.constant(1.0))


def test_branches_that_return_texts_are_refused() -> None:
    with pytest.raises(RecordingError, match="must return tensors or numbers"):
        tf.function(lambda x: tf.cond(x > 0.0, lambda: "a", lambda: "b"))(tf.constant(1.0))


def test_a_condition_with_several_elements_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must have one element.*tapegrad\.where"):
        tf.function(lambda x: tf.cond(x > 0.0, lambda: x, lambda: x))(tf.constant([1.0, 2.0]))


def test_case_and_switch_case() -> None:
    def by_size(x: Any) -> Any:
        pairs = [(x > 2.0, lambda: x * 10.0), (x > 1.0, lambda: x * 100.0)]
        return tf.case(pairs, default=lambda: -x)

    def by_number(k: Any, x: Any) -> Any:
        return tf.switch_case(k, [lambda: x, lambda: x * 2.0, lambda: x * 3.0])

    agree(by_size, (3.0,), (1.5,), (0.5,))
    agree(by_number, *[(k, 1.5) for k in (0, 1, 2, 7, -1)])


def test_case_without_default_is_refused() -> None:
    with pytest.raises(RecordingError, match="Pass default="):
        tf.function(lambda x: tf.case([(x > 0.0, lambda: x)]))(tf.constant(1.0))


def test_a_loop_of_known_length_is_unrolled() -> None:
    def power(x: Any) -> Any:
        return tf.while_loop(lambda n, y: n < 4, lambda n, y: (n + 1, y * x), (0, 1.0))[1]

    agree(power, (2.0,), (3.0,))


def test_a_loop_that_tensors_end_needs_a_limit() -> None:
    def halve(x: Any) -> Any:
        def body(n: Any, x: Any) -> Any:
            return n + 1, x / 2.0

        return tf.while_loop(lambda n, x: x > 1.0, body, (0, x), maximum_iterations=12)

    agree(halve, (6.0,), (1.0,), (100.0,), (1e9,))


@pytest.mark.parametrize("limit", [None, 257])
def test_a_loop_that_cannot_be_one_body_runs_eagerly(limit: int | None) -> None:
    def loop(x: Any) -> Any:
        return tf.while_loop(
            lambda x: tf.reduce_sum(x) < 100.0,
            lambda x: (tf.concat([x, x], 0),),
            (x,),
            maximum_iterations=limit,
        )

    with pytest.warns(UserWarning, match="runs eagerly: a while_loop of unknown length changes"):
        (found,) = tf.nest.flatten(tf.function(loop)(tf.constant([3.0])))
    assert found.tolist() == [3.0] * 64


def test_the_gradient_of_a_loop_that_tensors_end() -> None:
    """Newton's iteration for the root: its derivative is that of the square root."""

    @tf.function
    def root(a: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(a)
            (y,) = tf.while_loop(
                lambda y: tf.abs(y * y - a) > 1e-10 * a,
                lambda y: (0.5 * (y + a / y),),
                (a,),
                maximum_iterations=40,
            )
        return y, tape.gradient(y, a)

    for a in (4.0, 2.0, 50.0):
        y, slope = root(tf.constant(np.float64(a)))
        np.testing.assert_allclose(float(y), np.sqrt(a), rtol=1e-9)
        np.testing.assert_allclose(float(slope), 0.5 / np.sqrt(a), rtol=1e-3)


def test_variables_stop_changing_with_the_loop() -> None:
    count = tf.Variable(0)

    @tf.function
    def run(x: Any) -> Any:
        def body(x: Any) -> Any:
            count.assign_add(1)
            return (x / 2.0,)

        return tf.while_loop(lambda x: x > 1.0, body, (x,), maximum_iterations=10)

    for start, expected in ((8.0, 3), (0.5, 3), (3.0, 5)):
        run(tf.constant(start))
        assert int(count) == expected


def test_scan_and_map_fn_and_folds() -> None:
    rows = [[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]]

    agree(lambda x: tf.scan(lambda a, b: a * 0.5 + b, x), (rows,), (rows[::-1],))
    agree(lambda x: tf.foldl(lambda a, b: a - b, x), (rows,), (rows[::-1],))
    agree(
        lambda x: tf.map_fn(lambda r: tf.cond(r[1] > 0.0, lambda: r * r, lambda: -r), x),
        (rows,),
        (rows[::-1],),
    )


def test_print_prints_at_each_call() -> None:
    stream = io.StringIO()

    @tf.function
    def f(x: Any) -> Any:
        tf.print("x:", x, {"twice": x * 2.0}, output_stream=stream)
        tf.print("again", output_stream=stream)
        tf.print("again", output_stream=stream, end="!\n")
        return x + 1.0

    for k in (1.0, 2.0):
        f(tf.constant(k))

    lines = ["x: 1.0 {'twice': 2.0}", "again", "again!", "x: 2.0 {'twice': 4.0}", "again", "again!"]
    assert stream.getvalue().splitlines() == lines


def test_print_shows_the_ends_of_long_tensors_on_standard_error(capsys: Any) -> None:
    tf.print(tf.range(10), summarize=2)
    tf.print(tf.range(10), summarize=-1)

    assert capsys.readouterr().err == "[0 1 ... 8 9]\n[0 1 2 3 4 5 6 7 8 9]\n"


def test_print_refuses_what_is_no_file() -> None:
    with pytest.raises(TypeError, match=r"must be a file such as sys\.stdout"):
        tf.print(1.0, output_stream="somewhere")


def test_print_in_a_branch_prints_only_if_it_is_taken() -> None:
    stream = io.StringIO()

    @tf.function
    def f(x: Any, y: Any) -> None:
        def inner() -> None:
            tf.cond(y > 0.0, lambda: tf.print("both", output_stream=stream), lambda: None)

        tf.cond(x > 0.0, inner, lambda: tf.print("none", output_stream=stream))

    for x, y in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (2.0, 2.0)):
        f(tf.constant(x), tf.constant(y))

    assert stream.getvalue().split() == ["both", "none", "both"]


def test_a_gradient_outside_does_not_print_twice() -> None:
    stream = io.StringIO()

    @tf.function
    def f(x: Any) -> Any:
        tf.print("once", output_stream=stream)
        return x * x

    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)

    assert float(tape.gradient(y, x)) == 6.0
    assert stream.getvalue() == "once\n"


def test_assertions_hold_at_each_call_and_leave_variables_alone() -> None:
    total = tf.Variable(0.0)

    @tf.function
    def add(x: Any) -> Any:
        total.assign_add(x)
        tf.debugging.assert_less(x, 10.0, "too large")
        return total.value()

    assert [float(add(tf.constant(k))) for k in (1.0, 2.0)] == [1.0, 3.0]
    with pytest.raises(ValueError, match=r"too large.*x < y.*\[11\.0\] and \[10\.0\]"):
        add(tf.constant(11.0))
    assert float(total) == 3.0


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (tf.debugging.assert_equal, (1.0, 1.0), (1.0, 2.0)),
        (tf.debugging.assert_none_equal, (1.0, 2.0), (1.0, 1.0)),
        (tf.debugging.assert_less_equal, (1.0, 1.0), (2.0, 1.0)),
        (tf.debugging.assert_greater, (2.0, 1.0), (1.0, 1.0)),
        (tf.debugging.assert_greater_equal, (1.0, 1.0), (0.0, 1.0)),
        (tf.debugging.assert_near, (1.0, 1.0 + 1e-7), (1.0, 1.1)),
        (tf.debugging.assert_positive, (1.0,), (0.0,)),
        (tf.debugging.assert_non_negative, (0.0,), (-1.0,)),
        (tf.debugging.assert_all_finite, (1.0,), (np.inf,)),
        (tf.debugging.assert_that, (True,), (False,)),
    ],
)
def test_each_assertion_eagerly_and_recorded(check: Any, good: Any, bad: Any) -> None:
    for call in (check, tf.function(lambda *args: check(*args))):
        result = call(*map(tf.constant, good))
        assert result is None or (result.numpy() == good and "finite" in check.__name__)
        with pytest.raises(ValueError, match=r"The assertion at .* requires"):
            call(*map(tf.constant, bad))


def test_assertions_take_the_options_of_tensorflow() -> None:
    tf.debugging.assert_equal(1, 1, "of the sizes", summarize=3, name="sizes")
    tf.debugging.assert_near(1.0, 1.0, summarize=3, name="near")
    tf.debugging.assert_positive(1.0, summarize=3, name="positive")
    with tf.GradientTape() as tape:
        x = tf.Variable(3.0)
        y = tf.debugging.assert_all_finite(x * x, "x", name="finite")
    assert tape.gradient(y, x).numpy() == 6.0


def test_check_numerics_returns_its_tensor() -> None:
    f = tf.function(lambda x: tf.debugging.check_numerics(1.0 / x, "the inverse") * 2.0)

    assert float(f(tf.constant(4.0))) == 0.5
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="the inverse"):
        f(tf.constant(0.0))
