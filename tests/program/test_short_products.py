"""Products with short sums are loops where programs are captured, as on a GPU."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.emit.lowering import CompiledLoop
from tests import capabilities

pytest.importorskip("cupy")
host_cuda = pytest.importorskip("tests.house.host_cuda")

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="Needs a C++ compiler.")

SHAPES = {
    "a stack": ((6, 4, 4), (6, 4, 4)),
    "small matrices of another size": ((5, 3, 7), (5, 7, 2)),
    "a matrix and a stack": ((3, 4), (6, 4, 2)),
    "a stack and a matrix": ((6, 2, 4), (4, 3)),
    "stacks that broadcast": ((5, 1, 2, 3), (4, 3, 2)),
    "columns": ((7, 3, 2), (7, 2, 1)),
    "points and weights": ((40, 3), (3, 33)),
    "rows of one element": ((9, 1, 3), (9, 3, 5)),
}


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def graphs_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs be compiled as for a GPU, with kernels that run on the host."""
    capture = capabilities.Capture(lambda run, written, in_place: run)
    capabilities.use(
        monkeypatch, loops=host_cuda.HostLoops(), capture=capture, sequences=None, specializer=None
    )


def steps_of(function: Any, *args: Any) -> list[str]:
    """Return the primitives of the calls, and "loop" for each loop."""
    steps = function.program(*args).steps
    return ["loop" if isinstance(one, CompiledLoop) else one.call.primitive.name for one in steps]


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", SHAPES)
def test_values_and_gradients_are_those_of_numpy(
    name: str, turned: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs_of(monkeypatch)
    first, second = SHAPES[name]
    a, b = draw(*first), draw(*second)
    given = [x.swapaxes(-1, -2) if t else x for x, t in zip((a, b), turned)]

    def step(a: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            made = tf.tanh(tf.matmul(a, b, transpose_a=turned[0], transpose_b=turned[1]))
            total = tf.reduce_sum(made * made)
        return made, *tape.gradient(total, [a, b])

    x, y = map(tf.constant, given)
    compiled = tf.function(step, wait=True)
    for _ in range(2):
        found = compiled(x, y)

    made = np.tanh(a @ b)
    back = 2 * made * (1 - made**2)
    slopes = back @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ back
    for slope, one, is_turned, result in zip(slopes, (a, b), turned, found[1:]):
        lead = tuple(range(slope.ndim - one.ndim))
        wide = tuple(
            k for k, n in enumerate(one.shape) if n == 1 and slope.shape[k + len(lead)] != 1
        )
        expected = slope.sum(lead).sum(wide, keepdims=True)
        if is_turned:
            expected = expected.swapaxes(-1, -2)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found[0].numpy(), made, rtol=1e-12)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    "sizes", [(700, 40, 3), (3, 50, 300), (600, 30, 4), (2, 200, 90), (5, 2000, 4)]
)
def test_a_matrix_and_a_few_vectors(
    sizes: tuple[int, int, int], turned: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs_of(monkeypatch)
    rows, terms, columns = sizes
    a, b = draw(rows, terms), draw(terms, columns)
    given = [x.T if t else x for x, t in zip((a, b), turned)]

    @tf.function(wait=True)
    def function(a: Any, b: Any) -> Any:
        return tf.tanh(tf.matmul(tf.sin(a), b, transpose_a=turned[0], transpose_b=turned[1]))

    x, y = map(tf.constant, given)
    for _ in range(2):
        found = function(x, y)
    np.testing.assert_allclose(found.numpy(), np.tanh(np.sin(a) @ b), rtol=1e-10, atol=1e-12)
    assert "matmul(" not in str(function.program(x, y)).replace("short_matmul(", "")
