"""HIPS autograd: NumPy functions, differentiated as they run."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np

from tapegrad_bench.adapters.library import OnHost, Prepared, UnsupportedError, fetching
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
        params = [p.copy() for p in problem.params]
        gradients = _differentiate(problem, params)
        if problem.workload.optimizer is None:
            return Prepared(gradients, _fetch)
        # Autograd has optimizers for flat vectors only, so the update is NumPy's.
        updates = Updates(np, problem.workload.optimizer, params)

        def step() -> Any:
            loss, found = gradients()
            updates.apply(found)
            return loss, []

        return Prepared(step, _fetch, gradients)


def _differentiate(problem: Problem, params: list[Any]) -> Any:
    ops, batch, kind = NumpyOps(anp), problem.batch, problem.workload.kind
    if kind is Kind.HVP:
        product = autograd.hessian_vector_product(lambda x: problem.apply(ops, [x], batch))
        return lambda: (None, [product(params[0], batch[-1])])
    if kind is Kind.JACOBIAN:
        matrix = autograd.jacobian(lambda x: problem.apply(ops, [x], batch))
        return lambda: (None, [matrix(params[0])])
    if kind is Kind.PULLBACK:
        pull = autograd.make_vjp(lambda p: problem.apply(ops, p, batch))

        def pullback() -> Any:
            backward, value = pull(params)
            return value, backward(batch[-1])

        return pullback
    both = autograd.value_and_grad(lambda p: problem.apply(ops, p, batch))
    return lambda: both(params)


_fetch = fetching(np.asarray)


def load(device: str) -> Autograd:
    """Return the library."""
    return Autograd()
