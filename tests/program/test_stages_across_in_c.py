"""Loops in C that pass several times over rows whose elements are not next to each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.core.trace.expression_namespace  # what formulas are written with
from tapegrad.core.trace.loop import Along, Loop, LoopInput, LoopOutput
from tapegrad.program.emit.lowering import CompiledLoop
from tapegrad_numpy.loops import column_stages, compiler
from tapegrad_numpy.loops.entry_points import CLoopCompiler
from tests.program.staged_loops import (
    F4,
    F8,
    LOOPS,
    assert_close,
    draw,
    expected,
    precision_of,
    windowed,
)

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

SHAPES: dict[str, tuple[tuple[int, ...], int, np.dtype[Any]]] = {
    "rows of a matrix": ((40, 7), 1, F8),
    "several tasks with a rest": ((2, 3, 150, 33), 1, F4),
    "two reduced axes": ((2, 20, 3, 5), 2, F8),
    "one step": ((3, 40, 1), 1, F4),
    "the longest rows": ((17, 256), 1, F4),
}
CASES = [(name, "several tasks with a rest") for name in LOOPS]
CASES += [(name, "two reduced axes") for name in LOOPS]
CASES += [("log_softmax", "rows of a matrix"), ("normalization", "one step")]
CASES += [("softmax", "the longest rows")]


def turned(loop: Loop, reduced: int) -> Loop:
    """Return the loop with its last kept axis behind the reduced ones."""
    rank = len(loop.shape)
    across = rank - reduced - 1
    order = [*range(across), *range(across + 1, rank), across]
    place = {axis: k for k, axis in enumerate(order)}

    def shape_of(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(shape[axis] for axis in order)

    def turned_input(read: LoopInput) -> LoopInput:
        seen = shape_of(read.seen)
        if read.window is None:
            return LoopInput(seen, seen, read.dtype)
        window = tuple(
            replace(one, axis=place[one.axis]) for one in read.window if one.axis is not None
        )
        if len(window) < rank:
            return replace(read, seen=seen, window=window)
        moved: tuple[Along, ...] = tuple(window[axis] for axis in order)
        return LoopInput(shape_of(read.shape), seen, read.dtype, moved)

    def turned_output(output: LoopOutput) -> LoopOutput:
        axes = tuple(sorted(place[axis] for axis in output.axes))
        shape = output.shape if output.axes else shape_of(output.shape)
        return replace(output, shape=shape, axes=axes)

    return Loop(
        shape_of(loop.shape),
        tuple(map(turned_input, loop.inputs)),
        tuple(map(turned_output, loop.outputs)),
        tuple(map(turned_output, loop.stages)),
    )


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_results_are_numpys(name: str, kind: str) -> None:
    shape, reduced, dtype = SHAPES[kind]
    loop = turned(LOOPS[name](shape, reduced, dtype), reduced)
    arrays = draw(loop)

    (run,) = CLoopCompiler().compile([loop])
    assert run is not None
    found = run(arrays, [None] * len(loop.outputs))

    length = int(np.prod(shape[len(shape) - reduced :]))
    precision = precision_of(name, length, dtype, 2e-6 if dtype is F4 else 1e-13)
    assert_close(found, expected(loop, arrays), precision)


def test_inputs_may_be_rolled_along_rows_and_zero_in_some_of_them() -> None:
    loop = turned(windowed(40, 9), 1)
    (run,) = CLoopCompiler().compile([loop])
    assert run is not None
    arrays = draw(loop)

    assert_close(run(arrays, [None, None]), expected(loop, arrays), 2e-6)


def test_long_rows_share_the_stack() -> None:
    shape = (20, column_stages.KEPT_ELEMENTS // 3)
    loop = turned(LOOPS["softmax"](shape, 1, F8), 1)
    (run,) = CLoopCompiler().compile([loop])
    assert run is not None
    arrays = draw(loop)

    assert_close(run(arrays, [None]), expected(loop, arrays), 1e-13)


def loops_of(function: Any, *arrays: Any) -> list[Any]:
    compiled = tf.function(function)
    compiled(*arrays)
    tf.wait_for_programs()
    found = compiled(*arrays)
    for one, other in zip(found, function(*arrays), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)
    steps = compiled.program(*arrays).steps
    return [step.made_of.loop for step in steps if isinstance(step, CompiledLoop)]


def normalization(x: Any) -> Any:
    return x / tf.sqrt(tf.reduce_mean(tf.square(x), 1, keepdims=True) + 1e-3)


def attention_pooling(x: Any) -> Any:
    return tf.reduce_sum(tf.nn.softmax(tf.sin(x), 1) * x, 1)


@pytest.mark.parametrize("function", [normalization, attention_pooling])
def test_functions_of_a_middle_axis_are_one_loop_with_their_gradients(function: Any) -> None:
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        return value, tape.gradient(value, x)

    (loop,) = loops_of(step, tf.constant(np.random.default_rng(0).normal(size=(6, 9, 20))))

    assert loop.axes == (1,)
    assert [read.shape for read in loop.inputs] == [(6, 9, 20)]
    assert len(loop.outputs) == 2


@pytest.mark.parametrize(
    ("rows", "length", "stride", "taken"),
    [(320, 50, 16, True), (320, 50, 8, False), (320, 300, 16, False), (4096, 200, 4096, True)],
)
def test_few_neighbours_and_long_rows_are_left_to_several_loops(
    rows: int, length: int, stride: int, taken: bool
) -> None:
    assert CLoopCompiler().takes_stages(rows, length, stride) is taken
