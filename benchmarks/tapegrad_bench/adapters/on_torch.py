"""PyTorch: eager, compiled in several ways, and with the whole step in one CUDA graph.

The modes "nn" and "nn-graph" use a layer of torch.nn where a workload is what that layer computes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from tapegrad_bench.adapters.library import (
    Prepared,
    Stopwatch,
    Uncounted,
    UnsupportedError,
    fetching,
    in_turn,
)
from tapegrad_bench.adapters.torch_graph import Captured, copied, forget_updates
from tapegrad_bench.adapters.torch_models import Model, module_model, plain_model
from tapegrad_bench.adapters.torch_ops import TorchOps, to_host, to_torch
from tapegrad_bench.workload import Kind, Optimizer, Problem

COMPILE_MODES = {
    "compile": None,
    "compile-overhead": "reduce-overhead",
    "max-autotune": "max-autotune",
    "graph": None,
}
"""Of torch.compile; other modes do not compile."""

GRAPHS = ("graph", "nn-graph")
"""Modes in which the harness captures the step."""

OWN_GRAPHS = ("compile-overhead", "max-autotune")
"""Modes in which torch.compile captures graphs on CUDA, whose results the next step overwrites."""


class Torch(Uncounted):
    """PyTorch on one device."""

    version: str = torch.__version__

    def __init__(self, device: str) -> None:
        self._device = device
        self._is_cuda = device != "cpu"

    def prepare(self, mode: str, problem: Problem) -> Prepared:
        if problem.workload.kind is Kind.TRAINING:
            return self._train(mode, problem)
        sets = [[self._tensors(part, problem.dtype) for part in one] for one in problem.inputs()]
        step = self._step_of(mode, problem)
        if problem.workload.kind not in (Kind.HVP, Kind.JACOBIAN):
            for params, _ in sets:
                for p in params:
                    p.requires_grad_()
        if mode in GRAPHS:
            count = len(sets[0][0])
            flat = [[*params, *batch] for params, batch in sets]
            graph = Captured(lambda both: step(both[:count], both[count:]), flat[0])
            run, rewind = in_turn(graph, [(tensors,) for tensors in flat])
        else:
            run, rewind = in_turn(step, sets)
        return Prepared(run, _fetch, rewind)

    def _step_of(self, mode: str, problem: Problem) -> Callable[..., Any]:
        """Return the function of parameters and batch that one step without an update is."""
        makers = {Kind.HVP: _hvp, Kind.JACOBIAN: _jacobian}
        step = makers.get(problem.workload.kind, _gradients)(mode, problem)
        return _with_own_graphs(step) if self._has_own_graphs(mode) else step

    def _has_own_graphs(self, mode: str) -> bool:
        return self._is_cuda and mode in OWN_GRAPHS

    def _tensors(self, arrays: Sequence[np.ndarray], dtype: str) -> list[Any]:
        return [to_torch(array, dtype, self._device) for array in arrays]

    def _train(self, mode: str, problem: Problem) -> Prepared:
        rule = problem.workload.optimizer
        assert rule is not None
        make = module_model if mode.startswith("nn") else plain_model
        model = make(problem, self._device)
        params = model.parameters
        batches = [self._tensors(batch, problem.dtype) for batch in problem.batches()]
        loss_of = _compiled(mode, model.loss)
        optimizer = make_optimizer(rule, params, capturable=mode in GRAPHS)

        def step(batch: list[Any]) -> Any:
            optimizer.zero_grad()
            loss = loss_of(batch)
            loss.backward()
            optimizer.step()
            return loss.detach(), []

        def gradients(batch: list[Any]) -> Any:
            loss = loss_of(batch)
            return loss, [model.arrange(g) for g in torch.autograd.grad(loss, params)]

        if self._has_own_graphs(mode):
            step, gradients = _with_own_graphs(step), _with_own_graphs(gradients)
        each: Callable[[list[Any]], Any] = step
        if mode in GRAPHS:
            each = Captured(step, batches[0], before_capture=optimizer.zero_grad)
        run, rewind = in_turn(each, [(batch,) for batch in batches])

        def restart() -> None:
            rewind()
            model.set(self._tensors(problem.params, problem.parameter_dtype))
            forget_updates(optimizer)

        if mode in GRAPHS:
            restart()  # the steps before the capture were updates
        return Prepared(
            run,
            _fetch,
            restart,
            gradients=lambda: gradients(batches[0]),
            parameters=lambda: [model.arrange(p) for p in params],
            moments=lambda: _moments(optimizer, model),
        )

    def release(self) -> None:
        """Compiled code is looked for among all that was ever compiled, so forget the old."""
        torch.compiler.reset()

    def synchronize(self, result: Any) -> None:
        if self._is_cuda:
            torch.cuda.synchronize()

    def stopwatch(self) -> Stopwatch | None:
        return TorchStopwatch() if self._is_cuda else None

    def allocated(self) -> int | None:
        return torch.cuda.memory_allocated() if self._is_cuda else None

    def peak_of(self, run: Callable[[], Any]) -> int | None:
        if not self._is_cuda:
            run()
            return None
        torch.cuda.reset_peak_memory_stats()
        run()
        torch.cuda.synchronize()
        return int(torch.cuda.max_memory_allocated())


class TorchStopwatch:
    """Two events on the current stream."""

    def __init__(self) -> None:
        self._first, self._last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def start(self) -> None:
        self._first.record()

    def stop(self) -> float:
        self._last.record()
        self._last.synchronize()
        return float(self._first.elapsed_time(self._last)) / 1000


def _compiled(mode: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if mode not in COMPILE_MODES:
        return function
    compiled: Callable[..., Any] = torch.compile(
        function, mode=COMPILE_MODES[mode], dynamic=False, fullgraph=True
    )
    return compiled


def _with_own_graphs(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step whose results outlive the next one, though torch.compile replays graphs."""

    def run(*arguments: Any) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        return copied(step(*arguments))

    return run


def _gradients(mode: str, problem: Problem) -> Any:
    ops = TorchOps(problem.dtype)
    forward = _compiled(mode, lambda params, batch: problem.apply(ops, params, batch))

    def step(params: list[Any], batch: list[Any]) -> Any:
        value = forward(params, batch)
        cotangent = batch[-1] if problem.workload.kind is Kind.PULLBACK else None
        return value.detach(), torch.autograd.grad(value, params, cotangent)

    return step


def _hvp(mode: str, problem: Problem) -> Any:
    ops = TorchOps(problem.dtype)
    if mode != "eager":
        # Compiled code has no second backward pass; transformed functions have.
        product = _compiled(
            mode,
            lambda x, batch: torch.func.jvp(
                torch.func.grad(lambda x: problem.apply(ops, [x], batch)), (x,), (batch[-1],)
            )[1],
        )
        return lambda params, batch: (None, [product(params[0], batch)])

    def step(params: list[Any], batch: list[Any]) -> Any:
        source = params[0].clone().requires_grad_()
        value = problem.apply(ops, [source], batch)
        (gradient,) = torch.autograd.grad(value, source, create_graph=True)
        return None, torch.autograd.grad(gradient, source, batch[-1])

    return step


def _jacobian(mode: str, problem: Problem) -> Any:
    ops = TorchOps(problem.dtype)
    function = torch.func.jacrev(lambda x, batch: problem.apply(ops, [x], batch))
    function = _compiled(mode, function)
    return lambda params, batch: (None, [function(params[0], batch)])


def make_optimizer(rule: Optimizer, params: list[Any], capturable: bool = False) -> Any:
    """Return PyTorch's own, in the fused form where that exists, which is its fastest."""
    if rule.name in ("sgd", "momentum"):
        momentum = rule.momentum if rule.name == "momentum" else 0.0
        return _fused(torch.optim.SGD, params, lr=rule.rate, momentum=momentum)
    options = {"lr": rule.rate, "betas": (rule.beta_1, rule.beta_2), "eps": rule.epsilon}
    if rule.name == "adam":
        return _fused(torch.optim.Adam, params, **options, capturable=capturable)
    decay = rule.weight_decay
    return _fused(torch.optim.AdamW, params, **options, weight_decay=decay, capturable=capturable)


def _fused(make: Callable[..., Any], params: list[Any], **options: Any) -> Any:
    try:
        return make(params, **options, fused=True)
    except (RuntimeError, TypeError):  # older versions have some of them, and none on the CPU
        return make(params, **options)


def _moments(optimizer: Any, model: Model) -> list[Any]:
    found = [optimizer.state[p].get("exp_avg") for p in model.parameters]
    return [model.arrange(moment) for moment in found if moment is not None]


_fetch = fetching(to_host)


def load(device: str) -> Torch:
    """Return the library on `device`."""
    if device == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
        return Torch("cpu")
    if not torch.cuda.is_available():
        raise UnsupportedError(f"PyTorch {torch.__version__} finds no CUDA device.")
    torch.backends.cudnn.benchmark = True
    # Or convolutions and cuDNN's recurrent layers in float32 would be rounded to TensorFloat-32.
    torch.backends.cudnn.allow_tf32 = False
    return Torch("cuda")
