"""HIPS autograd: NumPy functions, differentiated as they run."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np

from tapegrad_bench.adapters.library import (
    OnHost,
    Prepared,
    UnsupportedError,
    fetching,
    in_turn,
)
from tapegrad_bench.adapters.numpy_ops import NumpyOps
from tapegrad_bench.handwritten import Updates
from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Kind, Problem


class Autograd(OnHost):
    """HIPS autograd, which runs on the CPU only."""

    version = version("autograd")

    def prepare(self, mode: str, problem: Problem) -> Prepared:
        if is_half(problem.dtype):
            raise UnsupportedError("HIPS autograd does not compute in half precision.")
        gradients = _differentiate(problem)
        if problem.workload.optimizer is None:
            run, rewind = in_turn(gradients, problem.inputs())
            return Prepared(run, _fetch, rewind)
        params, batches = [p.copy() for p in problem.params], [*problem.batches()]
        # Autograd has optimizers for flat vectors only, so the update is NumPy's.
        updates = Updates(np, problem.workload.optimizer, params)

        def step(batch: Any) -> Any:
            loss, found = gradients(params, batch)
            updates.apply(found)
            return loss, []

        run, rewind = in_turn(step, [(batch,) for batch in batches])

        def restart() -> None:
            rewind()
            updates.restart()
            for p, start in zip(params, problem.params):
                p[...] = start

        return Prepared(
            run,
            _fetch,
            restart,
            gradients=lambda: gradients(params, batches[0]),
            parameters=lambda: params,
            moments=updates.moments,
        )


def _differentiate(problem: Problem) -> Any:
    """Return the function of parameters and batch that one step is, without an update."""
    ops, kind = NumpyOps(anp), problem.workload.kind

    def of_first(x: Any, batch: Any) -> Any:
        return problem.apply(ops, [x], batch)

    def pullback(params: Any, batch: Any) -> Any:
        backward, value = autograd.make_vjp(lambda p: problem.apply(ops, p, batch))(params)
        return value, backward(batch[-1])

    if kind is Kind.HVP:
        product = autograd.hessian_vector_product(of_first)
        return lambda params, batch: (None, [product(params[0], batch, batch[-1])])
    if kind is Kind.JACOBIAN:
        matrix = autograd.jacobian(of_first)
        return lambda params, batch: (None, [matrix(params[0], batch)])
    if kind is Kind.PULLBACK:
        return pullback
    return autograd.value_and_grad(lambda p, batch: problem.apply(ops, p, batch))


_fetch = fetching(np.asarray)


def load(device: str) -> Autograd:
    """Return the library."""
    return Autograd()
