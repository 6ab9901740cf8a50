"""fit, evaluate and predict: the loops over batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad.core.call_site import warn_outside
from tapegrad.core.values import nest
from tapegrad.data.own_batches import is_divided_by_program, own_batches
from tapegrad.errors import ArgumentError
from tapegrad.keras.batch_data import unpack
from tapegrad.keras.callbacks.callback_list import CallbackList
from tapegrad.keras.callbacks.history import History
from tapegrad.keras.callbacks.logs import fetched
from tapegrad.keras.config import limited_epochs, limited_steps
from tapegrad.keras.models.arguments import (
    check_count,
    check_frequency,
    check_verbose,
    is_due,
    split,
)
from tapegrad.keras.models.batches import (
    ArrayBatches,
    ReplayedIterator,
    as_arrays,
    batches_of,
    placed,
    repeats,
)
from tapegrad.keras.models.class_weights import check_class_weight, weights_of_classes
from tapegrad.keras.models.compiling import Logs
from tapegrad.keras.models.position import Position
from tapegrad.keras.models.replicated import (
    add_metrics,
    average_states,
    equalize,
    own_rows,
    prepare,
    replicas_of,
)
from tapegrad.keras.models.steps import Steps, executions
from tapegrad.keras.optimizers.base import Optimizer
from tapegrad.ops.collective.replicas import fixed_shards
from tapegrad.ops.shape.joining import concat
from tapegrad.sparse.tensor import SparseTensor


class Trainer(Steps):
    """Base class of `Model`: the training loops."""

    _under_way: list[Any] | None = None
    """The batches of the current or last execution in `fit`."""

    _place_in_fit: Position | None = None
    """The position of `fit` while it runs."""

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
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
    ) -> History:
        """Train for a number of epochs; return the history of the metrics.

        The last three arguments are those of earlier versions and have no effect.
        """
        self._check_compiled("fit")
        self._check_optimizer()
        check_count("epochs", epochs, 0)
        check_count("initial_epoch", initial_epoch, 0)
        check_count("steps_per_epoch", steps_per_epoch)
        check_count("validation_steps", validation_steps)
        check_frequency(validation_freq)
        if validation_split and validation_data is None:
            x, y, sample_weight = as_arrays(x), as_arrays(y), as_arrays(sample_weight)
            parts = split(x, y, sample_weight, validation_split)
            (x, y, sample_weight), validation_data = parts
        if isinstance(validation_data, Iterator) and not repeats(validation_data):
            validation_data = ReplayedIterator(validation_data)
        if replicas_of(self.optimizer) > 1 and is_divided_by_program(x):
            x = own_batches(x, replicas_of(self.optimizer))
        data = batches_of(x, y, sample_weight, batch_size, shuffle, class_weight)
        check_verbose(verbose)
        epochs = limited_epochs(epochs)
        steps_per_epoch = limited_steps(steps_per_epoch, data.steps)
        hooks = CallbackList(callbacks, self, verbose, epochs, steps_per_epoch or data.steps)
        checked = validation_data, validation_batch_size or batch_size, validation_steps
        self.stop_training = False
        self.__dict__["history"] = hooks.history
        position = self.__dict__["_place_in_fit"] = Position(data, initial_epoch)
        position.is_distributed = getattr(x, "is_distributed", False)
        hooks.on_train_begin({})  # may set the position
        source = None if steps_per_epoch is None else position.steps
        results: Logs = {}
        for epoch in range(position.epoch, epochs):
            left = position.steps if position.done else None
            if left is None:
                self.reset_metrics()
            hooks.on_epoch_begin(epoch, {})
            steps = source or left or position.begin()
            source = None if steps_per_epoch is None else steps
            logs, count = self._train_epoch(hooks, steps, steps_per_epoch, position)
            if count == 0 and source is not None and epoch > initial_epoch and not _is_once(data):
                source = position.begin()  # the data ended exactly with the last epoch
                logs, count = self._train_epoch(hooks, source, steps_per_epoch, position)
            if count == 0:
                _check_began(epoch, initial_epoch)
                break
            if steps_per_epoch is not None and count < steps_per_epoch:
                source = None
                self.stop_training = self.stop_training or _has_ended(data, count, epoch)
            results = fetched(logs)
            if validation_data is not None and is_due(validation_freq, epoch):
                results.update(self._validate(hooks, *checked))
            position.epoch, position.done = epoch + 1, 0
            hooks.on_epoch_end(epoch, results)
            if self.stop_training:
                break
        self.__dict__.update(_under_way=None, _place_in_fit=None)
        if isinstance(self.optimizer, Optimizer) and epochs:
            # An optimizer with moving averages of the weights sets the weights to them.
            variables = self.trainable_variables  # type: ignore[attr-defined]
            self.optimizer.finalize_variable_values(variables)
        hooks.on_train_end(results)
        return hooks.history

    def _check_optimizer(self) -> None:
        if self.optimizer is None:
            raise ArgumentError(
                "The model was compiled with optimizer=None. To train it, give an optimizer, as in "
                "model.compile(optimizer='adam', loss=...)."
            )

    def _train_epoch(
        self, hooks: Any, steps: Any, most: int | None, position: Position
    ) -> tuple[Logs, int]:
        state = self.__dict__
        count = position.done
        logs: Logs = position.logs if count else {}
        left = None if most is None else most - count
        state["_skips_results"] = skips = self._may_skip_results(hooks)
        is_replicated = replicas_of(self.optimizer) > 1
        divides = is_replicated and not position.is_distributed and fixed_shards() is None
        try:
            for group in executions(steps, self.steps_per_execution, left):
                if divides:
                    group = [own_rows(batch) for batch in group]
                if not position.taken:
                    self._make_ready(group[0])
                state["_under_way"] = group
                hooks.on_train_batch_begin(count, {})
                logs = self._run("train_step", group)
                count += len(group)
                position.done, position.taken = count, position.taken + len(group)
                hooks.on_train_batch_end(count - 1, logs)
                if self.stop_training:
                    break
        finally:
            state["_skips_results"] = False
        if is_replicated and count:
            add_metrics(self.metrics)
            average_states(self.non_trainable_variables)  # type: ignore[attr-defined]
            return self.get_metrics_result(), count
        return self.get_metrics_result() if skips and count else logs, count

    def _may_skip_results(self, hooks: Any) -> bool:
        """Whether nothing reads the metric results before the end of the epoch."""
        methods = ("train_step", "compute_metrics", "get_metrics_result")
        is_usual = all(getattr(type(self), name) is getattr(Steps, name) for name in methods)
        return self.run_eagerly and is_usual and not hooks.has_listeners("on_train_batch_end")

    def _make_ready(self, batch: Any) -> None:
        """Create weights and optimizer state before a step is recorded and callbacks run."""
        if not self.built:
            self._build_on(batch)
        prepare(self)
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if getattr(optimizer, "_has_own_step", False):
            optimizer._prepare(self.trainable_variables)  # type: ignore[attr-defined]
        if replicas_of(optimizer) > 1:
            equalize(self.variables)  # type: ignore[attr-defined]

    def _validate(self, hooks: Any, data: Any, size: int | None, steps: int | None) -> Logs:
        if isinstance(data, list) and not any(isinstance(one, list | tuple) for one in data):
            data = tuple(data)  # [x, y] rather than a list of batches
        x, y, weights = unpack(data) if isinstance(data, tuple) else (data, None, None)
        found = self._evaluate(hooks, batches_of(x, y, weights, size), steps)
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
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
    ) -> Any:
        """Return the loss and the metrics on a dataset."""
        self._check_compiled("evaluate")
        check_count("steps", steps)
        check_verbose(verbose)
        data = batches_of(x, y, sample_weight, batch_size)
        steps = limited_steps(steps, data.steps)
        hooks = CallbackList(callbacks, self, verbose, 1, steps or data.steps, is_test=True)
        return _returned(self._evaluate(hooks, data, steps), return_dict)

    def _evaluate(self, hooks: Any, data: Any, steps: int | None) -> Logs:
        self.reset_metrics()
        hooks.on_test_begin({})
        logs: Logs = {}
        count = 0
        for group in executions(iter(data), self.steps_per_execution, steps):
            hooks.on_test_batch_begin(count, {})
            logs = self._run("test_step", group)
            count += len(group)
            hooks.on_test_batch_end(count - 1, logs)
        if not count:
            raise ArgumentError("evaluate needs at least one batch, but the data was empty.")
        results = fetched(logs)
        hooks.on_test_end(results)
        return results

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
    ) -> np.ndarray:
        """Return the outputs for a dataset as NumPy arrays."""
        check_count("steps", steps)
        data = batches_of(x, batch_size=batch_size)
        steps = limited_steps(steps, data.steps)
        hooks = CallbackList(callbacks, self, 0, 1, steps or data.steps, is_test=True)
        found: list[Any] = []
        hooks.on_predict_begin({})
        for group in executions(iter(data), self.steps_per_execution, steps):
            hooks.on_predict_batch_begin(len(found), {})
            outputs = self._run("predict_step", group)
            found += outputs
            latest = outputs[0] if len(outputs) == 1 else outputs
            hooks.on_predict_batch_end(len(found) - 1, {"outputs": latest})
        hooks.on_predict_end({})
        if not found:
            raise ArgumentError("predict needs at least one batch, but the data was empty.")
        joined: np.ndarray = nest.map_structure(
            lambda *parts: concat(list(parts), 0).numpy(), *found
        )
        return joined

    # Single batches

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        return_dict: bool = False,
        reset_metrics: bool = True,
    ) -> Any:
        """Run one training step on a batch; return the loss and the metrics.

        Without `reset_metrics`, the metrics are those of all batches since the last reset.
        """
        self._check_compiled("train_on_batch")
        self._check_optimizer()
        if class_weight is not None:
            check_class_weight(class_weight)
            sample_weight = weights_of_classes(as_arrays(y), sample_weight, class_weight)
        return self._on_batch("train_step", x, y, sample_weight, return_dict, reset_metrics)

    def test_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        return_dict: bool = False,
        reset_metrics: bool = True,
    ) -> Any:
        """Return the loss and the metrics of a batch, or of all batches since the last reset."""
        self._check_compiled("test_on_batch")
        return self._on_batch("test_step", x, y, sample_weight, return_dict, reset_metrics)

    def predict_on_batch(self, x: Any) -> Any:
        """Return the outputs for a batch as NumPy arrays."""
        (outputs,) = self._run("predict_step", [_one_batch(x)])
        return nest.map_structure(lambda one: one.numpy(), outputs)

    def _on_batch(
        self, name: str, x: Any, y: Any, weights: Any, return_dict: bool, reset_metrics: bool
    ) -> Any:
        batch = _one_batch(x, y, weights)
        if reset_metrics:
            self.reset_metrics()
        return _returned(fetched(self._run(name, [batch])), return_dict)


def _one_batch(x: Any, y: Any = None, weights: Any = None) -> Any:
    """Return all arrays as one batch of tensors."""
    if any([isinstance(leaf, SparseTensor) for leaf in nest.flatten(x)]):
        return placed((x, y, weights))
    x = as_arrays(x)
    sizes = [leaf.shape[0] for leaf in nest.flatten(x) if getattr(leaf, "shape", ())]
    (batch,) = ArrayBatches((x, y, weights), int(sizes[0]) if sizes else None, shuffle=False)
    return batch


def _returned(results: Logs, as_dict: bool) -> Any:
    """Return the metrics by name, or the list of their values; a single value is not in a list."""
    if as_dict:
        return results
    values = list(results.values())
    return values[0] if len(values) == 1 else values


def _is_once(data: Any) -> bool:
    return bool(getattr(data, "is_once", False))


def _has_ended(data: Any, count: int, epoch: int) -> bool:
    """Whether the data can be read only once; warn that the epoch has fewer steps."""
    if _is_once(data):
        warn_outside(
            f"The generator ended after {count} steps of epoch {epoch + 1}, so training stops. "
            "Pass a smaller steps_per_epoch, or a generator that does not end.",
        )
    return _is_once(data)


def _check_began(epoch: int, first: int) -> None:
    """Report that the data yielded no batch: as an error in the first epoch, later as a warning."""
    if epoch == first:
        raise ArgumentError("fit needs at least one batch, but the data was empty.")
    warn_outside(
        f"The data yielded no batch for epoch {epoch + 1}, so training stops. A generator can be "
        "iterated only once: pass steps_per_epoch, or a dataset that repeats.",
    )
