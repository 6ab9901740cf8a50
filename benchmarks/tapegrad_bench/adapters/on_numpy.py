"""Hand-written NumPy: what an eager library on NumPy can reach at best."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad_bench.adapters.library import OnHost, Prepared, UnsupportedError, fetching
from tapegrad_bench.handwritten import STEPS, Updates
from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Problem


class Numpy(OnHost):
    """The steps of handwritten.py on NumPy arrays."""

    version = np.__version__

    def prepare(self, mode: str, problem: Problem) -> Prepared:
        if is_half(problem.dtype):
            raise UnsupportedError("NumPy does not compute in half precision.")
        return prepare(
            np, problem, [p.copy() for p in problem.params], problem.batch, fetching(np.asarray)
        )


def prepare(xp: Any, problem: Problem, params: Any, batch: Any, fetch: Any) -> Prepared:
    """Make the hand-written step of `problem` on arrays of `xp`."""
    compute = STEPS.get(problem.workload.name)
    if compute is None:
        raise UnsupportedError(f"There is no hand-written step for {problem.workload.name}.")

    def gradients() -> Any:
        return compute(xp, problem.dims, params, batch)

    optimizer = problem.workload.optimizer
    if optimizer is None:
        return Prepared(gradients, fetch)
    updates = Updates(xp, optimizer, params)

    def step() -> Any:
        loss, found = gradients()
        updates.apply(found)
        return loss, []

    return Prepared(step, fetch, gradients)


def load(device: str) -> Numpy:
    """Return the library."""
    return Numpy()
