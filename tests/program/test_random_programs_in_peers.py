"""Random programs in other libraries: an oracle that shares no rule, pass or kernel with a program.

The recorded graph is translated primitive by primitive and runs on the arrays of each library that
is installed. NumPy alone is among the requirements of the tests.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.loops import counted, recorded as recorded_loops
from tests.program.test_random_programs import BINARY, Machine, inputs_of
from tests.seeds import program_seeds

pytest.importorskip("scipy")

from tapegrad_bench.translation import Peer, translated

PACKAGES = {"numpy": ("scipy",), "jax": ("jax",), "torch": ("torch", "array_api_compat")}
LOOPS = {"counted_loop", "conditional_loop", "conditional_loop_gradient"}


class Looping(Machine):
    """Runs a random round several times, forwards or backwards, and differentiates the result."""

    def round(self, state: Any, x: Any) -> Any:
        """Return a new state; all values have the shape of the state."""
        rng = np.random.default_rng([self.seed, 5])
        values = [state, x, self.variables[0].value()]
        for _ in range(6):
            if rng.integers(2):
                made = self.unary(rng, values)
            else:
                made = BINARY[rng.integers(len(BINARY))](self.pick(rng, values), values[-1])
            values.append(tf.tanh(made))
        return 0.5 * state + values[-1]

    def __call__(self, *inputs: Any) -> list[Any]:
        rng = np.random.default_rng(self.seed)
        start, row, stack, factor = inputs
        stack = tf.stack([factor * start, *[start + row + part[0] for part in (stack, -stack)]] * 2)
        with tf.GradientTape() as tape:
            tape.watch([start, stack])
            if rng.integers(3):
                states = tf.scan(self.round, stack, start, reverse=bool(rng.integers(2)))
            else:
                states = self.while_loop(start, stack[0])
            loss = tf.reduce_sum(states * states)
        return [states, loss, *tape.gradient(loss, [start, stack], None, "zero")]

    def while_loop(self, start: Any, x: Any) -> Any:
        def is_small(k: Any, state: Any) -> Any:
            return (tf.reduce_sum(tf.abs(state)) < 12.0) & (k < 6)

        def body(k: Any, state: Any) -> Any:
            return k + 1, self.round(state, x)

        return tf.while_loop(is_small, body, [tf.constant(0), start], maximum_iterations=50)[1]


def needs(library: str) -> None:
    """Skip a test without a library."""
    missing = [name for name in PACKAGES[library] if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} must be installed to run programs in {library}")


def check_in_peer(library: str, make: type[Machine], seed: int, precision: float) -> set[str]:
    """Run a program eagerly and translated; compare results and variables; return its calls."""
    eager, other = make(seed), make(seed)
    inputs = inputs_of(seed, 0)
    function = tf.function(other.__call__)
    tf.random.set_seed(seed)
    state = tf.random.get_global_generator().state
    held = {v.number: np.array(v.numpy()) for v in [*other.variables, state]}
    function(*inputs)
    graph = function.program(*inputs).recorded
    tf.random.set_seed(seed)
    expected = [value.numpy() for value in eager(*inputs)]
    after = dict(zip([v.number for v in other.variables], [v.numpy() for v in eager.variables]))
    after[state.number] = state.numpy()

    peer = Peer(library)
    run = translated(graph, peer)
    if library == "jax":
        run = importlib.import_module("jax").jit(run)
    found, written = run(
        [peer.array(x.numpy()) for x in inputs], [peer.array(held[n]) for n in graph.variables]
    )

    wanted = [*expected, *[after[number] for number in graph.written]]
    for one, value in zip([*found, *written], wanted, strict=True):
        host = peer.host(one)
        assert (host.shape, host.dtype) == (value.shape, value.dtype)
        np.testing.assert_allclose(host, value, rtol=precision, atol=precision / 10)
    return {call.primitive.name for call in graph.calls}


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("seed", program_seeds(8, most=300, first=20_000))
@pytest.mark.parametrize("library", PACKAGES)
def test_a_random_program_gives_the_same_in_another_library(library: str, seed: int) -> None:
    needs(library)

    check_in_peer(library, Machine, seed, precision=1e-9)


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("seed", program_seeds(8, most=300, first=30_000))
@pytest.mark.parametrize("library", PACKAGES)
def test_a_random_loop_gives_the_same_in_another_library(
    library: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(library)
    monkeypatch.setattr(counted, "LEAST_CALLS", 0)
    monkeypatch.setattr(recorded_loops, "LEAST_ROUNDS", 1)
    if library == "jax" and np.random.default_rng(seed).integers(3) == 0:
        pytest.skip("JAX has no gradient of a loop with a condition")

    assert check_in_peer(library, Looping, seed, precision=1e-9) & LOOPS
