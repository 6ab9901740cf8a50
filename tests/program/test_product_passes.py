from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.errors import RecordingError
from tapegrad.program.graph.dependence import Dependence, in_order
from tapegrad.program.graph.graph import Call
from tapegrad.program.passes import products
from tapegrad.program.passes.products import with_joined_products
from tests.program.recorded_graphs import assert_same_results, count, recorded


def draw(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(len(shapes))
    return [rng.normal(size=shape) for shape in shapes]


def check(function: Any, arrays: list[Any], left: int) -> Any:
    """Apply the pass, compare the results and count the products that are left."""
    before = recorded(function, arrays)

    after = with_joined_products(before)

    assert_same_results(before, after, arrays)
    assert count(after, "matmul") == left
    return after


# Recurrent networks


def rnn_step(x: Any, h: Any, weights: list[Any]) -> Any:
    return tf.tanh(x @ weights[0] + h @ weights[1] + weights[2])


def rnn(steps: Any) -> Any:
    def run(x: Any, h: Any, *weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            for part in steps(x):
                h = rnn_step(part, h, weights)
            loss = tf.reduce_mean(h * h)
        return (loss, *tape.gradient(loss, weights))

    return run


STEPS = {
    "slices": lambda x: [x[t] for t in range(x.shape[0])],
    "slices-from-the-end": lambda x: [x[t - x.shape[0]] for t in range(x.shape[0])],
    "unstacked": tf.unstack,
    "rows-of-a-matrix": lambda x: tf.split(tf.reshape(x, (-1, 6)), x.shape[0]),
}
RNN = draw((5, 4, 6), (4, 3), (6, 3), (3, 3), (3,))


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_steps_of_a_recurrent_network_share_the_products_that_do_not_wait(steps: Any) -> None:
    # 5 of states and 4 of their cotangents wait for each other; then 1 of inputs, 2 for weights.
    after = check(rnn(steps), RNN, left=5 + 4 + 3)

    # States, and cotangents once for both weights; the inputs lie one after the other already.
    assert count(after, "concat") == 2
    # So does the bias.
    assert count(after, "sum") == 1


def test_some_of_the_steps_are_a_part_of_the_array() -> None:
    after = check(rnn(lambda x: [x[t] for t in range(1, 5)]), RNN, left=4 + 3 + 3)

    assert count(after, "concat") == 2


def test_a_second_application_changes_nothing() -> None:
    once = with_joined_products(recorded(rnn(tf.unstack), RNN))

    assert str(with_joined_products(once)) == str(once)


def test_variables_are_written_with_what_joined_products_give() -> None:
    weights = [tf.Variable(array) for array in RNN[2:]]

    def train(x: Any, h: Any) -> Any:
        with tf.GradientTape() as tape:
            for part in tf.unstack(x):
                h = rnn_step(part, h, weights)
            loss = tf.reduce_sum(h)
        for variable, gradient in zip(weights, tape.gradient(loss, weights)):
            variable.assign_sub(gradient)
        return (loss,)

    before = recorded(train, RNN[:2], weights)
    after = with_joined_products(before)

    assert len(after.written) == 3
    assert count(after, "matmul") == 5 + 4 + 3
    assert_same_results(before, after, RNN[:2], RNN[2:])


# Sums of products

MATRICES = draw(*[(4, 5)] * 4, *[(5, 4)] * 4, (4, 4))


def test_a_sum_of_products_is_one_product() -> None:
    def total(*m: Any) -> Any:
        return (m[0] @ m[4] + (m[1] @ m[5] + m[2] @ m[6]) + m[3] @ m[7],)

    after = check(total, MATRICES, left=1)

    assert count(after, "add") == 0
    assert count(after, "concat") == 2


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_transposed_operands_are_stacked_along_what_is_added_up(
    transpose_a: bool, transpose_b: bool
) -> None:
    left = draw(*[(n, 2) if transpose_a else (2, n) for n in (3, 4, 5)])
    right = draw(*[(6, n) if transpose_b else (n, 6) for n in (3, 4, 5)])

    def total(*m: Any) -> Any:
        flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        return (tf.add_n([tf.matmul(a, b, **flags) for a, b in zip(m[:3], m[3:])]),)

    check(total, [*left, *right], left=1)


def test_what_is_no_product_stays_an_addend() -> None:
    def total(*m: Any) -> Any:
        return (m[0] @ m[4] + m[8] + m[1] @ m[5] + (m[8] * 2.0 + m[2] @ m[6]),)

    after = check(total, MATRICES, left=1)

    assert count(after, "add") == 2


def test_products_of_several_forms_in_one_sum_are_joined_form_by_form() -> None:
    def total(*m: Any) -> Any:
        plain = [m[k] @ m[k + 4] for k in range(3)]
        turned = [tf.matmul(m[k], m[k], transpose_b=True) for k in range(3)]
        return (tf.add_n([*plain, *turned]),)

    check(total, MATRICES, left=2)


def test_two_products_are_left_alone() -> None:
    check(lambda *m: (m[0] @ m[4] + m[1] @ m[5],), MATRICES, left=2)


def test_a_product_that_is_used_elsewhere_is_left_alone() -> None:
    def total(*m: Any) -> Any:
        first = m[0] @ m[4]
        return first + m[1] @ m[5] + m[2] @ m[6], first

    check(total, MATRICES, left=3)


def test_a_sum_that_is_used_elsewhere_ends_the_tree() -> None:
    def total(*m: Any) -> Any:
        first = m[0] @ m[4] + m[1] @ m[5]
        return first + m[2] @ m[6], tf.exp(first)

    check(total, MATRICES, left=3)


def test_a_product_that_is_added_to_itself_is_left_alone() -> None:
    def total(*m: Any) -> Any:
        product = m[0] @ m[4]
        return (product + product + m[1] @ m[5] + m[2] @ m[6],)

    check(total, MATRICES, left=3)


def test_a_sum_that_broadcasts_is_no_part_of_the_tree() -> None:
    def total(a: Any, b: Any, c: Any, d: Any) -> Any:
        return (a @ b + c @ d + c @ d[:, :1],)

    check(total, draw((4, 5), (5, 3), (4, 5), (5, 3)), left=3)


def test_sums_of_rows_are_left_alone_where_nothing_stacks_the_matrices() -> None:
    def total(*m: Any) -> Any:
        return (tf.add_n([tf.reduce_sum(each, 0) for each in m[:4]]),)

    after = check(total, MATRICES, left=0)

    assert (count(after, "sum"), count(after, "concat")) == (4, 0)


def test_sums_of_rows_of_stacked_matrices_are_one_next_to_what_else_is_added() -> None:
    def total(*m: Any) -> Any:
        gradient = tf.add_n([tf.matmul(m[k], m[k], transpose_a=True) for k in range(3)])
        rows = [tf.reduce_sum(m[k], 0) for k in range(3)]
        return gradient, rows[0] + m[4][:, 0] + rows[1] + rows[2]

    after = check(total, MATRICES, left=1)

    assert (count(after, "sum"), count(after, "concat")) == (1, 1)


# Products that share a factor


def test_products_with_the_same_right_factor_are_rows_of_one() -> None:
    def several(*m: Any) -> Any:
        return tuple(tf.exp(m[k] @ m[4]) for k in range(4))

    after = check(several, draw((2, 5), (3, 5), (1, 5), (2, 5), (5, 4)), left=1)

    assert count(after, "concat") == 1
    assert count(after, "slice") == 4


def test_a_transposed_right_factor_can_be_shared() -> None:
    def several(*m: Any) -> Any:
        return tuple(tf.exp(tf.matmul(m[k], m[3], transpose_b=True)) for k in range(3))

    check(several, draw((2, 5), (3, 5), (1, 5), (4, 5)), left=1)


@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_with_the_same_left_factor_are_columns_of_one(transpose_b: bool) -> None:
    def several(x: Any, *m: Any) -> Any:
        return tuple(tf.exp(tf.matmul(x, each, transpose_b=transpose_b)) for each in m)

    shapes = [(n, 5) if transpose_b else (5, n) for n in (2, 3, 4)]

    check(several, draw((6, 5), *shapes), left=1)


def test_a_product_that_depends_on_another_is_not_joined_with_it() -> None:
    def chain(x: Any, w: Any) -> Any:
        for _ in range(4):
            x = tf.tanh(x @ w)
        return (x,)

    check(chain, draw((3, 4), (4, 4)), left=4)


def test_chains_side_by_side_are_joined_link_by_link() -> None:
    def chains(a: Any, b: Any, c: Any, w: Any) -> Any:
        parts = [a, b, c]
        for _ in range(2):
            parts = [tf.tanh(part @ w) for part in parts]
        return tuple(parts)

    check(chains, draw((2, 4), (3, 4), (1, 4), (4, 4)), left=2)


def test_groups_that_would_wait_for_each_other_in_a_circle_are_not_both_joined() -> None:
    def crossed(x: Any, y: Any, v: Any, w: Any) -> Any:
        # One product with v needs one with w, and one with w needs one with v.
        first, second = tf.tanh(x @ v), tf.tanh(y @ w)
        third, fourth = tf.exp(first @ w), tf.exp(second @ v)
        return third, fourth, tf.sin((x * 2.0) @ v), tf.sin((y * 2.0) @ w)

    # Three with v, three with w: one of the two groups is joined.
    check(crossed, draw((3, 4), (3, 4), (4, 4), (4, 4)), left=1 + 3)


def test_products_that_are_results_are_left_alone() -> None:
    check(lambda a, b, c, w: (a @ w, b @ w, c @ w), draw(*[(4, 4)] * 4), left=3)


def test_gradients_of_weights_are_not_cut_out_of_a_wider_one() -> None:
    def several(x: Any, *m: Any) -> Any:
        return tuple(tf.exp(tf.matmul(x, each, transpose_a=True)) for each in m)

    check(several, draw(*[(4, 5)] * 4), left=3)


def test_products_of_several_dtypes_are_left_alone() -> None:
    a, b, c, w = draw(*[(4, 4)] * 4)

    def several(*m: Any) -> Any:
        return tuple(tf.exp(each @ tf.cast(m[3], each.dtype)) for each in m[:3])

    check(several, [a, b.astype("float32"), c, w], left=3)


def test_large_products_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def several(*m: Any) -> Any:
        return tf.exp(m[0] @ m[3]), tf.exp(m[1] @ m[3]), tf.exp(m[2] @ m[3])

    monkeypatch.setattr(products, "SMALL", 4**3)

    check(several, draw(*[(4, 4)] * 4), left=3)


def test_empty_products_are_left_alone() -> None:
    arrays = [np.zeros((0, 4)), np.zeros((0, 4)), np.zeros((0, 4)), np.zeros((4, 4))]

    check(lambda *m: tuple(tf.exp(each @ m[3]) for each in m[:3]), arrays, left=3)


def test_residual_connections_keep_their_order() -> None:
    def network(x: Any, w: Any, v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, v])
            y = x
            for _ in range(3):
                y = y + tf.tanh(y @ w) @ v
            loss = tf.reduce_sum(y)
        return (loss, *tape.gradient(loss, [w, v]))

    # 6 forward, 5 back to what comes before (none to x), and one for each weight.
    check(network, draw((4, 5), (5, 3), (3, 5)), left=6 + 5 + 2)


# Order


def test_dependence_is_what_a_walk_along_the_calls_finds() -> None:
    graph = recorded(rnn(tf.unstack), RNN)
    calls = graph.calls
    reach: list[set[int]] = []
    for place, call in enumerate(calls):
        reads = {value.number for value in call.reads}
        direct = [p for p in range(place) if reads & {v.number for v in calls[p].results}]
        reach.append({place}.union(*[reach[p] for p in direct]))

    found = [*Dependence(calls).needs.values()]

    assert [{p for p in range(len(calls)) if mask >> p & 1} for mask in found] == reach


def test_calls_are_brought_into_an_order_and_stay_where_they_can() -> None:
    calls = recorded(lambda x: (tf.exp(tf.sin(tf.cos(x))) + tf.tanh(x),), draw((3,))).calls
    cos, sin, exp, tanh, plus = calls

    assert in_order(calls) == calls
    assert in_order([plus, tanh, exp, sin, cos]) == (cos, sin, exp, tanh, plus)
    assert in_order([tanh, exp, cos, sin, plus]) == (tanh, cos, sin, exp, plus)


def test_calls_with_effects_stay_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = recorded(lambda x: (tf.exp(x), tf.sin(x), tf.cos(x) * tf.sin(x)), draw((3,)))
    exp, sin, cos, times = graph.calls
    for name in ("exp", "sin"):
        monkeypatch.setattr(PRIMITIVES[name], "effects", True)

    assert in_order([times, exp, sin, cos]) == (cos, exp, sin, times)
    assert in_order([cos, exp, times, sin]) == (cos, exp, sin, times)


def test_a_circle_is_reported() -> None:
    exp, sin = recorded(lambda x: (tf.sin(tf.exp(x)),), draw((3,))).calls
    circle = Call(exp.primitive, sin.results, {}, exp.results, exp.array_type)

    with pytest.raises(RecordingError, match="depend on each other in a cycle"):
        in_order([circle, sin])


def test_thousands_of_calls_take_little_time() -> None:
    arrays = draw((150, 2, 3), (2, 3), (3, 3), (3, 3), (3,))
    graph = recorded(rnn(tf.unstack), arrays)
    assert len(graph.calls) > 2000

    start = time.process_time()
    Dependence(graph.calls)

    assert time.process_time() - start < 0.5
    assert replace(graph, calls=in_order(graph.calls)) == graph
