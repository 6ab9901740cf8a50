"""Steps of programs in each library: arrays in, and named results as NumPy arrays out.

The results of a program that differentiates are `loss`, `gradient of <parameter>`, and, after an
update, `<parameter>`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Dims, Kind, Optimizer, Program, Values

Results = dict[str, np.ndarray]


def results_of(library: str, program: Program, size: str) -> Results:
    """Return the results of one step in double precision, on the host."""
    run = {"tapegrad": _in_tapegrad, "jax": _in_jax, "torch": _in_torch}[library]
    params, (batch,) = program.draw(size)
    return run(program, program.sizes[size], params, batch)


def updated(rule: Optimizer, params: dict[str, Any], gradients: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters after the first update of a rule, whose slots are zeros."""
    if rule.name in ("sgd", "momentum"):
        return {name: p - rule.rate * gradients[name] for name, p in params.items()}
    # In its first step Adam divides each gradient by its size.
    return {
        name: p - rule.rate * gradients[name] / (abs(gradients[name]) + rule.epsilon)
        for name, p in params.items()
    }


def _keep(x: Any) -> Any:
    return x


def _in_tapegrad(program: Program, dims: Dims, params: Values, batch: Values) -> Results:
    import tapegrad as tf

    function = program.on_tapegrad(dims, _keep)
    variables = {name: tf.Variable(value) for name, value in params.items()}
    inputs = {name: tf.constant(value) for name, value in batch.items()}

    def step(inputs: Arrays) -> Any:
        if program.kind is Kind.STEP:
            return function(variables, inputs)
        with tf.GradientTape() as tape:
            loss = function(variables, inputs)
        return loss, tape.gradient(loss, variables)

    result = tf.function(step)(inputs)
    return _named(program, {name: v.value() for name, v in variables.items()}, result, np.asarray)


def _in_jax(program: Program, dims: Dims, params: Values, batch: Values) -> Results:
    import jax

    jax.config.update("jax_enable_x64", True)
    function = program.on_jax(dims, _keep)
    if program.kind is not Kind.STEP:
        function = jax.value_and_grad(function)
    arrays, inputs = ({k: jax.numpy.asarray(v) for k, v in d.items()} for d in (params, batch))
    result = jax.jit(function)(arrays, inputs)
    if program.kind is not Kind.STEP:  # JAX returns the conjugate of other libraries' gradients
        result = result[0], {name: g.conj() for name, g in result[1].items()}
    return _named(program, arrays, result, np.asarray)


def _in_torch(program: Program, dims: Dims, params: Values, batch: Values) -> Results:
    import torch

    function = program.on_torch(dims, _keep)
    arrays = {name: torch.tensor(value, requires_grad=True) for name, value in params.items()}
    inputs = {name: torch.tensor(value) for name, value in batch.items()}
    result = function(arrays, inputs)
    if program.kind is not Kind.STEP:
        result = result, dict(zip(arrays, torch.autograd.grad(result, [*arrays.values()])))
    return _named(program, arrays, result, lambda x: x.detach().resolve_conj().numpy())


def _named(
    program: Program, params: Arrays, result: Any, to_host: Callable[[Any], np.ndarray]
) -> Results:
    if program.kind is Kind.STEP:
        return {name: to_host(value) for name, value in result.items()}
    loss, gradients = result
    found = {"loss": to_host(loss)}
    hosts = {name: to_host(value) for name, value in gradients.items()}
    found |= {f"gradient of {name}": value for name, value in hosts.items()}
    if program.optimizer is not None:
        start = {name: to_host(value) for name, value in params.items()}
        found |= updated(program.optimizer, start, hosts)
    return found
