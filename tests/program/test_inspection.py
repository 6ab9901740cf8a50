"""Inspection of programs: text, source, costs and memory."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.arena import Plan, Request, check
from tapegrad.program.inspect.inspection import Inspectable
from tests.program.inspected_programs import mlp_step, program_of, use_loops, variable
from tests.program.reference_loops import Reference

FLOAT = 4


@pytest.fixture(autouse=True)
def _loops(monkeypatch: pytest.MonkeyPatch) -> None:
    use_loops(monkeypatch, Reference())


# Text


def text_is(program: Inspectable, expected: str) -> bool:
    return str(program) == dedent(expected).strip("\n")


def test_calls_are_written_as_they_were_recorded() -> None:
    program = program_of(lambda x: tf.sort(x)[1:], tf.ones([3]))

    assert text_is(
        program,
        """
        2 recorded calls, 2 steps; runs on NumPy
        inputs: %1:float32[3]
          %2:float32[3] = sort(%1:float32[3], axis=0, descending=False)
          %3:float32[2] = slice(%2:float32[3], index=(slice(1, 3, 1),))
        outputs: %3:float32[2]
        """,
    )


def test_a_loop_says_what_it_fuses_reads_and_combines() -> None:
    w, b = variable(3, 4, name="kernel"), variable(4)

    program = program_of(lambda x: tf.reduce_sum(tf.nn.relu(x @ w + b), axis=0), tf.ones([2, 3]))

    assert text_is(
        program,
        """
        4 recorded calls, 2 steps, 1 of them a loop; runs on NumPy, loops in C
        inputs: %1:float32[2, 3]
        variable 1: %2:float32[3, 4] 'kernel:0'
        variable 2: %3:float32[4]
          %4:float32[2, 4] = matmul(%1:float32[2, 3], %2:float32[3, 4], transpose_a=False, transpose_b=False)
          %7:float32[4] = loop over [2, 4] of (add, relu, sum)(%3[4], %4); %7 is the sum along axis 0
        outputs: %7:float32[4]
        """,  # noqa: E501
    )


def test_joined_loops_have_a_line_each_with_the_variables_that_they_write_over() -> None:
    variables = [variable(4), variable(2)]

    def shrink(scale: Any) -> None:
        for each in variables:
            each.assign_sub(scale * each)

    program = program_of(shrink, tf.constant(0.5))

    assert text_is(
        program,
        """
        4 recorded calls, 1 step, a loop; runs on NumPy, loops in C
        inputs: %1:float32[]
        variable 1: %2:float32[4]
        variable 2: %3:float32[2]
          joined 2 loops of (multiply, subtract)
            %5:float32[4] = over [4](%2, %1[]); %5 written over variable 1
            %7:float32[2] = over [2](%3, %1[]); %7 written over variable 2
        variable 1 becomes %5
        variable 2 becomes %7
        outputs: none
        """,
    )


def test_a_mean_a_constant_and_a_repeated_call_are_told() -> None:
    table = tf.constant(np.arange(6.0).reshape(2, 3))

    program = program_of(lambda x: tf.reduce_mean(x * x * table), tf.ones([2, 3], "float64"))

    lines = str(program).split("\n")
    assert "constant: %3:float64[2, 3]" in lines
    assert lines[-2] == (
        "  %5:float64[] = loop over [2, 3] of (multiply x2, mean)(%3, %1); "
        "%5 is the mean along axes 0, 1"
    )


def test_a_program_without_calls_runs_nothing() -> None:
    program = program_of(lambda x: x, tf.ones([2]))

    assert str(program).startswith("0 recorded calls, 0 steps; nothing runs\n")
    assert (program.kernels(), program.memory().peak, program.memory().outputs) == ([], 0, 0)
    assert "input0 -> output0" in program.dot()


class Replay:
    """The information about a run that a GPU backend reports."""

    refused_at = None

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __call__(self, inputs: Any, variables: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("", "runs as one CUDA graph"),
        ("It reads values.", "launch by launch, because it reads values"),
    ],
)
def test_the_first_line_says_whether_a_program_is_one_graph(reason: str, words: str) -> None:
    program = program_of(tf.sort, tf.ones([3]))

    program._run = Replay(reason)

    assert str(program).split("\n")[0] == f"1 recorded call, 1 step; {words}"


# Source


def test_the_source_is_the_python_that_runs_and_the_formulas_of_loops() -> None:
    b = variable(4)

    program = program_of(lambda x: tf.reduce_sum(tf.sort(x) * 2.0 + b, axis=0), tf.ones([3, 4]))

    assert program.source() == dedent(
        """\
        def run(inputs, variables):
            v1, = inputs
            v2, = variables
            v3 = k0(v1, axis=1, descending=False)  # sort
            v1 = None
            v6, = k1((v2, v3, ), (None, ))  # loop
            v2 = v3 = None
            return (v6, ), ()

        // k1: loop over [3, 4] of (multiply, add, sum)
        const float v0 = a1 * (float)(0x1.0000000000000p+1);
        const float v1 = v0 + a0;
        r0 = v1;  // then the sum along axis 0
        """
    )


def test_a_target_that_tells_its_text_is_believed_and_equal_texts_come_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Telling(Reference):
        def source(self, run: Any) -> str:
            return "void loop() {}"

    use_loops(monkeypatch, Telling())

    program = program_of(lambda x: tf.exp(tf.sort(tf.sin(x))), tf.ones([3]))

    assert program.source().split("\n\n", 1)[1] == (
        "// k0: loop over [3] of (sin)\n// k2: loop over [3] of (exp)\nvoid loop() {}\n"
    )


def test_values_that_python_cannot_spell_are_passed_by_name() -> None:
    program = program_of(lambda x: tf.minimum(tf.sort(x), np.inf), tf.ones([3]))

    result = program([np.array([3.0, 1.0, 2.0], "float32")])

    assert [array.tolist() for array in result] == [[1.0, 2.0, 3.0]]


# Costs


def test_the_kernels_of_a_training_step_cost_what_a_hand_count_says() -> None:
    kernels = mlp_step().kernels()

    n, i, h, o = 3, 5, 7, 2
    sizes = i * h + h + h * o
    expected = [
        ("matmul", n * i + i * h, n * h, 2 * n * i * h),
        ("loop", h + n * h, n * h, 2 * n * h),  # add, relu
        ("matmul", n * h + h * o, n * o, 2 * n * h * o),
        ("loop", 2 * n * o, 1 + n * o, (3 + 1) * n * o + 1),  # -, square, *; sum; one division
        ("matmul", n * o + h * o, n * h, 2 * n * h * o),
        ("matmul", n * h + n * o, h * o, 2 * n * h * o),
        ("loop", 2 * n * h, n * h + h, (2 + 1) * n * h),  # greater, where; sum
        ("matmul", n * i + n * h, i * h, 2 * n * i * h),
        ("loop", 2 * sizes, sizes, 2 * sizes),  # the gradient times 0.1, and the difference
    ]
    assert [
        (k.name, k.bytes_read // FLOAT, k.bytes_written // FLOAT, k.flops) for k in kernels
    ] == expected
    assert kernels[-1].what == "multiply, subtract, 3 loops joined"
    assert kernels[6].what == "keep, sum over [3, 7]; sum along axis 0"
    assert (kernels[0].shape, kernels[1].shape, kernels[-1].shape) == ((3, 7), (3, 7), (sizes,))


def test_totals_are_the_sums_and_the_table_ends_with_them() -> None:
    program = mlp_step()

    cost = program.cost()

    assert cost.flops == sum(kernel.flops for kernel in program.kernels()) == 914
    assert cost.bytes_read == 1448
    assert cost.bytes_written == 836
    lines = str(cost).split("\n")
    assert len(lines) == 11
    assert lines[-1].split() == ["total", "1.4", "KiB", "836", "bytes", "914", "9", "kernels"]


def flops_of(function: Callable[..., Any], *shapes: tuple[int, ...]) -> dict[str, int]:
    arrays = [tf.constant(np.ones(shape, "float32")) for shape in shapes]
    return {kernel.name: kernel.flops for kernel in program_of(function, *arrays).kernels()}


def test_a_stack_of_products_counts_each_of_them() -> None:
    found = flops_of(tf.matmul, (6, 2, 3), (6, 3, 4))

    assert found["matmul_stack"] == 6 * 2 * 2 * 3 * 4


def test_a_product_with_a_vector_counts_two_per_element() -> None:
    assert flops_of(tf.linalg.matvec, (5, 3), (3,)) == {"matvec": 2 * 5 * 3}


def test_a_convolution_and_its_gradients_count_the_same() -> None:
    def gradients(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.nn.conv2d(x, w, strides=1, padding="SAME")
        return tape.gradient(y, [x, w], output_gradients=tf.sort(y))

    found = flops_of(gradients, (2, 8, 8, 3), (3, 3, 3, 5))

    each = 2 * (2 * 8 * 8 * 5) * (3 * 3 * 3)
    for name in ("conv", "conv_input_gradient", "conv_filter_gradient"):
        assert found[name] == each


@pytest.mark.parametrize(("causal", "pairs"), [(False, 8 * 8), (True, 8 * 9 // 2)])
def test_attention_counts_the_pairs_that_see_each_other(causal: bool, pairs: int) -> None:
    def gradients(q: Any, k: Any, v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([q, k, v])
            y = tf.nn.scaled_dot_product_attention(q, k, v, causal=causal)
        return tape.gradient(y, [q, k, v], output_gradients=tf.sort(y))

    found = flops_of(gradients, (2, 3, 8, 4), (2, 3, 8, 4), (2, 3, 8, 6))

    products_with_keys_and_values = 2 * 2 * 3 * pairs * (4 + 6)
    assert found["attention"] == products_with_keys_and_values
    assert found["attention_gradient"] == 2 * products_with_keys_and_values


def test_calls_that_are_not_fused_count_as_loops_do(monkeypatch: pytest.MonkeyPatch) -> None:
    use_loops(monkeypatch, None)

    program = program_of(lambda x: tf.reduce_sum(tf.nn.relu(x)), tf.ones([4, 5]))

    assert [(k.name, k.flops) for k in program.kernels()] == [("relu", 20), ("sum", 20)]


def test_views_move_nothing_and_picking_reads_only_what_is_picked() -> None:
    rows = tf.constant(np.array([0, 2, 2]))

    program = program_of(lambda x: tf.reshape(tf.sort(tf.gather(x, rows)), [12]), tf.ones([100, 4]))

    moved = {k.name: (k.bytes_read, k.bytes_written) for k in program.kernels()}
    (picked,) = [name for name in moved if name in ("take", "gather_rows")]
    assert moved[picked] == (3 * 4 * FLOAT + 3 * 8, 3 * 4 * FLOAT)
    assert moved["sort"] == (48, 48)
    assert moved["reshape"] == (0, 0)


# Memory


def test_a_chain_holds_two_neighbours_at_a_time() -> None:
    shapes = [(10, 20), (20, 30), (30, 5), (5, 40), (40, 1)]
    tensors = [tf.ones(shape) for shape in shapes]

    plan = program_of(lambda a, b, c, d, e: a @ b @ c @ d @ e, *tensors).memory()

    first, second, third = 10 * 30 * FLOAT, 10 * 5 * FLOAT, 10 * 40 * FLOAT
    assert plan.live == (first, first + second, second + third, third)
    assert plan.peak == second + third
    assert plan.inputs == sum(a * b for a, b in shapes) * FLOAT
    assert (plan.outputs, plan.variables, plan.new_values) == (10 * FLOAT, 0, 0)


def test_values_that_live_at_once_lie_in_different_places() -> None:
    plan = mlp_step().memory()

    requests = [Request(held.value.nbytes, held.first, held.last) for held in plan.held]
    check(requests, Plan(tuple(held.offset for held in plan.held), plan.block, plan.peak))
    assert plan.peak <= plan.block <= 256 * len(requests)
    assert plan.total == plan.inputs + plan.variables + plan.block + plan.outputs


def test_what_is_written_over_a_variable_needs_no_memory_and_what_is_not_does() -> None:
    a, b = variable(8), variable(8)

    def step(x: Any) -> None:
        a.assign_add(x)
        b.assign(tf.sort(x))

    plan = program_of(step, tf.ones([8])).memory()

    assert (plan.variables, plan.new_values, plan.held) == (2 * 8 * FLOAT, 8 * FLOAT, ())


def test_a_view_keeps_alive_what_it_shows() -> None:
    def function(x: Any) -> Any:
        flat = tf.reshape(tf.sort(x), [12])
        return tf.sort(tf.sort(tf.reverse(flat, [0]))) @ tf.reshape(flat, [12, 1])

    plan = program_of(function, tf.ones([3, 4])).memory()

    (shown,) = [held for held in plan.held if held.value.shape == (3, 4)]
    assert shown.last == len(plan.live) - 1


def test_the_memory_table_names_what_is_there_at_the_peak() -> None:
    tensors = [tf.ones(shape) for shape in [(10, 20), (20, 30), (30, 5), (5, 1)]]

    text = str(program_of(lambda a, b, c, d: a @ b @ c @ d, *tensors).memory())

    assert text == dedent(
        """\
        inputs         3.7 KiB
        intermediate   1.5 KiB  2 values, 1.4 KiB without sharing
        outputs       40 bytes
        total          5.3 KiB

        peak at step 2, matmul of [10, 30], [30, 5]: 1.4 KiB
          %5:float32[10, 30], 1.2 KiB, steps 1 to 2
          %6:float32[10, 5], 200 bytes, steps 2 to 3"""
    )
