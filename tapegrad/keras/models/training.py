"""compile, fit, evaluate and predict: training with the steps that a model defines."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core import nest
from tapegrad.errors import ArgumentError
from tapegrad.keras import optimizers
from tapegrad.keras.callbacks.callback_list import CallbackList
from tapegrad.keras.callbacks.logs import fetched
from tapegrad.keras.metrics.metric import Metric
from tapegrad.keras.metrics.reduction import Mean
from tapegrad.keras.models.batches import ArrayBatches, batches_of, unpack
from tapegrad.keras.models.compiled import CompiledLoss, CompiledMetrics
from tapegrad.ops.joining import concat
from tapegrad.program.function import function

Logs = dict[str, Any]


class Trainer:
    """What a model needs to be trained; `Model` has it."""

    optimizer: Any = None
    built: bool
    stop_training = False
    _loss: CompiledLoss | None = None
    _compiled: CompiledMetrics | None = None
    _weighted: CompiledMetrics | None = None
    _tracker: Mean | None = None

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: Any = "auto",
        auto_scale_loss: bool = True,
    ) -> None:
        """Say how the model is trained: by which optimizer, loss and metrics."""
        self.optimizer = optimizers.get(optimizer)
        self.loss = loss
        self.run_eagerly = run_eagerly
        self._loss = None if loss is None else CompiledLoss(loss, loss_weights)
        self._compiled = CompiledMetrics(metrics)
        self._weighted = CompiledMetrics(weighted_metrics, is_weighted=True)
        self._tracker = Mean(name="loss")
        self._functions: dict[str, Any] = {}
        self.stop_training = False

    @property
    def compiled(self) -> bool:
        return self._tracker is not None

    @property
    def metrics(self) -> list[Metric]:
        """The mean loss, then what the model was compiled with, then metrics of its own."""
        if self._tracker is None or self._compiled is None or self._weighted is None:
            return []
        return [self._tracker, *self._compiled.metrics, *self._weighted.metrics]

    @property
    def metrics_names(self) -> list[str]:
        return [metric.name for metric in self.metrics]

    def reset_metrics(self) -> None:
        """Let all metrics begin anew."""
        for metric in self.metrics:
            metric.reset_state()

    # Steps, which subclasses may define otherwise

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Return the loss of a batch, with what layers have added."""
        total = None
        if self._loss is not None and y is not None:
            total = self._loss(y, y_pred, sample_weight)
        for more in self.losses:  # type: ignore[attr-defined]
            total = more if total is None else total + more
        if total is None:
            raise ArgumentError(
                "There is nothing to make small: compile the model with a loss and pass targets, "
                "or add losses in its layers with add_loss."
            )
        return total

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Logs:
        """Update the metrics with a batch, and return all of them by name."""
        if y is not None and self._compiled is not None and self._weighted is not None:
            self._compiled.update_state(y, y_pred)
            self._weighted.update_state(y, y_pred, sample_weight)
        return self.get_metrics_result()

    def get_metrics_result(self) -> Logs:
        """Return the metrics as they are now, by name."""
        found: Logs = {}
        for metric in self.metrics:
            result = metric.result()
            found.update(result if isinstance(result, dict) else {metric.name: result})
        return found

    def train_step(self, data: Any) -> Logs:
        """Make the loss of a batch smaller; return the metrics."""
        x, y, sample_weight = unpack(data)
        with GradientTape() as tape:
            y_pred = self(x, training=True)  # type: ignore[operator]
            loss = self.compute_loss(x, y, y_pred, sample_weight)
            scale = getattr(self.optimizer, "scale_loss", None)
            scaled = loss if scale is None else scale(loss)
        variables = self.trainable_variables  # type: ignore[attr-defined]
        self._track(loss, x)
        self.optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables))
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def test_step(self, data: Any) -> Logs:
        """Evaluate a batch; return the metrics."""
        x, y, sample_weight = unpack(data)
        y_pred = self(x, training=False)  # type: ignore[operator]
        self._track(self.compute_loss(x, y, y_pred, sample_weight, training=False), x)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def predict_step(self, data: Any) -> Any:
        """Return the outputs for a batch."""
        return self(unpack(data)[0], training=False)  # type: ignore[operator]

    def _track(self, loss: Any, x: Any) -> None:
        assert self._tracker is not None
        self._tracker.update_state(loss, sample_weight=float(nest.flatten(x)[0].shape[0]))

    def _step(self, name: str) -> Any:
        """A step as it is run: recorded as a program, unless the model runs eagerly."""
        if not hasattr(self, "_functions"):
            self._functions = {}
        if name not in self._functions:
            step = getattr(self, name)

            def run(*data: Any) -> Any:  # flat arguments are looked up faster than a tuple
                return step(data)

            eagerly = getattr(self, "run_eagerly", False)
            self._functions[name] = run if eagerly else function(run)
        return self._functions[name]

    def _run(self, name: str, data: Any) -> Any:
        while data[-1] is None:  # steps get (x, y), as in Keras, where there are no weights
            data = data[:-1]
        if not self.built:
            # Before anything is recorded: what is drawn for the weights is no part of a step.
            self.predict_step(data)
        return self._step(name)(*data)

    def _check_compiled(self, what: str) -> None:
        if not self.compiled:
            raise ArgumentError(
                f"Call model.compile(optimizer=..., loss=...) before model.{what}(...)."
            )

    # Loops

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int = 1,
    ) -> Any:
        """Train for some epochs; return the history of the metrics."""
        self._check_compiled("fit")
        if validation_split:
            (x, y, sample_weight), validation_data = _split(x, y, sample_weight, validation_split)
        data = batches_of(x, y, sample_weight, batch_size, shuffle, class_weight)
        hooks = CallbackList(callbacks, self, verbose, epochs, steps_per_epoch or data.steps)
        self.stop_training = False
        source = iter(data) if steps_per_epoch is not None else None
        hooks.on_train_begin()
        for epoch in range(initial_epoch, epochs):
            self.reset_metrics()
            hooks.on_epoch_begin(epoch)
            steps = source if source is not None else iter(data)
            logs, count = self._train_epoch(hooks, steps, steps_per_epoch)
            if steps_per_epoch is not None and count < steps_per_epoch:
                source, self.stop_training = iter(data), self.stop_training or _is_once(data)
            results = fetched(logs)
            if validation_data is not None and (epoch + 1) % validation_freq == 0:
                results.update(
                    self._validate(
                        validation_data, validation_batch_size or batch_size, validation_steps
                    )
                )
            hooks.on_epoch_end(epoch, results)
            if self.stop_training:
                break
        hooks.on_train_end()
        return hooks.history

    def _train_epoch(self, hooks: Any, steps: Any, most: int | None) -> tuple[Logs, int]:
        logs: Logs = {}
        count = 0
        while most is None or count < most:
            data = next(steps, None)
            if data is None:
                break
            hooks.on_train_batch_begin(count)
            logs = self._run("train_step", data)
            hooks.on_train_batch_end(count, logs)
            count += 1
            if self.stop_training:
                break
        return logs, count

    def _validate(self, data: Any, batch_size: int | None, steps: int | None) -> Logs:
        x, y, weights = unpack(data) if isinstance(data, tuple) else (data, None, None)
        found = self.evaluate(
            x, y, batch_size, verbose=0, sample_weight=weights, steps=steps, return_dict=True
        )
        return {f"val_{name}": value for name, value in found.items()}

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """Return the loss and the metrics over some data."""
        self._check_compiled("evaluate")
        data = batches_of(x, y, sample_weight, batch_size)
        hooks = CallbackList(callbacks, self, verbose, 1, steps or data.steps, is_test=True)
        self.reset_metrics()
        hooks.on_test_begin()
        logs: Logs = {}
        for count, batch in enumerate(data):
            if steps is not None and count >= steps:
                break
            hooks.on_test_batch_begin(count)
            logs = self._run("test_step", batch)
            hooks.on_test_batch_end(count, logs)
        results = fetched(logs)
        hooks.on_test_end(results)
        if return_dict:
            return results
        values = list(results.values())
        return values[0] if len(values) == 1 else values

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Return the outputs for some data, as NumPy arrays."""
        data = batches_of(x, batch_size=batch_size)
        hooks = CallbackList(callbacks, self, 0, 1, steps or data.steps, is_test=True)
        found: list[Any] = []
        hooks.on_predict_begin()
        for count, batch in enumerate(data):
            if steps is not None and count >= steps:
                break
            hooks.on_predict_batch_begin(count)
            found.append(self._run("predict_step", batch))
            hooks.on_predict_batch_end(count, {"outputs": found[-1]})
        hooks.on_predict_end()
        if not found:
            raise ArgumentError("There was no batch to predict.")
        return nest.map_structure(lambda *parts: concat(list(parts), 0).numpy(), *found)

    # Single batches

    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Make one step of training on a batch; return the loss and the metrics."""
        self._check_compiled("train_on_batch")
        return self._on_batch("train_step", x, y, sample_weight, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Return the loss and the metrics of a batch."""
        self._check_compiled("test_on_batch")
        return self._on_batch("test_step", x, y, sample_weight, return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        """Return the outputs for a batch, as NumPy arrays."""
        return self.predict(x, batch_size=int(nest.flatten(x)[0].shape[0]))

    def _on_batch(self, name: str, x: Any, y: Any, weights: Any, return_dict: bool) -> Any:
        size = int(nest.flatten(x)[0].shape[0])
        (batch,) = ArrayBatches((x, y, weights), size, shuffle=False)
        results = fetched(self._run(name, batch))
        if return_dict:
            return results
        values = list(results.values())
        return values[0] if len(values) == 1 else values


def _is_once(data: Any) -> bool:
    return bool(getattr(data, "is_once", False))


def _split(x: Any, y: Any, weights: Any, part: float) -> tuple[Any, Any]:
    """Arrays for training, and the last part of them for validation."""
    leaves = [leaf for leaf in nest.flatten((x, y, weights)) if leaf is not None]
    if not 0 < part < 1 or not all(hasattr(leaf, "shape") for leaf in leaves):
        raise ArgumentError(
            "validation_split is a fraction between 0 and 1 of arrays in memory. "
            f"Got {part} of {type(x).__name__}."
        )
    count = int(leaves[0].shape[0])
    cut = int(np.floor(count * (1 - part)))
    if cut in (0, count):
        raise ArgumentError(
            f"validation_split={part} of {count} examples leaves nothing for training or for "
            "validation."
        )
    front = nest.map_structure(lambda a: None if a is None else a[:cut], (x, y, weights))
    back = nest.map_structure(lambda a: None if a is None else a[cut:], (x, y, weights))
    return front, back
