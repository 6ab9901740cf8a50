"""tapegrad, eager and with the whole step in a `function`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad_bench.adapters.library import (
    OnHost,
    Prepared,
    Stopwatch,
    fetching,
    in_turn,
    numpy_bfloat16,
)
from tapegrad_bench.adapters.tapegrad_ops import TapegradOps
from tapegrad_bench.adapters.tensorflow_names import (
    make_optimizer,
    moments_of,
    restart_optimizer,
)
from tapegrad_bench.reference import dense
from tapegrad_bench.workload import Array, Kind, Problem

Step = Callable[..., Any]


@dataclass(frozen=True)
class Made:
    """A workload's step, before anybody says in which mode it runs."""

    gradients: Step
    step: Step
    """The same function, where a step updates nothing."""
    sets: Sequence[Sequence[Array]]
    """The arguments of both, which the steps take in turn."""
    parameters: Callable[[], Sequence[Array]] | None = None
    """The parameters that the step updates."""
    moments: Callable[[], Sequence[Array]] | None = None
    restart: Callable[[], None] = lambda: None
    """Put parameters and optimizer back to where they began."""


class _Tapegrad:
    """The library on one device; what differs by device is in the subclasses."""

    version: str = tf.__version__

    def __init__(self, device: str, make: Callable[[Problem], Made]) -> None:
        self._device, self._make = device, make

    def prepare(self, mode: str, problem: Problem) -> Prepared:
        if problem.dtype == "bfloat16":
            numpy_bfloat16()  # which NumPy learns by it
        with tf.device(self._device):
            made = self._make(problem)
        gradients, step = made.gradients, made.step
        if mode.endswith("function"):
            gradients, step = tf.function(gradients), tf.function(step)
        run, rewind = in_turn(step, made.sets)
        if made.step is made.gradients:
            return Prepared(run, fetch, rewind)

        def restart() -> None:
            rewind()
            with tf.device(self._device):
                made.restart()

        return Prepared(
            run,
            fetch,
            restart,
            gradients=lambda: gradients(*made.sets[0]),
            parameters=made.parameters,
            moments=made.moments,
        )


def to_tensor(array: np.ndarray, dtype: str) -> Array:
    """Bring a host array to the device; floating ones in `dtype`.

    >>> to_tensor(np.ones(2, "f4"), "float64").dtype.name
    'float64'
    """
    value = tf.constant(array)
    # Half precision crosses as float32: NumPy itself has no bfloat16.
    keeps = array.dtype.kind != "f" or str(array.dtype) == dtype
    return value if keeps else tf.cast(value, dtype)


def _tensors(arrays: Sequence[np.ndarray], dtype: str) -> list[Array]:
    return [to_tensor(array, dtype) for array in arrays]


def make_step(problem: Problem) -> Made:
    """Return the workload's own lines as a step."""
    make = _train if problem.workload.kind is Kind.TRAINING else _differentiate
    return make(problem)


def made_of(
    problem: Problem, gradients: Step, step: Step, sets: Any, variables: Any, optimizer: Any
) -> Made:
    """Return a training step of `variables` by `optimizer`."""
    rule = problem.workload.optimizer
    assert rule is not None

    def restart() -> None:
        restart_optimizer(tf, optimizer)
        for variable, start in zip(variables, problem.params, strict=True):
            variable.assign(to_tensor(start, problem.parameter_dtype))

    return Made(
        gradients, step, sets, lambda: variables, lambda: moments_of(rule, optimizer), restart
    )


def _train(problem: Problem) -> Made:
    variables = [tf.Variable(to_tensor(p, problem.parameter_dtype)) for p in problem.params]
    ops = TapegradOps(problem.dtype)
    assert problem.workload.optimizer is not None
    optimizer = make_optimizer(problem.workload.optimizer, tf.optimizers)

    def gradients(*batch: Array) -> Any:
        with tf.GradientTape() as tape:
            loss = problem.apply(ops, variables, batch)
        return loss, tape.gradient(loss, variables)

    def step(*batch: Array) -> Any:
        loss, found = gradients(*batch)
        optimizer.apply_gradients(zip(found, variables))
        return loss, []

    batches = [_tensors(batch, problem.dtype) for batch in problem.batches()]
    return made_of(problem, gradients, step, batches, variables, optimizer)


def _differentiate(problem: Problem) -> Made:
    count = len(problem.params)
    ops = TapegradOps(problem.dtype)
    kind = problem.workload.kind

    def gradient(*arguments: Array) -> Any:
        params, batch = arguments[:count], arguments[count:]
        with tf.GradientTape() as tape:
            tape.watch(params)
            value = problem.apply(ops, params, batch)
        cotangent = batch[-1] if kind is Kind.PULLBACK else None
        return value, tape.gradient(value, params, cotangent)

    def hvp(x: Array, *batch: Array) -> Any:
        product = tf.hvp(lambda x: problem.apply(ops, [x], batch), x, batch[-1])
        return None, [product]

    def jacobian(x: Array, *batch: Array) -> Any:
        return None, [tf.jacobian(lambda x: problem.apply(ops, [x], batch))(x)]

    step = {Kind.HVP: hvp, Kind.JACOBIAN: jacobian}.get(kind, gradient)
    sets = [_tensors([*params, *batch], problem.dtype) for params, batch in problem.inputs()]
    return Made(step, step, sets)


fetch = fetching(lambda value: dense(value).numpy())
"""Copy to the host; a value that the step does not give is an empty array."""


class OnCpu(_Tapegrad, OnHost):
    """tapegrad on NumPy arrays."""


class OnCuda(_Tapegrad):
    """tapegrad on CuPy arrays."""

    def __init__(self, device: str, make: Callable[[Problem], Made]) -> None:
        from tapegrad_bench.adapters import cuda_events  # loads CuPy

        super().__init__(device, make)
        self._events = cuda_events

    def release(self) -> None:
        """Nothing is kept."""

    def synchronize(self, result: Any) -> None:
        self._events.synchronize()

    def stopwatch(self) -> Stopwatch | None:
        return self._events.CupyStopwatch()

    def transfers_of(self, run: Callable[[], Any]) -> int | None:
        with tf.debug.transfers("count") as seen:
            run()
        return seen.count

    def allocated(self) -> int | None:
        return self._events.allocated()

    def peak_of(self, run: Callable[[], Any]) -> int | None:
        peak: int = self._events.peak_of(run)
        # CUDA graphs keep memory of their own, beside the pool in which the peak was looked for.
        used = tf.memory_info(self._device)["current"]
        return peak if used is None else peak + max(0, used - self._events.allocated())


def on_device(device: str, make: Callable[[Problem], Made]) -> OnCpu | OnCuda:
    """Return the library on `device`, with steps that `make` makes."""
    return OnCpu(device, make) if device == "cpu" else OnCuda(device, make)


def load(device: str) -> OnCpu | OnCuda:
    """Return the library on `device`."""
    return on_device(device, make_step)
