"""Windows of cheap values are taken before the arithmetic; the results do not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.program.fusion.fusion import fused
from tapegrad.program.graph.graph import Graph
from tapegrad.program.graph.windows import MOVES
from tapegrad.program.passes.early_windows import with_early_windows
from tapegrad.program.passes.moved_windows import placed_part
from tapegrad.program.passes.runs import with_summed_runs
from tests.program.recorded_graphs import assert_same_results, recorded

FUNCTIONS = {
    "slices of a sum": lambda x: (x + x * x)[1:-1, 2:] * (x + x * x)[:-2, :-2],
    "halves of a product": lambda x: tnp.sin((x * 3.0)[:3]) + (x * 3.0)[3:6],
    "rolls of a product": lambda x: tnp.roll(x * 2.0, 1, 0) - tnp.roll(x * 2.0, -1, 1),
    "padding of a product": lambda x: tf.pad(x * 2.0, [[1, 1], [0, 2]])[1:, 1:] ** 2,
    "padding of an exponential": lambda x: tf.pad(tnp.exp(x), [[1, 1], [0, 2]])[1:, 1:],
    "padding of a sum with a number": lambda x: tf.pad(x + 1.0, [[2, 1], [0, 2]]) * 3.0,
    "a row that is broadcast": lambda x: tnp.flip(x * x[0], 1)[1:] + (x * x[:, :1])[:-1],
    "edges": lambda x: tf.pad(x * x, [[1, 1], [1, 1]], "SYMMETRIC")[2:, :-2] * x,
    "edges of one row": lambda x: tf.pad(x[:1] * 2.0, [[1, 1], [0, 0]], "SYMMETRIC") * x[0],
    "mirrored": lambda x: tf.pad(tnp.tanh(x), [[2, 1], [1, 2]], "REFLECT")[1:-2, 1:-2] * x,
    "components": lambda x: (x[:, None] - x[0])[..., 2] * (x[:, None] * x)[:, 1, 1:4].sum(),
    "rows of an outer difference": lambda x: (x[:, None] - x)[3] + (x[:, :1] + x[0])[2:3, -1:],
    "read whole as well": lambda x: tnp.roll(-x, 1, 0) + tnp.roll(-x, 2, 1) - x * -x,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients_are_those_of_eager_code(name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    x = tf.constant(rng.standard_normal((7, 6)).astype(dtype))
    w = tf.constant(rng.standard_normal(FUNCTIONS[name](x).shape).astype(dtype))

    def both(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = FUNCTIONS[name](x)
            loss = tf.reduce_sum(y * w)
        return y, tape.gradient(loss, x)

    found, expected = tf.function(both)(x), both(x)

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


class DeviceLoops:
    """What is known of the loops of a device."""

    dtypes = None
    joins = True
    windows = MOVES

    def recomputes(self, weight: int, nbytes: int) -> bool:
        return weight <= 8 * nbytes


def moved(graph: Graph) -> Graph:
    loops: Any = DeviceLoops()
    return with_early_windows(with_summed_runs(graph, loops), loops)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_passes_of_a_device_change_no_results(name: str) -> None:
    x = np.random.default_rng(4).standard_normal((7, 6))

    def both(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = FUNCTIONS[name](x)
            loss = tf.reduce_sum(y * tnp.cos(y))
        return y, tape.gradient(loss, x)

    graph = recorded(both, [x])

    assert_same_results(graph, moved(graph), [x])


def test_zeros_around_a_value_stay_zeros_next_to_infinite_numbers() -> None:
    x = tf.constant([[1.0, np.inf], [np.nan, 2.0]])
    scale = tf.constant([[np.inf]])

    found = tf.function(lambda x: tf.pad(x * scale, [[1, 1], [1, 1]]) + 1.0)(x)

    np.testing.assert_array_equal(found.numpy()[0], 1.0)
    np.testing.assert_array_equal(found.numpy()[:, 3], 1.0)


def advected(c: Any, u: Any) -> Any:
    """Three steps of an upwind scheme with reflecting borders."""
    for _ in range(3):
        e = tf.pad(c, [[1, 1], [1, 1]], "SYMMETRIC")
        slope = tf.where(u > 0, c - e[1:-1, :-2], e[1:-1, 2:] - c)
        c = c - 0.1 * u * slope + 0.05 * (e[:-2, 1:-1] + e[2:, 1:-1] - 2.0 * c)
    return c


def test_the_gradient_of_a_stencil_with_borders_is_that_of_differences() -> None:
    rng = np.random.default_rng(5)
    c, u, w = (tf.constant(rng.standard_normal((5, 6))) for _ in range(3))

    @tf.function
    def gradient(c: Any, u: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((c, u))
            loss = tf.reduce_sum(advected(c, u) * w)
        return tape.gradient(loss, (c, u))

    for place, found in enumerate(gradient(c, u)):
        values = [c.numpy(), u.numpy()]
        for k in np.ndindex(5, 6):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [value.copy() for value in values]
                moved[place][k] += step
                ends.append(float(tf.reduce_sum(advected(*map(tf.constant, moved)) * w)))
            assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(found.numpy()[k], abs=1e-6)


def test_a_step_of_a_stencil_with_borders_is_one_loop_per_direction_on_a_device() -> None:
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal((5, 6)) for _ in range(3)]

    def gradient(c: Any, u: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((c, u))
            loss = tf.reduce_sum(advected(c, u) * w)
        return tape.gradient(loss, (c, u))

    before = recorded(gradient, arrays)
    after = moved(before)

    assert_same_results(before, after, arrays)
    steps = fused(after, lambda call: True, windows=MOVES)
    loops = [step for step in steps if not hasattr(step, "primitive")]
    assert len(loops) <= 7  # three steps forward, three back, and one for the loss


def test_a_convolution_of_shifted_parts_is_one_loop_per_axis_and_direction_on_a_device() -> None:
    weights = [0.1, 0.2, 0.4, 0.2, 0.1]
    arrays = [np.random.default_rng(6).standard_normal(shape) for shape in ((12, 11), (8, 7))]

    def gradient(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            rows = sum(w * x[k : k + 8] for k, w in enumerate(weights))
            both = sum(w * rows[:, k : k + 7] for k, w in enumerate(weights))
            loss = tf.reduce_sum((both - y) ** 2)
        return loss, tape.gradient(loss, x)

    before = recorded(gradient, arrays)
    after = moved(before)

    assert_same_results(before, after, arrays)
    steps = fused(after, lambda call: True, windows=MOVES)
    loops = [step for step in steps if not hasattr(step, "primitive")]
    assert len(loops) <= 5  # one for each axis and direction, and one for the loss
    assert all(len([v for v in step.results if v.shape]) == 1 for step in loops)


def test_gradients_of_a_depthwise_stencil_store_no_product_on_a_device() -> None:
    """Weights are broadcast, and padding must not make NaN of infinite ones."""
    rng = np.random.default_rng(7)
    x, w, y = (rng.standard_normal(shape) for shape in ((9, 8, 3), (3, 3, 3), (9, 8, 3)))
    w[1, 0, 2] = np.inf

    def gradient(x: Any, w: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            e = tf.pad(x, [[1, 1], [1, 1], [0, 0]])
            both = sum(w[i, j] * e[i : i + 9, j : j + 8] for i in range(3) for j in range(3))
            loss = tf.reduce_sum(both * y)
        return loss, tape.gradient(loss, x)

    with np.errstate(invalid="ignore"):
        before = recorded(gradient, [x, w, y])
        after = moved(before)
        assert_same_results(before, after, [x, w, y])
    steps = fused(after, lambda call: True, windows=MOVES)
    loops = [step for step in steps if not hasattr(step, "primitive")]
    assert len(loops) <= 4
    assert sum(len([v for v in step.results if v.shape]) for step in loops) <= 2


def test_the_part_of_a_slice_that_is_not_zero() -> None:
    def f(x: Any) -> Any:
        return tf.pad(x, [[2, 1], [0, 3]])[1:4, 2:]

    *_, placed, window = recorded(lambda x: (f(x),), [np.zeros((3, 4))]).calls

    assert placed_part(window, placed) == ((slice(0, 2), slice(2, 4)), (slice(1, 3), slice(0, 2)))
