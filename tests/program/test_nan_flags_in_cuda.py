"""The flags of the NaN sentinel in generated CUDA source, which runs on the host here."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import NonFiniteError
from tapegrad.program.emit.lowering import CompiledLoop
from tests import capabilities

pytest.importorskip("cupy")
host_cuda = pytest.importorskip("tests.house.host_cuda")

pytestmark = [
    pytest.mark.skipif(shutil.which("g++") is None, reason="Needs a C++ compiler."),
    pytest.mark.filterwarnings("ignore:.*encountered in"),
]


def flag_loops(program: Any) -> list[Any]:
    """The loops of a program that compute a flag beside other results."""
    return [
        step
        for step in program.steps
        if isinstance(step, CompiledLoop)
        and len(step.results) > 1
        and any(output.combine == "maximum" for output in step.made_of.loop.outputs)
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("place", [0, 37, 1022])
def test_a_nan_at_any_place_sets_the_flag(
    dtype: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    capabilities.use(monkeypatch, loops=host_cuda.HostLoops())
    w = tf.Variable(np.ones(1023, dtype), name="w")

    @tf.function
    def step(x: Any) -> Any:
        w.assign_sub(0.1 * tf.sqrt(x) * w)
        return tf.reduce_sum(x * x)

    x = np.ones(1023, dtype)
    with tf.debug.nan_sentinel():
        step(tf.constant(x))
        loops = flag_loops(step.program(tf.constant(x)))
        before = w.numpy().copy()
        x[place] = -1.0
        with pytest.raises(
            NonFiniteError, match=r"sqrt at .*test_nan_flags_in_cuda\.py:\d+ made NaN"
        ):
            step(tf.constant(x))

    assert loops  # the flag is computed where the new value is
    np.testing.assert_array_equal(w.numpy(), before)


@pytest.mark.parametrize("place", [0, 500])
def test_a_nan_of_a_library_call_is_seen_by_its_first_reader(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    capabilities.use(monkeypatch, loops=host_cuda.HostLoops())

    @tf.function
    def product(x: Any, y: Any) -> Any:
        return tf.tanh(x @ y) + 1.0

    x = np.ones((501, 3), "float32")
    with tf.debug.nan_sentinel():
        product(tf.constant(x), tf.ones([3, 4]))
        loops = flag_loops(product.program(tf.constant(x), tf.ones([3, 4])))
        x[place] = [np.inf, -np.inf, 0.0]
        with pytest.raises(NonFiniteError, match=r"matmul at .* made NaN in the forward pass"):
            product(tf.constant(x), tf.ones([3, 4]))

    assert loops


def test_masks_do_not_set_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    capabilities.use(monkeypatch, loops=host_cuda.HostLoops())
    attend = tf.function(lambda x: tf.nn.softmax(tf.where(x > 0.0, x, -np.inf)) * 2.0)
    x = tf.constant(np.random.default_rng(0).normal(size=(40, 70)).astype("float32"))

    with tf.debug.nan_sentinel():
        found = attend(x).numpy()

    kept = np.where(x.numpy() > 0, np.exp(x.numpy()), 0.0)
    np.testing.assert_allclose(found, 2 * kept / kept.sum(-1, keepdims=True), rtol=1e-5)
