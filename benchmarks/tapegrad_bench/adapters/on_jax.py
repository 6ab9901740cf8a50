"""JAX: the whole step, update included, in one `jit` with its state donated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tapegrad_bench.adapters.jax_ops import JaxOps
from tapegrad_bench.adapters.library import (
    Prepared,
    Stopwatch,
    Uncounted,
    UnsupportedError,
    fetching,
    in_turn,
)
from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Kind, Optimizer, Problem

jax.config.update("jax_enable_x64", True)


class Jax(Uncounted):
    """JAX on one device."""

    version: str = jax.__version__

    def __init__(self, device: str) -> None:
        self._is_cuda = device != "cpu"
        self._device = jax.devices("gpu" if self._is_cuda else "cpu")[0]
        self._compiled: Callable[[], Any] | None = None

    def prepare(self, mode: str, problem: Problem) -> Prepared:
        # Else a product in float32 would be computed in TensorFloat-32, unlike everybody else's.
        precision = None if is_half(problem.dtype) else "highest"
        jax.config.update("jax_default_matmul_precision", precision)
        ops = JaxOps(problem.dtype, self._is_cuda)
        if problem.workload.optimizer is not None:
            with jax.default_device(self._device):
                batches = [self._arrays(batch, problem.dtype) for batch in problem.batches()]
            return self._train(problem, ops, batches)
        with jax.default_device(self._device):
            sets = [[self._arrays(part, problem.dtype) for part in one] for one in problem.inputs()]
        function = jax.jit(_differentiate(problem, ops))
        self._compiled = lambda: function.lower(*sets[0]).compile()
        run, rewind = in_turn(function, sets)
        return Prepared(run, _fetch, rewind)

    def _arrays(self, arrays: Sequence[np.ndarray], dtype: str) -> list[Any]:
        return [self._put(array, dtype) for array in arrays]

    def _put(self, array: Any, dtype: str) -> Any:
        if array.dtype.kind == "f":
            return jax.device_put(jnp.array(array, dtype, copy=True), self._device)
        return jax.device_put(array.astype(np.int32), self._device)

    def _train(self, problem: Problem, ops: JaxOps, batches: list[Any]) -> Prepared:
        rule = problem.workload.optimizer
        assert rule is not None
        differentiate = jax.value_and_grad(lambda p, batch: problem.apply(ops, p, batch))

        def step(params: Any, slots: Any, count: Any, batch: Any) -> Any:
            loss, gradients = differentiate(params, batch)
            return loss, *_updated(rule, params, gradients, slots, count + 1)

        function = jax.jit(step, donate_argnums=(0, 1, 2))
        only_gradients = jax.jit(differentiate)
        number = {"sgd": 0, "momentum": 1}.get(rule.name, 2)

        def start() -> list[Any]:
            with jax.default_device(self._device):
                params = self._arrays(problem.params, problem.parameter_dtype)
                slots = [[jnp.zeros_like(p) for _ in range(number)] for p in params]
                return [params, slots, jnp.zeros((), "float32", device=self._device)]

        state = start()
        self._compiled = lambda: function.lower(*state, batches[0]).compile()

        def run(batch: Any) -> Any:
            loss, *state[:] = function(*state, batch)
            return loss, []

        each, rewind = in_turn(run, [(batch,) for batch in batches])

        def restart() -> None:
            rewind()
            state[:] = start()

        return Prepared(
            each,
            _fetch,
            restart,
            gradients=lambda: only_gradients(state[0], batches[0]),
            parameters=lambda: state[0],
            moments=lambda: [slots[0] for slots in state[1] if len(slots) == 2],
        )

    def release(self) -> None:
        """Compiled programs go with their functions."""
        self._compiled = None

    def synchronize(self, result: Any) -> None:
        jax.block_until_ready(result)

    def stopwatch(self) -> Stopwatch | None:
        """JAX shows no streams, so nothing can record an event on them."""
        return None

    def allocated(self) -> int | None:
        """0, because `peak_of` counts this step's memory and no other's."""
        return 0 if self._is_cuda else None

    def peak_of(self, run: Callable[[], Any]) -> int | None:
        """What the compiled program says it needs; JAX's own peak cannot be reset."""
        run()
        if not self._is_cuda or self._compiled is None:
            return None
        needed = self._compiled().memory_analysis()
        if needed is None:
            return None
        return int(
            needed.argument_size_in_bytes
            + needed.output_size_in_bytes
            - needed.alias_size_in_bytes
            + needed.temp_size_in_bytes
        )


def _differentiate(problem: Problem, ops: JaxOps) -> Callable[[Any, Any], Any]:
    """The function of parameters and batch that one step is, without an update."""
    kind = problem.workload.kind

    def gradient(params: Any, batch: Any) -> Any:
        return jax.value_and_grad(lambda p: problem.apply(ops, p, batch))(params)

    def pullback(params: Any, batch: Any) -> Any:
        value, pull = jax.vjp(lambda p: problem.apply(ops, p, batch), params)
        return value, pull(batch[-1])[0]

    def hvp(params: Any, batch: Any) -> Any:
        slope = jax.grad(lambda x: problem.apply(ops, [x], batch))
        return None, [jax.jvp(slope, (params[0],), (batch[-1],))[1]]

    def jacobian(params: Any, batch: Any) -> Any:
        return None, [jax.jacrev(lambda x: problem.apply(ops, [x], batch))(params[0])]

    by_kind = {Kind.PULLBACK: pullback, Kind.HVP: hvp, Kind.JACOBIAN: jacobian}
    return by_kind.get(kind, gradient)


def _updated(
    rule: Optimizer, params: Sequence[Any], gradients: Sequence[Any], slots: Any, count: Any
) -> Any:
    """The new parameters, slots and count."""
    new_params, new_slots = [], []
    for p, g, (*old,) in zip(params, gradients, slots):
        p, kept = _update(rule, p, g, old, count)
        new_params.append(p)
        new_slots.append(kept)
    return new_params, new_slots, count


def _update(rule: Optimizer, p: Any, g: Any, slots: list[Any], count: Any) -> Any:
    if rule.name == "sgd":
        return p - rule.rate * g, []
    if rule.name == "momentum":
        m = rule.momentum * slots[0] - rule.rate * g
        return p + m, [m]
    m = rule.beta_1 * slots[0] + (1 - rule.beta_1) * g
    v = rule.beta_2 * slots[1] + (1 - rule.beta_2) * g * g
    rate = rule.rate * jnp.sqrt(1 - rule.beta_2**count) / (1 - rule.beta_1**count)
    p = p * (1 - rule.rate * rule.weight_decay)
    return (p - rate * m / (jnp.sqrt(v) + rule.epsilon)).astype(p.dtype), [m, v]


_fetch = fetching(np.asarray)


def load(device: str) -> Jax:
    """Return the library on `device`."""
    try:
        return Jax(device)
    except RuntimeError as error:
        raise UnsupportedError(f"JAX {jax.__version__} finds no such device: {error}") from error
