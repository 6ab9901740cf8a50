"""Training: `fit`, `evaluate` and `predict` with recorded steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import callbacks as callbacks_module, optimizers as optimizers_module, tree
from keras.src.backend import config
from keras.src.trainers import trainer as base_trainer
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.utils import traceback_utils
from keras.src.utils.python_utils import pythonify_logs

import tapegrad as tg
from keras_tapegrad.backend.core import convert_to_numpy
from keras_tapegrad.backend.tensors import convert_to_tensor
from keras_tapegrad.backend.text_arrays import epoch_iterator
from tapegrad.core.call_site import warn_outside
from tapegrad.core.values.strings import StringTensor

Step = Callable[[Any], Any]


class TapegradTrainer(base_trainer.Trainer):  # type: ignore[misc]  # Keras has no types
    """Trains with a tape; each step is a `tapegrad.function` unless the model runs eagerly."""

    def __init__(self) -> None:
        super().__init__()
        self.train_function: Any = None
        self.test_function: Any = None
        self.predict_function: Any = None

    def _forward(self, x: Any, training: bool) -> Any:
        return self(x, training=training) if self._call_has_training_arg else self(x)

    def _track_loss(self, loss: Any, x: Any) -> None:
        first = next(leaf for leaf in tree.flatten(x) if leaf is not None)
        self._loss_tracker.update_state(loss, sample_weight=first.shape[0])

    def train_step(self, data: Any) -> Any:
        """Compute the gradients of one batch, update the weights and return the metrics."""
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        with tg.GradientTape() as tape:
            y_pred = self._forward(x, training=True)
            loss = self._compute_loss(
                x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True
            )
            scaled = loss if self.optimizer is None else self.optimizer.scale_loss(loss)
        self._track_loss(loss, x)
        weights = self.trainable_weights
        if weights:
            gradients = tape.gradient(scaled, [weight._value for weight in weights])
            self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        else:
            warn_outside(
                "No weight of the model is trainable, so the step changes none.",
            )
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def test_step(self, data: Any) -> Any:
        """Compute the loss and the metrics of one batch."""
        x, y, sample_weight = data_adapter_utils.unpack_x_y_sample_weight(data)
        y_pred = self._forward(x, training=False)
        loss = self._compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=False
        )
        self._track_loss(loss, x)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def predict_step(self, data: Any) -> Any:
        """Return the outputs for one batch."""
        x, _, _ = data_adapter_utils.unpack_x_y_sample_weight(data)
        return self._forward(x, training=False)

    def _symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Create the variables by a symbolic call, unless the steps are the model's own.

        Models with their own steps need no `call`; their first step creates what is missing.
        """
        kind, base = type(self), TapegradTrainer
        has_own_steps = (kind.train_step, kind.test_step) != (base.train_step, base.test_step)
        try:
            super()._symbolic_build(iterator=iterator, data_batch=data_batch)
        except Exception:
            if not has_own_steps:
                raise

    def _compiled(self, step: Step) -> Step:
        """Return a step on tensors, recorded unless the model runs eagerly."""
        run = step if self.run_eagerly else tg.function(step)

        def on_tensors(data: Any) -> Any:
            texts: list[Any] = []

            def prepared(x: Any) -> Any:
                tensor = _as_tensor(x)
                if isinstance(tensor, StringTensor):
                    texts.append(tensor)
                return tensor

            tensors = tree.map_structure(prepared, data)
            # Text stays on the host, so a step that reads it cannot be recorded.
            return (step if texts else run)(tensors)

        return on_tensors

    def make_train_function(self, force: bool = False) -> Any:
        """Make the function that trains on a list of batches."""
        if self.train_function is None or force:
            self.train_function = _last_of(self._compiled(lambda data: self.train_step(data)))
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        """Make the function that evaluates a list of batches."""
        if self.test_function is None or force:
            self.test_function = _last_of(self._compiled(lambda data: self.test_step(data)))
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Any:
        """Make the function that returns the outputs for a list of batches."""
        if self.predict_function is None or force:
            self.predict_function = _joined(self._compiled(lambda data: self.predict_step(data)))
        return self.predict_function

    def _callbacks(self, callbacks: Any, verbose: Any, epochs: int, steps: Any, **more: Any) -> Any:
        if isinstance(callbacks, callbacks_module.CallbackList):
            return callbacks
        return callbacks_module.CallbackList(
            callbacks,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=epochs,
            steps=steps,
            model=self,
            **more,
        )

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]  # Keras has no types
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
        validation_freq: Any = 1,
    ) -> Any:
        """Train for a number of epochs, and return the history."""
        self._assert_compile_called("fit")
        most = config.max_epochs()
        if most and most < epochs:
            warn_outside(f"Limiting epochs to {most}")
            epochs = most
        self._eval_epoch_iterator: Any = None
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = array_slicing.train_validation_split(
                (x, y, sample_weight), validation_split=validation_split
            )
        batches = epoch_iterator(
            x=x,
            y=y,
            sample_weight=sample_weight,
            batch_size=batch_size,
            steps_per_epoch=steps_per_epoch,
            shuffle=shuffle,
            class_weight=class_weight,
            steps_per_execution=self.steps_per_execution,
        )
        self._symbolic_build(iterator=batches)
        batches.reset()
        callbacks = self._callbacks(
            callbacks, verbose, epochs, batches.num_batches, add_history=True
        )
        self.stop_training = False
        self.make_train_function()
        callbacks.on_train_begin()
        logs: Any = {}
        for epoch in range(self._initial_epoch or initial_epoch, epochs):
            logs = self._train_epoch(epoch, batches, callbacks)
            if validation_data is not None and self._should_eval(epoch, validation_freq):
                found = self._validate(
                    validation_data,
                    validation_batch_size or batch_size,
                    validation_steps,
                    callbacks,
                )
                logs.update({f"val_{name}": value for name, value in found.items()})
            callbacks.on_epoch_end(epoch, logs)
            if self.stop_training:
                break
        if isinstance(self.optimizer, optimizers_module.Optimizer) and epochs > 0:
            self.optimizer.finalize_variable_values(self.trainable_weights)
        self._eval_epoch_iterator = None
        callbacks.on_train_end(logs=logs)
        return self.history

    def _train_epoch(self, epoch: int, batches: Any, callbacks: Any) -> dict[str, Any]:
        self.reset_metrics()
        callbacks.on_epoch_begin(epoch)
        logs: Any = {}
        for first, last, data in batches:
            callbacks.on_train_batch_begin(first)
            logs = self.train_function(data)
            callbacks.on_train_batch_end(last, logs)
            if self.stop_training:
                break
        return dict(self._get_metrics_result_or_logs(logs))

    def _validate(self, data: Any, batch_size: Any, steps: Any, callbacks: Any) -> Any:
        x, y, weights = data_adapter_utils.unpack_x_y_sample_weight(data)
        if self._eval_epoch_iterator is None:
            self._eval_epoch_iterator = epoch_iterator(
                x=x,
                y=y,
                sample_weight=weights,
                batch_size=batch_size,
                steps_per_execution=self.steps_per_execution,
                steps_per_epoch=steps,
                shuffle=False,
            )
        return self.evaluate(
            x=x,
            y=y,
            sample_weight=weights,
            batch_size=batch_size,
            steps=steps,
            callbacks=callbacks,
            return_dict=True,
            _use_cached_eval_dataset=True,
        )

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]  # Keras has no types
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
        **kwargs: Any,
    ) -> Any:
        """Return the loss and the metrics of a dataset."""
        self._assert_compile_called("evaluate")
        is_cached = kwargs.pop("_use_cached_eval_dataset", False)
        if kwargs:
            raise ValueError(f"Arguments not recognized: {kwargs}")
        batches: Any = (
            self._eval_epoch_iterator
            if is_cached
            else epoch_iterator(
                x=x,
                y=y,
                sample_weight=sample_weight,
                batch_size=batch_size,
                steps_per_epoch=steps,
                shuffle=False,
                steps_per_execution=self.steps_per_execution,
            )
        )
        self._symbolic_build(iterator=batches)
        batches.reset()
        callbacks = self._callbacks(callbacks, verbose, 1, batches.num_batches)
        self.make_test_function()
        self.stop_evaluating = False
        callbacks.on_test_begin()
        self.reset_metrics()
        logs: Any = {}
        for first, last, data in batches:
            callbacks.on_test_batch_begin(first)
            logs = self.test_function(data)
            callbacks.on_test_batch_end(last, logs)
            if self.stop_evaluating:
                break
        logs = pythonify_logs(self._get_metrics_result_or_logs(logs))
        callbacks.on_test_end(logs)
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    @traceback_utils.filter_traceback  # type: ignore[untyped-decorator]  # Keras has no types
    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Return the outputs for a dataset as NumPy arrays."""
        batches = epoch_iterator(
            x=x,
            batch_size=batch_size,
            steps_per_epoch=steps,
            shuffle=False,
            steps_per_execution=self.steps_per_execution,
        )
        callbacks = self._callbacks(callbacks, verbose, 1, batches.num_batches)
        self.make_predict_function()
        self.stop_predicting = False
        callbacks.on_predict_begin()
        parts: list[Any] = []
        for first, last, data in batches:
            callbacks.on_predict_batch_begin(first)
            outputs = self.predict_function(data)
            parts.append(tree.map_structure(convert_to_numpy, outputs))
            callbacks.on_predict_batch_end(last, {"outputs": outputs})
            if self.stop_predicting:
                break
        callbacks.on_predict_end()
        return tree.map_structure(lambda *arrays: np.concatenate(arrays), *parts)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """Train on one batch, and return the metrics."""
        self._assert_compile_called("train_on_batch")
        if class_weight is not None:
            if sample_weight is not None:
                raise ValueError(
                    "Weights are given per sample or per class: leave out `sample_weight` "
                    "or `class_weight`."
                )
            sample_weight = data_adapter_utils.class_weight_to_sample_weights(y, class_weight)
        data = (x, y, sample_weight)
        self._symbolic_build(data_batch=tree.map_structure(_as_tensor, data))
        return self._on_batch(self.make_train_function(), data, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False
    ) -> Any:
        """Return the loss and the metrics of one batch."""
        self._assert_compile_called("test_on_batch")
        data = (x, y, sample_weight)
        self._symbolic_build(data_batch=tree.map_structure(_as_tensor, data))
        return self._on_batch(self.make_test_function(), data, return_dict)

    def _on_batch(self, function: Step, data: Any, return_dict: bool) -> Any:
        self.reset_metrics()
        logs = pythonify_logs(function([data]))
        return logs if return_dict else self._flatten_metrics_in_order(logs)

    def predict_on_batch(self, x: Any) -> Any:
        """Return the outputs for one batch as NumPy arrays."""
        self.make_predict_function()
        return tree.map_structure(convert_to_numpy, self.predict_function([(x,)]))


def _as_tensor(x: Any) -> Any:
    return None if x is None else convert_to_tensor(x)


def _last_of(step: Step) -> Step:
    """Return a function of several batches whose result is that of the last."""

    def run(batches: Any) -> Any:
        logs: Any = {}
        for data in batches:
            logs = step(data)
        return logs

    return run


def _joined(step: Step) -> Step:
    """Return a function of several batches whose results are joined."""

    def run(batches: Any) -> Any:
        found = [step(data) for data in batches]
        if len(found) == 1:
            return found[0]
        return tree.map_structure(lambda *parts: tg.concat(parts, 0), *found)

    return run
