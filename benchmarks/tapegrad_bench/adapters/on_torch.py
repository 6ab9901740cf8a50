"""PyTorch: eager, and with the loss compiled (by default, and with CUDA graphs)."""

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
from tapegrad_bench.adapters.torch_ops import TorchOps, to_host, to_torch
from tapegrad_bench.workload import Kind, Optimizer, Problem

COMPILE_MODES = {"compile": None, "compile-overhead": "reduce-overhead"}


class Torch(Uncounted):
    """PyTorch on one device."""

    version: str = torch.__version__

    def __init__(self, device: str) -> None:
        self._device = device
        self._is_cuda = device != "cpu"

    def prepare(self, mode: str, problem: Problem) -> Prepared:
        ops, kind = TorchOps(problem.dtype), problem.workload.kind
        if kind is Kind.TRAINING:
            return self._train(mode, problem, ops)
        sets = [[self._tensors(part, problem.dtype) for part in one] for one in problem.inputs()]
        if kind is Kind.HVP:
            step = _hvp(mode, problem, ops)
        elif kind is Kind.JACOBIAN:
            step = _jacobian(mode, problem, ops)
        else:
            for params, _ in sets:
                for p in params:
                    p.requires_grad_()
            step = _gradients(mode, problem, ops)
        return Prepared(in_turn(step, sets), _fetch)

    def _tensors(self, arrays: Sequence[np.ndarray], dtype: str) -> list[Any]:
        return [to_torch(array, dtype, self._device) for array in arrays]

    def _train(self, mode: str, problem: Problem, ops: TorchOps) -> Prepared:
        rule = problem.workload.optimizer
        assert rule is not None
        values = self._tensors(problem.params, problem.parameter_dtype)
        params = [torch.nn.Parameter(value) for value in values]
        batches = [(self._tensors(batch, problem.dtype),) for batch in problem.batches()]
        forward = _compiled(mode, lambda batch: problem.apply(ops, params, batch))
        gradients = _gradients(mode, problem, ops)
        optimizer = _optimizer(rule, params, self._is_cuda)

        def step(batch: list[Any]) -> Any:
            if mode == "compile-overhead":
                torch.compiler.cudagraph_mark_step_begin()
            optimizer.zero_grad()
            loss = forward(batch)
            loss.backward()
            optimizer.step()
            return loss, []

        run = in_turn(step, batches)
        return Prepared(run, _fetch, lambda: gradients(params, *batches[0]), lambda: params)

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
    if mode == "eager":
        return function
    compiled: Callable[..., Any] = torch.compile(
        function, mode=COMPILE_MODES[mode], dynamic=False, fullgraph=True
    )
    return compiled


def _gradients(mode: str, problem: Problem, ops: TorchOps) -> Any:
    forward = _compiled(mode, lambda params, batch: problem.apply(ops, params, batch))

    def step(params: list[Any], batch: list[Any]) -> Any:
        if mode == "compile-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        value = forward(params, batch)
        cotangent = batch[-1] if problem.workload.kind is Kind.PULLBACK else None
        return value, torch.autograd.grad(value, params, cotangent)

    return step


def _hvp(mode: str, problem: Problem, ops: TorchOps) -> Any:
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


def _jacobian(mode: str, problem: Problem, ops: TorchOps) -> Any:
    function = torch.func.jacrev(lambda x, batch: problem.apply(ops, [x], batch))
    function = _compiled(mode, function)
    return lambda params, batch: (None, [function(params[0], batch)])


def _optimizer(rule: Optimizer, params: list[Any], is_cuda: bool) -> Any:
    """PyTorch's own; on CUDA in the fused form, which is its fastest."""
    fused = True if is_cuda else None
    if rule.name in ("sgd", "momentum"):
        momentum = rule.momentum if rule.name == "momentum" else 0.0
        return torch.optim.SGD(params, rule.rate, momentum, fused=fused)
    moments = {"betas": (rule.beta_1, rule.beta_2), "eps": rule.epsilon, "fused": fused}
    if rule.name == "adam":
        return torch.optim.Adam(params, rule.rate, **moments)
    return torch.optim.AdamW(params, rule.rate, weight_decay=rule.weight_decay, **moments)


_fetch = fetching(to_host)


def load(device: str) -> Torch:
    """Return the library on `device`."""
    if device == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads())))
        return Torch("cpu")
    if not torch.cuda.is_available():
        raise UnsupportedError(f"PyTorch {torch.__version__} finds no CUDA device.")
    return Torch("cuda")
