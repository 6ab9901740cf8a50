"""tapegrad.keras: the workloads as models, trained by a loop of the user's own."""

from __future__ import annotations

from typing import Any

import tapegrad as tf
from tapegrad_bench.adapters.keras_models import network_of
from tapegrad_bench.adapters.on_tapegrad import (
    Made,
    OnCpu,
    OnCuda,
    made_of,
    on_device,
    to_tensor,
)
from tapegrad_bench.adapters.tensorflow_names import make_optimizer
from tapegrad_bench.workload import Array, Problem


def train(problem: Problem) -> Made:
    """Return the gradients of a model, its whole step, and the batches."""
    network = network_of(problem)
    model = network.model
    batches = [
        [to_tensor(array, problem.dtype) for array in network.arrange(batch)]
        for batch in problem.batches()
    ]
    model(batches[0][0])  # which makes the weights
    for variable, value in zip(model.trainable_variables, problem.params, strict=True):
        variable.assign(to_tensor(value, problem.parameter_dtype))
    assert problem.workload.optimizer is not None
    optimizer = make_optimizer(problem.workload.optimizer, tf.keras.optimizers)

    def differentiate(x: Array, *others: Array) -> tuple[Any, list[Any], list[Any]]:
        with tf.GradientTape() as tape:
            loss = network.loss(model(x, training=True), *others)
        variables = model.trainable_variables
        return loss, tape.gradient(loss, variables), variables

    def gradients(*batch: Array) -> Any:
        return differentiate(*batch)[:2]

    def step(*batch: Array) -> Any:
        loss, found, variables = differentiate(*batch)
        optimizer.apply_gradients(zip(found, variables))
        return loss, []

    return made_of(problem, gradients, step, batches, model.trainable_variables, optimizer)


def load(device: str) -> OnCpu | OnCuda:
    """Return the library on `device`."""
    return on_device(device, train)
