"""Hand-written NumPy: what an eager library on NumPy can reach at best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_bench.adapters.library import (
    OnHost,
    Prepared,
    UnsupportedError,
    fetching,
    in_turn,
)
from tapegrad_bench.handwritten import STEPS, Updates
from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Arrays, Problem


class Numpy(OnHost):
    """The steps of handwritten.py on NumPy arrays."""

    version = np.__version__

    def prepare(self, mode: str, problem: Problem) -> Prepared:
        if is_half(problem.dtype):
            raise UnsupportedError("NumPy does not compute in half precision.")
        return prepare(np, problem, lambda array, dtype: array.copy(), fetching(np.asarray))


def prepare(
    xp: Any, problem: Problem, bring: Callable[[np.ndarray, str], Any], fetch: Any
) -> Prepared:
    """Make the hand-written step of `problem` on arrays of `xp`, to which `bring` converts."""
    compute = STEPS.get(problem.workload.name)
    if compute is None:
        raise UnsupportedError(f"There is no hand-written step for {problem.workload.name}.")

    def gradients(params: Any, batch: Any) -> Any:
        return compute(xp, problem.dims, params, batch)

    def brought(arrays: Arrays, dtype: str) -> list[Any]:
        return [bring(array, dtype) for array in arrays]

    optimizer, dtype = problem.workload.optimizer, problem.dtype
    if optimizer is None:
        sets = [(brought(p, dtype), brought(batch, dtype)) for p, batch in problem.inputs()]
        run, rewind = in_turn(gradients, sets)
        return Prepared(run, fetch, rewind)
    params = brought(problem.params, problem.parameter_dtype)
    batches = [(brought(batch, dtype),) for batch in problem.batches()]
    updates = Updates(xp, optimizer, params)

    def step(batch: Any) -> Any:
        loss, found = gradients(params, batch)
        updates.apply(found)
        return loss, []

    run, rewind = in_turn(step, batches)

    def restart() -> None:
        rewind()
        updates.restart()
        for p, start in zip(params, problem.params):
            p[...] = bring(start, problem.parameter_dtype)

    first = batches[0][0]
    return Prepared(
        run,
        fetch,
        restart,
        gradients=lambda: gradients(params, first),
        parameters=lambda: params,
        moments=updates.moments,
    )


def load(device: str) -> Numpy:
    """Return the library."""
    return Numpy()
