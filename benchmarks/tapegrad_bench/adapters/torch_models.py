"""What PyTorch trains: the workload's own lines, or a layer of torch.nn that computes the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tapegrad_bench.adapters.library import UnsupportedError
from tapegrad_bench.adapters.torch_ops import TorchOps, to_torch
from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Problem


@dataclass(frozen=True)
class Model:
    """Parameters and the loss of a batch."""

    parameters: list[Any]
    loss: Callable[[list[Any]], Any]
    arrange: Callable[[Any], Any] = lambda tensor: tensor
    """Turn an array between the order of axes of the workload and that of the parameters."""

    def set(self, values: Sequence[Any]) -> None:
        """Give the parameters values, in the order of axes of the workload."""
        with torch.no_grad():
            for parameter, value in zip(self.parameters, values, strict=True):
                parameter.copy_(self.arrange(value))


def plain_model(problem: Problem, device: str) -> Model:
    """Return the workload's own lines."""
    ops = TorchOps(problem.dtype)
    values = [to_torch(p, problem.parameter_dtype, device) for p in problem.params]
    parameters = [torch.nn.Parameter(value) for value in values]
    return Model(parameters, lambda batch: problem.apply(ops, parameters, batch))


def module_model(problem: Problem, device: str) -> Model:
    """Return a layer of torch.nn in the place of the workload's lines: on CUDA it is cuDNN's."""
    if is_half(problem.dtype):
        raise UnsupportedError("torch.nn.RNN has no single-precision weights for half precision.")
    assert problem.workload.name == "rnn"
    dtype = getattr(torch, problem.dtype)
    hidden = problem.dims["hidden"]
    layer = torch.nn.RNN(hidden, hidden, device=device, dtype=dtype)
    # The layer has two biases, of which the workload has the first.
    torch.nn.init.zeros_(layer.bias_hh_l0).requires_grad_(False)

    def loss(batch: list[Any]) -> Any:
        _, last = layer(batch[0], batch[1][None])
        return (last[0] * last[0]).mean()

    parameters = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0]
    model = Model(parameters, loss, lambda tensor: tensor.T if tensor.dim() == 2 else tensor)
    model.set([to_torch(p, problem.dtype, device) for p in problem.params])
    return model
