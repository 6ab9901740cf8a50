"""The training, evaluation and prediction steps of a model, and how they are recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.call_site import warn_outside
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError, RecordingError
from tapegrad.keras.batch_data import pack, unpack
from tapegrad.keras.models.compiling import Compiled, Logs, flat_logs
from tapegrad.keras.models.fixed_order import shards_of, sum_in_order
from tapegrad.keras.models.text_front import has_text
from tapegrad.ops.collective.replicas import fixed_shards
from tapegrad.ops.creation import zeros_like
from tapegrad.program.function_decorator import function

_OVER = object()
"""Marks a finished pass, whose losses were tensors of a recording and must not be read."""


@cache
def _takes_training(compute_loss: Callable[..., Any]) -> bool:
    """Whether a `compute_loss` of one's own takes `training`."""
    parameters = inspect.signature(compute_loss).parameters.values()
    return any(one.name == "training" or one.kind is one.VAR_KEYWORD for one in parameters)


class Steps(Compiled):
    """Base class of `Model`: the steps, which subclasses may override."""

    _without_gradient: list[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to copy, without recorded steps and the state of a running `fit`."""
        state: dict[str, Any] = {**super().__getstate__(), "_functions": {}}  # type: ignore[dict-item]
        return state | dict.fromkeys(("_under_way", "_place_in_fit"))

    def train_step(self, data: Any) -> Logs:
        """Update the weights on a batch; return the metrics."""
        shards = fixed_shards()
        if shards is not None:
            return self._train_in_shards(data, shards)
        x, y, sample_weight = unpack(data)
        with GradientTape() as tape:
            y_pred = self(x, training=True)  # type: ignore[operator]
            loss = self.compute_loss(x, y, y_pred, sample_weight)
            scale = getattr(self.optimizer, "scale_loss", None)
            scaled = loss if scale is None else scale(loss)
        variables = self.trainable_variables  # type: ignore[attr-defined]
        self._track(loss, x)
        if variables:
            self._apply_gradients(tape.gradient(scaled, variables), variables)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def _train_in_shards(self, data: Any, shards: int) -> Logs:
        """Do the same with gradients that are added in a fixed order, on any number of processes.

        Every shard runs one compiled program: rounding depends on what is compiled together.
        """
        run = self._functions.get("shard")
        if run is None:
            step = self._shard_gradients
            run = step if self.run_eagerly else function(step, wait=True)
            self._functions["shard"] = run
        logs: Logs = {}
        found = []
        for part, share, is_repeated in shards_of(self, data, shards):
            loss, y_pred, gradients = run(part, share)
            self.__dict__["_masked"] = None
            found.append(gradients)
            if not is_repeated:
                x, y, sample_weight = unpack(part)
                self._track(loss, x)
                logs = self.compute_metrics(x, y, y_pred, sample_weight)
        total = sum_in_order(found, shards)
        self._apply_gradients(total, self.trainable_variables, are_sums=True)  # type: ignore[attr-defined]
        return logs

    def _shard_gradients(self, part: Any, share: Any) -> Any:
        """Return the loss and the outputs of a shard, and its share of the gradients."""
        x, y, sample_weight = unpack(part)
        with GradientTape() as tape:
            y_pred = self(x, training=True)  # type: ignore[operator]
            loss = self.compute_loss(x, y, y_pred, sample_weight)
            scale = getattr(self.optimizer, "scale_loss", None)
            scaled = (loss if scale is None else scale(loss)) * share
        variables = self.trainable_variables  # type: ignore[attr-defined]
        found = tape.gradient(scaled, variables)
        return loss, y_pred, [zeros_like(v) if g is None else g for g, v in zip(found, variables)]

    usual_train_step = train_step
    """The train_step of models that do not override it."""

    def _apply_gradients(
        self, gradients: list[Any], variables: list[Any], are_sums: bool = False
    ) -> None:
        """Apply the gradients, and warn once about variables without a gradient."""
        pairs = [(g, v) for g, v in zip(gradients, variables) if g is not None]
        if len(pairs) < len(variables):
            missing = self._paths_of(v for g, v in zip(gradients, variables) if g is None)
            if not pairs:
                raise ArgumentError(
                    f"The loss depends on none of the trainable variables {', '.join(missing)}. "
                    "Look for operations without gradients between them and the loss, such as "
                    "stop_gradient or rounding."
                )
            if missing != self._without_gradient:
                self.__dict__["_without_gradient"] = missing
                warn_outside(
                    f"The loss does not depend on the variables {', '.join(missing)}. They have no "
                    "gradients and are not updated.",
                )
        if are_sums:
            self.optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)
        else:
            self.optimizer.apply_gradients(pairs)

    def _paths_of(self, variables: Iterable[Any]) -> list[str]:
        """Return the paths of variables, such as 'dense/kernel'."""
        paths = self.named_variables()  # type: ignore[attr-defined]
        names = {variable.number: path for path, variable in paths.items()}
        return [repr(names.get(variable.number, variable.name)) for variable in variables]

    def test_step(self, data: Any) -> Logs:
        """Evaluate a batch; return the metrics."""
        x, y, sample_weight = unpack(data)
        y_pred = self(x, training=False)  # type: ignore[operator]
        mode = {"training": False} if _takes_training(type(self).compute_loss) else {}
        self._track(self.compute_loss(x, y, y_pred, sample_weight, **mode), x)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    def predict_step(self, data: Any) -> Any:
        """Return the outputs for a batch."""
        return self(unpack(data)[0], training=False)  # type: ignore[operator]

    def _track(self, loss: Any, x: Any) -> None:
        assert self._tracker is not None
        share = self.__dict__.pop("_share", None)
        if share is not None:
            loss = loss / share
        first = x if type(x) is Tensor else nest.flatten(x)[0]
        self._tracker.add_one(loss, float(first.shape[0]))

    def _run(self, name: str, group: list[Any]) -> Any:
        """Run a step on the batches of one execution; return the result of the last one.

        For predictions, return the results of all of them.
        """
        if not self.built:
            self._build_on(group[0])
        if type(group[0][0]) is not Tensor and has_text(group[0][0]):
            group = [self._after_text(batch) for batch in group]
        width = _width(group[0])
        if len(group) == 1:
            return self._call_step(name, width, group[0][:width])
        if any(_width(batch) != width for batch in group):
            found = [self._run(name, [batch]) for batch in group]
            return [one for some in found for one in some] if _collects(name) else found[-1]
        flat = [one for batch in group for one in batch[:width]]
        return self._call_step(name, width, flat)

    def _call_step(self, name: str, width: int, data: Sequence[Any]) -> Any:
        try:
            return self._step(name, width)(*data)
        except RecordingError as error:
            # The user compiled a model and knows of no function.
            error.args = (str(error).replace(_EAGER_FUNCTION, _EAGER_MODEL),)
            raise

    def _after_text(self, batch: Any) -> Any:
        """Return a batch with the results of the text layers, which run on the host, as input."""
        x = None if self.run_eagerly else self.without_text(batch[0])  # type: ignore[attr-defined]
        return batch if x is None else (x, *batch[1:])

    def _build_on(self, batch: Any) -> None:
        """Create the weights before a step is recorded: initialization is not part of the step."""
        try:
            self.predict_step(pack(*batch))
        except NotImplementedError:  # a model without `call`, whose train_step calls its parts
            self.built = True

    def _step(self, name: str, width: int) -> Any:
        """Return the function that runs a step: recorded, unless the model runs eagerly."""
        if not hasattr(self, "_functions"):
            self._functions = {}
        key = name, width, self.run_eagerly, fixed_shards()
        if key not in self._functions:
            step = getattr(self, name)

            def run(*data: Any) -> Any:  # the lookup of flat arguments is faster than of a tuple
                self.__dict__["_keeps_masks"] = True
                try:
                    found = [step(pack(*data[k : k + width])) for k in range(0, len(data), width)]
                finally:
                    self.__dict__.update(_keeps_masks=False, _masked=None, _last_pass=_OVER)
                return found if _collects(name) else _checked(found[-1], name)

            is_recorded = not self.run_eagerly and not (name == "train_step" and fixed_shards())
            self._functions[key] = function(run) if is_recorded else run
        return self._functions[key]

    def _check_compiled(self, what: str) -> None:
        if not self.compiled:
            raise ArgumentError(
                f"Call model.compile(optimizer=..., loss=...) before model.{what}(...)."
            )


_EAGER_FUNCTION = "run the function eagerly with function(jit=False)"
_EAGER_MODEL = "run the model eagerly with model.compile(..., run_eagerly=True)"


def _width(batch: Any) -> int:
    """Return how many entries of (x, y, weights) a step gets; trailing None are left out."""
    return 3 if batch[2] is not None else 2 if batch[1] is not None else 1


def _collects(name: str) -> bool:
    """Whether the results of all batches are returned, and not only the last."""
    return name == "predict_step"


def _checked(logs: Any, name: str) -> Any:
    if type(logs) is dict and not logs:
        return logs
    if not isinstance(logs, Mapping):
        raise ArgumentTypeError(
            f"{name} must return its metrics as a dictionary by name, such as {{'loss': loss}}. "
            f"Got {type(logs).__name__}."
        )
    return flat_logs(logs)


def executions(batches: Iterator[Any], size: int, most: int | None = None) -> Iterator[list[Any]]:
    """Yield lists of `size` batches, at most `most` batches in total; the last may be shorter.

    >>> list(executions(iter("abcde"), 2)), list(executions(iter("abcde"), 2, 3))
    ([['a', 'b'], ['c', 'd'], ['e']], [['a', 'b'], ['c']])
    """
    if size == 1:
        for batch in batches if most is None else islice(batches, most):
            yield [batch]
        return
    left = most
    while left is None or left > 0:
        group = list(islice(batches, size if left is None else min(size, left)))
        if not group:
            return
        left = None if left is None else left - len(group)
        yield group
