"""Matrix products absorb the calls after them, and the results stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.emit.lowering import plain_steps, to_python
from tapegrad.program.graph.graph import Call, Graph, without_dead_calls
from tapegrad.program.passes.epilogues import with_epilogues, with_operand_sums

M, K, N = 5, 4, 3


def draw(*shapes: tuple[int, ...], dtype: str = "float64") -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def record(function: Callable[..., Any], arrays: list[Any]) -> Graph:
    recorded = tf.function(function)
    tensors = [tf.constant(array) for array in arrays]
    recorded(*tensors)
    graph: Graph = recorded.program(*tensors).recorded
    return graph


def run(graph: Graph, arrays: list[Any]) -> Any:
    outputs, _ = to_python(graph, plain_steps(graph))(arrays, [])
    return outputs


def names(graph: Graph) -> list[str]:
    return [call.primitive.name for call in graph.calls]


def sums(graph: Graph) -> list[Call]:
    return [call for call in graph.calls if call.primitive.name == "matmul_sum"]


def parts(call: Call) -> tuple[bool, bool, str | None]:
    return call.params["bias"], call.params["residual"], call.params["activation"]


def passed(
    function: Callable[..., Any],
    arrays: list[Any],
    change: Callable[[Graph], Graph] = with_epilogues,
) -> Graph:
    """Apply the pass, check the results against the recorded graph, and return the graph."""
    before = record(function, arrays)
    after = change(before)
    for one, other in zip(run(after, arrays), run(before, arrays), strict=True):
        assert one.dtype == other.dtype
        tolerance = 1e-13 if one.dtype == "float64" else 1e-5
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    return after


# Calls that are absorbed


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, w, b, r: x @ w + b, (True, False, None)),
        (lambda x, w, b, r: b + x @ w, (True, False, None)),
        (lambda x, w, b, r: x @ w + tf.reshape(b, (1, N)), (True, False, None)),
        (lambda x, w, b, r: x @ w + r, (False, True, None)),
        (lambda x, w, b, r: r + (x @ w + b), (True, True, None)),
        (lambda x, w, b, r: (r + x @ w) + b, (True, True, None)),
        (lambda x, w, b, r: tf.nn.relu(x @ w), (False, False, "relu")),
        (lambda x, w, b, r: tf.nn.relu(x @ w + b), (True, False, "relu")),
        (lambda x, w, b, r: tf.nn.relu(x @ w + r + b), (True, True, "relu")),
    ],
)
def test_a_product_becomes_one_call_with_what_follows_it(function: Any, expected: Any) -> None:
    arrays = draw((M, K), (K, N), (N,), (M, N))

    graph = passed(function, arrays)

    assert names(graph) == ["matmul_sum"]
    assert parts(graph.calls[0]) == expected


@pytest.mark.parametrize("flags", [(False, True), (True, False), (True, True)])
def test_transposes_are_kept(flags: tuple[bool, bool]) -> None:
    first, second = (K, M) if flags[0] else (M, K), (N, K) if flags[1] else (K, N)
    arrays = draw(first, second, (N,))

    graph = passed(lambda x, w, b: tf.matmul(x, w, *flags) + b, arrays)

    assert names(graph) == ["matmul_sum"]
    assert (graph.calls[0].params["transpose_a"], graph.calls[0].params["transpose_b"]) == flags


def test_what_comes_after_the_activation_stays() -> None:
    arrays = draw((M, K), (K, N), (N,), (M, N))

    graph = passed(lambda x, w, b, r: tf.nn.relu(tf.nn.relu(x @ w + b) + r), arrays)

    assert names(graph) == ["matmul_sum", "add", "relu"]
    assert parts(graph.calls[0]) == (True, False, "relu")


def test_one_bias_and_one_residual_are_taken_in() -> None:
    arrays = draw((M, K), (K, N), (N,), (N,), (M, N), (M, N))

    graph = passed(lambda x, w, b, c, r, s: x @ w + b + r + s + c, arrays)

    assert names(graph) == ["matmul_sum", "add", "add"]
    assert parts(graph.calls[0]) == (True, True, None)


def test_a_single_row_can_be_bias_and_residual() -> None:
    arrays = draw((1, K), (K, N), (N,), (1, N))

    graph = passed(lambda x, w, b, r: x @ w + b + r, arrays)

    assert parts(graph.calls[0]) == (True, True, None)


def test_gelu_is_taken_in_where_few_bits_are_stored_only() -> None:
    shapes = (M, K), (K, N), (N,)

    def layer(x: Any, w: Any, b: Any) -> Any:
        return tf.nn.gelu(x @ w + b, approximate=True)

    half = with_epilogues(record(layer, draw(*shapes, dtype="float16")))
    single = passed(layer, draw(*shapes, dtype="float32"))

    assert [parts(call) for call in half.calls] == [(True, False, "gelu_tanh")]
    assert names(single) == ["matmul_sum", "gelu_tanh"]


# Several products


def test_of_two_products_the_later_takes_in_the_sum() -> None:
    arrays = draw((M, K), (K, N), (M, K), (K, N), (N,))

    graph = passed(lambda x, w, h, u, b: tf.tanh(x @ w + h @ u + b), arrays)

    assert names(graph) == ["matmul", "matmul_sum", "tanh"]
    assert parts(graph.calls[1]) == (True, True, None)
    assert graph.calls[1].operands[3] == graph.calls[0].results[0]


def test_two_layers_that_are_added_are_two_calls() -> None:
    arrays = draw((M, K), (K, N), (N,), (M, K), (K, N), (N,))

    graph = passed(lambda x, w, b, h, u, c: (x @ w + b) + (h @ u + c), arrays)

    assert names(graph) == ["matmul_sum", "matmul_sum"]
    assert [parts(call) for call in graph.calls] == [(True, False, None), (True, True, None)]


def test_a_sum_of_many_products_is_a_chain_of_calls() -> None:
    arrays = draw(*[(M, K), (K, N)] * 4)

    def total(*xs: Any) -> Any:
        products = [x @ w for x, w in zip(xs[::2], xs[1::2])]
        return ((products[0] + products[1]) + products[2]) + products[3]

    assert names(passed(total, arrays)) == ["matmul", "matmul_sum", "matmul_sum", "matmul_sum"]


def test_layers_with_their_gradients() -> None:
    arrays = draw((M, K), (K, N), (N,), (N, N), (N,), (M, N))

    def step(x: Any, w: Any, b: Any, u: Any, c: Any, r: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, b, u, c])
            hidden = tf.nn.relu(x @ w + b)
            loss = tf.reduce_sum(tf.square(r + (hidden @ u + c)))
        return loss, tape.gradient(loss, [w, b, u, c])

    graph = passed(step, arrays)

    assert [parts(call) for call in sums(graph)] == [(True, False, "relu"), (True, True, None)]


def test_gradients_that_add_up_over_time() -> None:
    arrays = draw((3, M, K), (K, N), (N, N), (N,), (M, N))

    def step(x: Any, w: Any, u: Any, b: Any, h: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, u, b])
            for t in range(3):
                h = tf.tanh(x[t] @ w + h @ u + b)
            loss = tf.reduce_sum(h * h)
        return loss, tape.gradient(loss, [w, u, b])

    graph = passed(step, arrays)

    # Three cells, and the second and third share of two matrices' gradients.
    assert (
        sorted(parts(call)[:2] for call in sums(graph)) == [(False, True)] * 4 + [(True, True)] * 3
    )


# Calls that are not absorbed


def unchanged(function: Callable[..., Any], arrays: list[Any]) -> None:
    before = record(function, arrays)

    assert without_dead_calls(before) == before
    assert with_epilogues(before) == before


def test_a_product_that_is_read_twice() -> None:
    arrays = draw((M, K), (K, N), (N,))

    def twice(x: Any, w: Any, b: Any) -> Any:
        y = x @ w
        return (y + b) * y

    unchanged(twice, arrays)


def test_a_product_that_is_added_to_itself_or_to_what_depends_on_it() -> None:
    arrays = draw((M, K), (K, N))

    def with_itself(x: Any, w: Any) -> Any:
        y = x @ w
        return y + y

    def with_its_sine(x: Any, w: Any) -> Any:
        y = x @ w
        return y + tf.sin(y)

    unchanged(with_itself, arrays)
    unchanged(with_its_sine, arrays)


def test_a_product_that_is_returned() -> None:
    arrays = draw((M, K), (K, N), (N,))

    def both(x: Any, w: Any, b: Any) -> Any:
        y = x @ w
        return y, y + b

    unchanged(both, arrays)


def test_a_sum_that_is_read_besides_its_activation_is_where_it_ends() -> None:
    arrays = draw((M, K), (K, N), (N,))

    def layer(x: Any, w: Any, b: Any) -> Any:
        y = x @ w + b
        return tf.nn.relu(y) * y

    graph = passed(layer, arrays)

    assert names(graph) == ["matmul_sum", "relu", "multiply"]


@pytest.mark.parametrize("shape", [(), (1,), (M, 1), (1, N), (2, M, N)], ids=str)
def test_operands_that_are_broadcast_in_another_way(shape: tuple[int, ...]) -> None:
    unchanged(lambda x, w, r: x @ w + r, draw((M, K), (K, N), shape))


def test_a_number() -> None:
    unchanged(lambda x, w: x @ w + 1.0, draw((M, K), (K, N)))


def test_an_operand_of_another_dtype() -> None:
    x, w, r = draw((M, K), (K, N), (M, N))
    x32, w32, r32 = [array.astype("float32") for array in (x, w, r)]

    unchanged(lambda x, w, r: x @ w + r, [x32, w32, r])
    unchanged(lambda x, w, r: x @ w + r, [x32, w, r])
    unchanged(lambda x, w, r: x @ w + r, [x, w, r32])


def test_complex_and_whole_numbers() -> None:
    unchanged(lambda x, w, b: x @ w + b, draw((M, K), (K, N), (N,), dtype="complex128"))
    unchanged(lambda x, w, b: x @ w + b, draw((M, K), (K, N), (N,), dtype="int64"))


ROWS = ((2, 3, K), (K, N), (N,), (2, 3, N))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, w, b, r: tf.nn.relu(x @ w), (False, False, "relu")),
        (lambda x, w, b, r: x @ w + b, (True, False, None)),
        (lambda x, w, b, r: tf.nn.relu(x @ w + b), (True, False, "relu")),
        (lambda x, w, b, r: r + (x @ w + b), (True, True, None)),
        (lambda x, w, b, r: tf.sin(tf.reshape(x @ w + b, (3, 2, N)) + 1.0), (True, False, None)),
    ],
)
def test_stacks_of_rows(function: Any, expected: Any) -> None:
    """They are multiplied as one matrix, and the result gets its shape afterwards."""
    graph = passed(lambda *arrays: (function(*arrays),), draw(*ROWS))

    assert [parts(call) for call in sums(graph)] == [expected]
    assert not {"relu", "matmul"} & {*names(graph)}


def test_layers_of_stacks_of_rows_with_their_gradients() -> None:
    def step(x: Any, w: Any, b: Any, r: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w, b])
            loss = tf.reduce_sum(tf.nn.relu(x @ w + b) * r)
        return tape.gradient(loss, [x, w, b])

    graph = passed(step, draw(*ROWS))

    assert [parts(call) for call in sums(graph)] == [(True, False, "relu")]


def test_stacks_of_matrices() -> None:
    unchanged(lambda x, w, b: x @ w + b, draw((2, M, K), (2, K, N), (N,)))


def test_a_program_keeps_its_inputs_outputs_and_variables() -> None:
    w = tf.Variable(np.ones((K, N)))
    x = tf.constant(draw((M, K))[0])

    @tf.function
    def step(x: Any, b: Any) -> Any:
        y = x @ w + b
        w.assign_add(tf.ones((K, N), "float64"))
        return y

    b = tf.constant(np.ones(N))
    step(x, b)
    before = step.program(x, b).recorded

    after = with_epilogues(before)

    assert "matmul_sum" in names(after)
    assert (after.inputs, after.outputs) == (before.inputs, before.outputs)
    assert (after.variables, after.written) == (before.variables, before.written)


# Sums of operands


@pytest.mark.parametrize("flags", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("of_first", [False, True])
def test_a_product_sums_up_an_operand(flags: tuple[bool, bool], of_first: bool) -> None:
    first, second = (K, M) if flags[0] else (M, K), (N, K) if flags[1] else (K, N)
    axis = (0 if flags[0] else 1) if of_first else (1 if flags[1] else 0)

    def both(x: Any, t: Any) -> Any:
        total = tf.reduce_sum(x if of_first else t, axis=axis)
        return tf.matmul(x, t, *flags), total * 2.0

    graph = passed(both, draw(first, second), with_operand_sums)

    assert names(graph) == ["matmul_with_sums", "multiply"]
    assert graph.calls[0].params["of_first"] == of_first


def test_the_gradients_of_layers_are_found_in_one_call_each() -> None:
    arrays = draw((M, K), (K, N), (N,), (N, N), (N,))

    def step(x: Any, w: Any, b: Any, u: Any, c: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, b, u, c])
            hidden = tf.nn.relu(x @ w + b)
            loss = tf.reduce_sum(tf.square(hidden @ u + c))
        return loss, tape.gradient(loss, [w, b, u, c])

    graph = passed(step, arrays, lambda graph: with_operand_sums(with_epilogues(graph)))

    assert names(graph).count("matmul_with_sums") == names(graph).count("matmul_sum") == 2
    assert names(graph).count("sum") == 1


def test_small_products_leave_sums_to_loops() -> None:
    def both(x: Any, t: Any) -> Any:
        return x @ t, tf.reduce_sum(t, axis=0)

    before = record(both, draw((M, K), (K, N)))

    assert with_operand_sums(before, least=M * K * N + 1) == before
    assert names(with_operand_sums(before, least=M * K * N)) == ["matmul_with_sums"]


def test_deep_products_leave_sums_to_loops() -> None:
    def both(x: Any, t: Any) -> Any:
        return tf.matmul(x, t, transpose_a=True), tf.reduce_sum(t, axis=0)

    deep = record(both, draw((100_000, 2), (100_000, 3), dtype="float32"))
    wide = record(both, draw((2_000, 2), (2_000, 3), dtype="float32"))

    assert with_operand_sums(deep) == deep
    assert names(with_operand_sums(wide)) == ["matmul_with_sums"]


def test_one_sum_goes_into_one_product() -> None:
    arrays = draw((K, M), (K, M), (K, N))

    def three(x: Any, y: Any, t: Any) -> Any:
        transposed = [tf.matmul(side, t, transpose_a=True) for side in (x, y)]
        return *transposed, tf.reduce_sum(t, axis=0)

    graph = passed(three, arrays, with_operand_sums)

    assert names(graph) == ["matmul_with_sums", "matmul"]


@pytest.mark.parametrize("options", [{"axis": 1}, {"axis": 0, "keepdims": True}, {"axis": None}])
def test_other_sums_stay(options: dict[str, Any]) -> None:
    def both(x: Any, t: Any) -> Any:
        return x @ t, tf.reduce_sum(t, **options)

    before = record(both, draw((M, K), (K, N)))

    assert with_operand_sums(before) == before


def test_sums_that_the_product_depends_on_stay() -> None:
    def scaled(x: Any, t: Any) -> Any:
        return (x * tf.reduce_sum(t, axis=0)[0]) @ t

    before = record(scaled, draw((M, K), (K, N)))

    assert with_operand_sums(before) == before
