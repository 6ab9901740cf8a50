"""TensorFlow: eager, with the whole step in a `tf.function`, and with that compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tapegrad_bench.adapters.library import (
    Prepared,
    Stopwatch,
    Uncounted,
    UnsupportedError,
    fetching,
    in_turn,
)
from tapegrad_bench.adapters.tensorflow_names import (
    make_optimizer,
    moments_of,
    restart_optimizer,
)
from tapegrad_bench.adapters.tensorflow_ops import TensorflowOps
from tapegrad_bench.workload import Array, Kind, Problem


class Tensorflow(Uncounted):
    """TensorFlow on one device."""

    version: str = tf.__version__

    def __init__(self, device: str) -> None:
        self._device = "/CPU:0" if device == "cpu" else "/GPU:0"
        self._is_cuda = device != "cpu"

    def prepare(self, mode: str, problem: Problem) -> Prepared:
        with tf.device(self._device):
            if problem.workload.kind is not Kind.TRAINING:
                sets = [tuple(_tensors(part, problem) for part in one) for one in problem.inputs()]
                run, rewind = in_turn(self._compiled(mode, _differentiate(problem)), sets)
                return Prepared(run, _fetch, rewind)
            batches = [(_tensors(batch, problem),) for batch in problem.batches()]
            gradients, step, variables, optimizer = _train(problem)
        run, rewind = in_turn(self._compiled(mode, step), batches)
        only = self._compiled(mode, gradients)
        rule = problem.workload.optimizer
        assert rule is not None

        def restart() -> None:
            rewind()
            with tf.device(self._device):
                restart_optimizer(tf, optimizer)
                for variable, start in zip(variables, problem.params):
                    variable.assign(_tensor(start, problem.parameter_dtype))

        return Prepared(
            run,
            _fetch,
            restart,
            gradients=lambda: only(*batches[0]),
            parameters=lambda: variables,
            moments=lambda: moments_of(rule, optimizer),
        )

    def _compiled(self, mode: str, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return the step on the device: as it is, as a `tf.function`, or compiled by XLA."""
        if mode != "eager":
            step = tf.function(step, jit_compile=mode == "jit")

        def run(*arguments: Any) -> Any:
            with tf.device(self._device):
                return step(*arguments)

        return run

    def release(self) -> None:
        """Nothing is kept."""

    def synchronize(self, result: Any) -> None:
        if self._is_cuda:
            tf.test.experimental.sync_devices()

    def stopwatch(self) -> Stopwatch | None:
        """TensorFlow shows no streams."""
        return None

    def allocated(self) -> int | None:
        if not self._is_cuda:
            return None
        return int(tf.config.experimental.get_memory_info("GPU:0")["current"])

    def peak_of(self, run: Callable[[], Any]) -> int | None:
        if not self._is_cuda:
            run()
            return None
        tf.config.experimental.reset_memory_stats("GPU:0")
        self.synchronize(run())
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])


def _tensor(array: np.ndarray, dtype: str) -> Array:
    value = tf.constant(array)
    return tf.cast(value, dtype) if array.dtype.kind == "f" else value


def _tensors(arrays: Sequence[np.ndarray], problem: Problem) -> list[Array]:
    return [_tensor(array, problem.dtype) for array in arrays]


def _train(problem: Problem) -> tuple[Any, Any, list[Any], Any]:
    ops = TensorflowOps(problem.dtype)
    variables = [tf.Variable(_tensor(p, problem.parameter_dtype)) for p in problem.params]
    assert problem.workload.optimizer is not None
    optimizer = make_optimizer(problem.workload.optimizer, tf.keras.optimizers)
    optimizer.build(variables)  # a tf.function may not create variables at a later call

    def gradients(batch: Sequence[Array]) -> Any:
        with tf.GradientTape() as tape:
            loss = problem.apply(ops, variables, batch)
        return loss, tape.gradient(loss, variables)

    def step(batch: Sequence[Array]) -> Any:
        loss, found = gradients(batch)
        optimizer.apply_gradients(zip(found, variables))
        return loss, []

    return gradients, step, variables, optimizer


def _differentiate(problem: Problem) -> Any:
    ops = TensorflowOps(problem.dtype)
    kind = problem.workload.kind

    def gradient(params: Sequence[Array], batch: Sequence[Array]) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(params)
            value = problem.apply(ops, params, batch)
        cotangent = batch[-1] if kind is Kind.PULLBACK else None
        return value, tape.gradient(value, params, cotangent)

    def hvp(params: Sequence[Array], batch: Sequence[Array]) -> Any:
        x = params[0]
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                value = problem.apply(ops, [x], batch)
            slope = inner.gradient(value, x)
        return None, [outer.gradient(slope, x, batch[-1])]

    def jacobian(params: Sequence[Array], batch: Sequence[Array]) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(params[0])
            value = problem.apply(ops, params, batch)
        return None, [tape.jacobian(value, params[0])]

    return {Kind.HVP: hvp, Kind.JACOBIAN: jacobian}.get(kind, gradient)


_fetch = fetching(lambda value: tf.convert_to_tensor(value).numpy())


def load(device: str) -> Tensorflow:
    """Return the library on `device`."""
    if device != "cpu" and not tf.config.list_physical_devices("GPU"):
        raise UnsupportedError(f"TensorFlow {tf.__version__} finds no CUDA device.")
    return Tensorflow(device)
