"""Short axes of outer combinations are split; what is made of smaller arrays is not stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.program.graph.graph import Graph
from tapegrad.program.passes.components import LEAST, with_components
from tests import capabilities
from tests.program.recorded_graphs import assert_same_results, count, recorded
from tests.program.reference_loops import Reference
from tests.program.test_fusion import Watching, kinds, steps_of

N = 64


class Fast(Watching):
    """A device that computes faster than it reads memory."""

    def recomputes(self, weight: int, nbytes: int) -> bool:
        return weight <= 8 * nbytes


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Watching:
    """Run loops in NumPy instead of C, so that these tests need no compiler."""
    found = Fast()
    capabilities.use(monkeypatch, loops=found)
    return found


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def split(function: Callable[..., Any], *arrays: Any, loops: LoopCompiler | None = None) -> Graph:
    """Return the graph after the pass, which has the same results."""
    graph = recorded(lambda *given: (function(*given),), arrays)
    after = with_components(graph, loops or Reference())
    assert_same_results(graph, after, arrays)
    return after


def largest(graph: Graph) -> int:
    return max(value.size for call in graph.calls for value in call.results)


def differences(x: Any, axis: int = -1) -> Any:
    """All differences of the columns or rows of x, along the last or the first axis."""
    if axis == -1:
        return x[:, None, :] - x[None, :, :]
    return x[:, :, None] - x[:, None, :]


# The pass

REDUCED: dict[str, Callable[..., Any]] = {
    "distances": lambda d: tf.reduce_sum(tf.square(d), -1),
    "distances with the axis": lambda d: tf.reduce_sum(tf.square(d), -1, keepdims=True),
    "means": lambda d: tf.reduce_mean(tf.exp(d), -1),
    "largest": lambda d: tf.reduce_max(tf.abs(d), -1),
    "least": lambda d: tf.reduce_min(tf.exp(d), -1),
    "sums over rows": lambda d: tf.reduce_sum(tf.exp(d), 0),
    "sums over columns": lambda d: tf.reduce_sum(tf.exp(d), 1),
    "sums with axes": lambda d: tf.reduce_sum(tf.exp(d), 1, keepdims=True),
    "means over rows": lambda d: tf.reduce_mean(tf.exp(d), 0),
    "largest of columns": lambda d: tf.reduce_max(tf.sin(d), 1),
    "all pairs": lambda d: tf.reduce_sum(tf.exp(d), (0, 1)),
    "everything": lambda d: tf.reduce_mean(tf.exp(d)),
    "rows and components": lambda d: tf.reduce_sum(tf.exp(d), (0, 2)),
    "a function of distances": lambda d: tf.reduce_sum(
        d / (tf.reduce_sum(d * d, -1, keepdims=True) + 1.0), 1
    ),
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("width", [2, 3, 4])
def test_a_short_last_axis_is_split(name: str, width: int) -> None:
    after = split(lambda x: REDUCED[name](differences(x)), draw(N, width))

    assert largest(after) == N * N


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_short_first_axis_is_split(axis: Any, keepdims: bool) -> None:
    after = split(
        lambda x: tf.reduce_sum(tf.exp(differences(x, 0)), axis, keepdims=keepdims), draw(3, N)
    )

    assert largest(after) == N * N


def test_a_short_axis_in_the_middle_of_a_batch_is_split() -> None:
    after = split(
        lambda x: tf.reduce_sum(tf.exp(x[:, :, :, None] - x[:, :, None, :]), 2), draw(5, 3, N)
    )

    assert largest(after) == 5 * N * N


def test_nan_reaches_the_same_results() -> None:
    x = draw(N, 3)
    x[5, 1] = np.nan
    after = split(lambda x: tf.reduce_max(differences(x), -1), x)

    assert largest(after) == N * N


def test_operands_without_the_axis_may_be_large() -> None:
    after = split(
        lambda x, w: tf.reduce_sum(differences(x) * w[:, :, None], 1), draw(N, 3), draw(N, N)
    )

    assert largest(after) == N * N


STAYING: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "it is a result": (differences, (N, 3)),
    "a product reads it": (lambda x: differences(x) @ tf.ones((3, 2), x.dtype), (N, 3)),
    "the axis is long": (lambda x: tf.reduce_sum(tf.exp(differences(x)), 1), (N, 5)),
    "there are few pairs": (lambda x: tf.reduce_sum(tf.exp(differences(x)), 1), (9, 3)),
    "an operand is as large": (lambda x: tf.reduce_sum(tf.exp(x), 1), (N, N, 3)),
    "a scan reads it": (lambda x: tf.reduce_sum(tf.cumsum(differences(x), 0), 1), (N, 3)),
}


@pytest.mark.parametrize("name", STAYING)
def test_other_arrays_stay(name: str) -> None:
    function, shape = STAYING[name]
    graph = recorded(lambda x: (function(x),), (draw(*shape),))

    assert with_components(graph, Reference()) is graph


def test_sums_in_half_precision_stay() -> None:
    pytest.importorskip("ml_dtypes")
    x = tf.cast(draw(N, 3), "bfloat16").numpy()
    graph = recorded(lambda x: (tf.reduce_sum(tf.exp(differences(x)), 1),), (x,))

    assert with_components(graph, Reference()) is graph


def test_dtypes_that_loops_do_not_take_stay() -> None:
    class Single(Reference):
        dtypes = frozenset({"float32", "bool", "int32"})  # type: ignore[assignment]

    graph = recorded(lambda x: (tf.reduce_sum(tf.exp(differences(x)), 1),), (draw(N, 3),))

    assert with_components(graph, Single()) is graph


def test_the_least_size_counts_all_elements() -> None:
    side = int((LEAST / 3) ** 0.5)
    small, large = (
        split(lambda x: tf.reduce_sum(tf.exp(differences(x)), 1), draw(n, 3))
        for n in (side, side + 1)
    )

    assert (count(small, "sum"), count(large, "sum")) == (1, 3)


# Kernels and bytes of programs


def traffic(steps: list[Any]) -> int:
    """The bytes that loops and calls read and write; views move nothing."""
    total = 0
    for step in steps:
        if hasattr(step, "primitive"):
            total += 0 if step.aliases else sum(v.nbytes for v in (*step.reads, *step.results))
        else:
            values = {v.number: v.nbytes for v in (*step.arguments, *step.results)}
            total += sum(values.values())
    return total


def pull(x: Any, mass: Any) -> Any:
    apart = differences(x)
    distance = tnp.sqrt(tnp.sum(apart**2, axis=-1) + 0.01)
    return tnp.sum(mass[None, :, None] * apart / distance[:, :, None] ** 3, axis=1)


def test_forces_of_all_pairs_are_one_loop_over_pairs(target: Watching) -> None:
    x, mass = tf.constant(draw(N, 3)), tf.constant(draw(N, seed=1))

    steps = steps_of(pull, x, mass)

    pairs = [step for step in steps if kinds([step]) == ["loop"] and _is_over_pairs(step)]
    assert len(pairs) == 1
    assert traffic(steps) < 8 * 40 * N


def test_gradients_of_forces_are_a_loop_per_reduced_axis(target: Watching) -> None:
    def function(x: Any, mass: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, mass])
            y = tf.reduce_sum(tf.sin(pull(x, mass)))
        return y, tape.gradient(y, [x, mass])

    steps = steps_of(function, tf.constant(draw(N, 3)), tf.constant(draw(N, seed=1)))

    pairs = [step for step in steps if kinds([step]) == ["loop"] and _is_over_pairs(step)]
    axes = sorted(step.made_of.loop.axes for step in pairs)
    assert axes == [(0,), (1,), (1,)]
    assert traffic(steps) < 8 * 120 * N


def _is_over_pairs(step: Any) -> bool:
    loop = getattr(step.made_of, "loop", None)
    return getattr(loop, "shape", ()) == (N, N)


def test_a_kernel_matrix_reduced_along_both_axes_is_not_stored(target: Watching) -> None:
    """A difference that is broadcast along another axis than those of its operands."""

    def function(x: Any, y: Any) -> Any:
        weights = tf.exp(-tf.square(x[:, None] - y[None, :]))
        return tf.reduce_sum(weights, 0), tf.reduce_sum(weights, 1)

    steps = steps_of(function, tf.constant(draw(50)), tf.constant(draw(40, seed=1)))

    assert [step.made_of.loop.axes for step in steps] == [(0,), (1,)]
    assert traffic(steps) == 8 * 3 * (50 + 40)


def test_a_larger_loop_reads_costly_combinations(target: Watching) -> None:
    """It would compute each of them as often as it has elements along the other axis."""

    def function(x: Any, y: Any, z: Any) -> Any:
        weights = tf.exp(-tf.square(x[:, None] - y[None, :]))
        return tf.reduce_sum(tf.square(weights[None] - z[:, None, :]), 2)

    shapes = ((50,), (40,), (30, 40))
    tensors = [tf.constant(draw(*shape, seed=k)) for k, shape in enumerate(shapes)]

    steps = steps_of(function, *tensors)

    assert [step.made_of.loop.shape for step in steps] == [(50, 40), (30, 50, 40)]


def test_what_is_stored_anyway_is_read(target: Watching) -> None:
    def function(x: Any, y: Any) -> Any:
        weights = tf.exp(-tf.square(x[:, None] - y[None, :]))
        return weights, tf.reduce_sum(weights, 0), tf.reduce_sum(weights, 1)

    steps = steps_of(function, tf.constant(draw(50)), tf.constant(draw(40, seed=1)))

    stored = [value.shape for step in steps for value in step.results]
    assert stored.count((50, 40)) == 1


def test_a_compiler_that_recomputes_nothing_stores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Storing(Watching):
        def recomputes(self, weight: int, nbytes: int) -> bool:
            return False

    capabilities.use(monkeypatch, loops=Storing())

    def function(x: Any, y: Any) -> Any:
        weights = tf.exp(-tf.square(x[:, None] - y[None, :]))
        return tf.reduce_sum(weights, 0), tf.reduce_sum(weights, 1)

    steps = steps_of(function, tf.constant(draw(50)), tf.constant(draw(40, seed=1)))

    assert any(value.shape == (50, 40) for step in steps for value in step.results)


def test_combinations_of_operands_of_similar_size_are_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each operand is an eighth of the result at most."""
    capabilities.use(monkeypatch, loops=Watching())

    def function(x: Any, y: Any) -> Any:
        weights = tf.exp(-tf.square(x[:, None] - y[None, :]))
        return tf.reduce_sum(weights, 0), tf.reduce_sum(weights, 1)

    steps = steps_of(function, tf.constant(draw(50)), tf.constant(draw(7, seed=1)))

    assert any(value.shape == (50, 7) for step in steps for value in step.results)


def test_rows_and_columns_of_pairs_are_summed_from_what_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values that are made of one large array and of rows are computed again instead of stored."""
    capabilities.use(monkeypatch, loops=Watching())

    def step(x: Any, p: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            distances = tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)
            weights = p * tf.exp(-distances)
            columns, rows = tf.reduce_sum(weights, 0), tf.reduce_sum(weights * p, 1)
            loss = tf.reduce_sum(tf.math.log(columns)) + tf.reduce_sum(tf.math.log(rows))
        return loss, tape.gradient(loss, x)

    rng = np.random.default_rng(0)
    x, p = tf.constant(rng.normal(size=(600, 2))), tf.constant(rng.random((600, 600)))
    recorded = tf.function(step)
    for one, other in zip(recorded(x, p), step(x, p), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    steps = recorded.program(x, p).steps
    stored = [value.shape for one in steps for value in one.results]
    assert stored.count((600, 600)) == 1
