"""Steps of a program as they are timed: one library in one mode, with another batch at each call.

TensorFloat-32 is allowed everywhere, as it is by default in JAX.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad_zoo.limits import least_cost
from tapegrad_zoo.program import Arrays, Cost, Kind, Optimizer, Program, Values

SETS = 8
"""How many batches a program takes in turn."""

MODES = {
    "cpu": {"tapegrad": ("eager", "function"), "jax": ("jit",), "torch": ("eager", "compile")},
    "cuda": {
        "tapegrad": ("eager", "function"),
        "jax": ("jit",),
        # "graph" is a whole step in one CUDA graph, the loss compiled and the batch copied in.
        "torch": ("eager", "compile", "graph"),
    },
}
"""The modes of a library, by device."""


def _unknown() -> None:
    return None


@dataclass(frozen=True)
class Timed:
    """A step, and what waits until its work is done."""

    step: Callable[[], Any]
    synchronize: Callable[[Any], None]
    loss: Callable[[Any], float | None]
    """Return the loss of a result as a number."""
    needed: Callable[[], Cost | None] = _unknown
    """Return the least that the step needs, once it has run."""


def make(library: str, mode: str, program: Program, device: str) -> Timed:
    """Bring the data to a device, "cpu" or "cuda", and return the step."""
    maker = {"tapegrad": _in_tapegrad, "jax": _in_jax, "torch": _in_torch}[library]
    return maker(mode, program, device)


def _cast(values: Values, dtype: str) -> Values:
    """Return the arrays in single precision unless the program needs double."""
    if dtype == "float64":
        return values
    kinds = {"f": np.float32, "c": np.complex64}
    return {name: v.astype(kinds.get(v.dtype.kind, v.dtype)) for name, v in values.items()}


def _drawn(program: Program, device: str) -> tuple[Values, list[Values], bool]:
    """Return parameters, batches, and whether products are in half precision."""
    params, batches = program.draw(device, SETS)
    dtype = program.dtypes[device]
    return _cast(params, dtype), [_cast(batch, dtype) for batch in batches], dtype == "bfloat16"


def _first(result: Any) -> Any:
    if isinstance(result, dict):
        return result.get("loss")
    return result[0] if isinstance(result, tuple) else result


def _in_turn(step: Callable[[Arrays], Any], batches: list[Arrays]) -> Callable[[], Any]:
    turn = cycle(batches)
    return lambda: step(next(turn))


def _in_tapegrad(mode: str, program: Program, device: str) -> Timed:
    import tapegrad as tf

    values, drawn, is_half = _drawn(program, device)
    half = (lambda x: tf.cast(x, "bfloat16")) if is_half else (lambda x: x)
    with tf.device(device):
        variables = {name: tf.Variable(value) for name, value in values.items()}
        batches = [{k: tf.constant(v) for k, v in batch.items()} for batch in drawn]
        function = program.on_tapegrad(program.sizes[device], half)
    rule = program.optimizer
    optimizer = None if rule is None else _tapegrad_optimizer(rule)

    def step(batch: Arrays) -> Any:
        if program.kind is Kind.STEP:
            return function(variables, batch)
        with tf.GradientTape() as tape:
            loss = function(variables, batch)
        gradients = tape.gradient(loss, variables)
        if optimizer is None:
            return loss, gradients
        optimizer.apply_gradients([(gradients[name], v) for name, v in variables.items()])
        return loss

    def synchronize(result: Any) -> None:
        if device != "cpu":
            importlib.import_module("cupy").cuda.Device().synchronize()

    run: Any = tf.function(step) if mode == "function" else step

    def on_device(batch: Arrays) -> Any:
        with tf.device(device):
            return run(batch)

    def needed() -> Cost | None:
        if mode != "function":
            return None
        with tf.device(device):
            try:
                return least_cost(run.program(batches[0]).graph)
            except ArgumentError:  # the step is not recorded: it runs eagerly
                return None

    return Timed(_in_turn(on_device, batches), synchronize, _number, needed)


def _tapegrad_optimizer(rule: Optimizer) -> Any:
    from tapegrad import optimizers

    if rule.name == "adam":
        return optimizers.Adam(rule.rate, rule.beta_1, rule.beta_2, epsilon=rule.epsilon)
    return optimizers.SGD(rule.rate, rule.momentum if rule.name == "momentum" else 0.0)


def _number(result: Any) -> float | None:
    value = _first(result)
    return None if value is None else float(value)


def _in_jax(mode: str, program: Program, device: str) -> Timed:
    import jax
    import jax.numpy as jnp

    if program.dtypes[device] == "float64":
        jax.config.update("jax_enable_x64", True)
    values, drawn, is_half = _drawn(program, device)
    half = (lambda x: x.astype(jnp.bfloat16)) if is_half else (lambda x: x)
    function = program.on_jax(program.sizes[device], half)
    place = jax.devices("cpu" if device == "cpu" else "gpu")[0]
    params = {name: jax.device_put(value, place) for name, value in values.items()}
    batches = [{k: jax.device_put(v, place) for k, v in batch.items()} for batch in drawn]
    rule = program.optimizer
    if rule is None:
        whole = function if program.kind is Kind.STEP else jax.value_and_grad(function)
        compiled = jax.jit(whole)
        run = _in_turn(lambda batch: compiled(params, batch), batches)
        return Timed(run, jax.block_until_ready, _number)

    def train(params: Arrays, slots: Any, count: Any, batch: Arrays) -> Any:
        loss, gradients = jax.value_and_grad(function)(params, batch)
        new = {
            name: _updated(jnp, rule, p, gradients[name].conj(), slots[name], count + 1)
            for name, p in params.items()
        }
        return loss, {k: v[0] for k, v in new.items()}, {k: v[1] for k, v in new.items()}, count + 1

    number = {"sgd": 0, "momentum": 1, "adam": 2}[rule.name]
    slots = {name: [jnp.zeros_like(p) for _ in range(number)] for name, p in params.items()}
    state = [params, slots, jnp.zeros((), "float32", device=place)]
    step = jax.jit(train, donate_argnums=(0, 1, 2))

    def on_batch(batch: Arrays) -> Any:
        loss, *state[:] = step(*state, batch)
        return loss

    return Timed(_in_turn(on_batch, batches), jax.block_until_ready, _number)


def _updated(xp: Any, rule: Optimizer, p: Any, g: Any, slots: Any, count: Any) -> Any:
    """Return the new parameter and slots."""
    if rule.name == "sgd":
        return p - rule.rate * g, []
    if rule.name == "momentum":
        velocity = rule.momentum * slots[0] - rule.rate * g
        return p + velocity, [velocity]
    m = rule.beta_1 * slots[0] + (1 - rule.beta_1) * g
    v = rule.beta_2 * slots[1] + (1 - rule.beta_2) * g * g.conj()
    rate = rule.rate * xp.sqrt(1 - rule.beta_2**count) / (1 - rule.beta_1**count)
    return (p - rate * m / (xp.sqrt(v) + rule.epsilon)).astype(p.dtype), [m, v]


def _in_torch(mode: str, program: Program, device: str) -> Timed:
    import torch

    if device == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    values, drawn, is_half = _drawn(program, device)
    half = (lambda x: x.to(torch.bfloat16)) if is_half else (lambda x: x)
    params = {k: torch.nn.Parameter(torch.tensor(v, device=device)) for k, v in values.items()}
    batches = [{k: torch.tensor(v, device=device) for k, v in batch.items()} for batch in drawn]
    function: Any = program.on_torch(program.sizes[device], half)
    if mode != "eager":
        function = torch.compile(function, dynamic=False)
    optimizer = None
    if program.optimizer is not None:
        optimizer = _torch_optimizer(program.optimizer, params, is_captured=mode == "graph")

    def step(batch: Arrays) -> Any:
        if program.kind is Kind.STEP:
            return function(params, batch)
        loss = function(params, batch)
        if optimizer is None:
            return loss, torch.autograd.grad(loss, [*params.values()])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def synchronize(result: Any) -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    run = _captured_by_torch(step, params, optimizer) if mode == "graph" else step
    return Timed(_in_turn(run, batches), synchronize, _number)


def _captured_by_torch(
    step: Callable[[Arrays], Any], params: Arrays, optimizer: Any
) -> Callable[[Arrays], Any]:
    """Return a function that copies its batch into fixed arrays and replays a CUDA graph."""
    import torch

    inputs: Arrays = {}
    captured: list[Any] = []

    def capture(batch: Arrays) -> None:
        inputs.update({name: value.clone() for name, value in batch.items()})
        start = {name: value.detach().clone() for name, value in params.items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # compile, choose algorithms and allocate outside of the graph
                step(inputs)
        torch.cuda.current_stream().wait_stream(side)
        with torch.no_grad():
            for name, value in start.items():
                params[name].copy_(value)
            slots = [] if optimizer is None else optimizer.state.values()
            for value in [v for slot in slots for v in slot.values() if torch.is_tensor(v)]:
                value.zero_()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = step(inputs)
        captured.extend((graph, result))

    def replay(batch: Arrays) -> Any:
        if not captured:
            capture(batch)
        for name, value in batch.items():
            inputs[name].copy_(value)
        captured[0].replay()
        return captured[1]

    return replay


def _torch_optimizer(rule: Optimizer, params: Arrays, *, is_captured: bool = False) -> Any:
    import torch

    values = [*params.values()]
    fused = not any([value.is_complex() for value in values])
    if rule.name == "adam":
        betas = rule.beta_1, rule.beta_2
        return torch.optim.Adam(
            values, rule.rate, betas, rule.epsilon, fused=fused, capturable=is_captured
        )
    momentum = rule.momentum if rule.name == "momentum" else 0.0
    return torch.optim.SGD(values, rule.rate, momentum, fused=fused)
