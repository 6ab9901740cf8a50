"""Model.compile, and the computation of losses and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError
from tapegrad.keras import optimizers
from tapegrad.keras.configured import arguments_in, plain
from tapegrad.keras.dtype_policies import DTypePolicy
from tapegrad.keras.layers.attribute_tracking import ASIDE, Holder
from tapegrad.keras.layers.masks import KEPT, is_known, mask_of
from tapegrad.keras.metrics.metric import Metric, refuse_method
from tapegrad.keras.metrics.reduction import Mean
from tapegrad.keras.models.arguments import check_count
from tapegrad.keras.models.compiled import CompiledLoss, CompiledMetrics
from tapegrad.keras.models.replicated import replicas_of, share_of
from tapegrad.keras.optimizers.loss_scale import LossScaleOptimizer
from tapegrad.ops.collective.replicas import fixed_shards

Logs = dict[str, Any]


class Compiled:
    """Base class of `Model`: its optimizer, losses and metrics."""

    optimizer: Any = None
    loss: Any = None
    built: bool
    dtype_policy: DTypePolicy
    run_eagerly = False
    steps_per_execution = 1
    jit_compile: Any = "auto"
    stop_training = False
    _loss: CompiledLoss | None = None
    _compiled: CompiledMetrics | None = None
    _weighted: CompiledMetrics | None = None
    _tracker: Mean | None = None
    _masked: tuple[Any, Any] | None = None
    _keeps_masks = False
    _skips_results = False

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
        experimental_run_tf_function: Any = None,
    ) -> None:
        """Set the optimizer, the loss and the metrics for training.

        Steps are recorded as programs unless `run_eagerly` is set. One recorded call runs
        `steps_per_execution` batches, and callbacks are called once for all of them. `jit_compile`
        is stored but ignored; so is `experimental_run_tf_function`, which programs for Horovod
        pass. With the policy "mixed_float16", `auto_scale_loss` scales the loss so that small
        gradients do not underflow.
        """
        given = arguments_in(locals())
        given.pop("experimental_run_tf_function")
        check_count("steps_per_execution", steps_per_execution)
        found = optimizers.get(optimizer)
        is_half = self.dtype_policy.name == "mixed_float16"
        if auto_scale_loss and is_half and not isinstance(found, LossScaleOptimizer | None):
            found = LossScaleOptimizer(found)
        plain = CompiledMetrics(metrics, self.output_names)
        made = plain, CompiledMetrics(weighted_metrics, self.output_names, beside=plain)
        self._loss = None if loss is None else CompiledLoss(loss, loss_weights)
        self._compiled, self._weighted = made
        self.optimizer, self.loss = found, loss
        self.run_eagerly, self.jit_compile = bool(run_eagerly), jit_compile
        self.steps_per_execution = int(steps_per_execution)
        self._tracker = Mean(name="loss")
        self._functions: dict[Any, Any] = {}
        self.stop_training = False
        # A partial hides the arguments from the search for variables in attributes.
        self._compile_arguments: partial[dict[str, Any]] = partial(dict, **given)

    def get_compile_config(self) -> dict[str, Any]:
        """Return the arguments of `compile` as values that JSON can hold."""
        if not self.compiled:
            return {}
        config: dict[str, Any] = nest.map_structure(_plain, self._compile_arguments())
        config["optimizer"] = None if self.optimizer is None else optimizers.serialize(
            self.optimizer
        )  # fmt: skip
        return config

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        """Compile with the result of `get_compile_config`."""
        self.compile(**config)
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)  # type: ignore[attr-defined]

    @property
    def compiled(self) -> bool:
        return self._tracker is not None

    @property
    def compiled_metrics(self) -> CompiledMetrics | None:
        """The metrics of `compile`."""
        return self._compiled

    @property
    def metrics(self) -> list[Any]:
        """The mean loss, the compiled metrics, and the metrics among the attributes."""
        found: list[Any] = []
        if self._tracker is not None:
            parts = [] if self._loss is None else self._loss.metrics
            some = [one for one in (self._compiled, self._weighted) if one and one.given]
            found = [self._tracker, *parts, *some]
        own: list[Metric] = []
        _collect_metrics(self, own)  # type: ignore[arg-type]
        if own:
            known = {id(metric) for metric in _by_name(found).values()}
            found += {id(one): one for one in own if id(one) not in known}.values()
        return found

    @property
    def metrics_names(self) -> list[str]:
        """The names of metrics in logs and results, prefixed by the output if there are several."""
        return list(self.named_metrics())

    def named_metrics(self) -> dict[str, Metric]:
        """Return the metrics that are known so far by their names in logs and results."""
        return _by_name(self.metrics)

    @property
    def output_names(self) -> list[str] | None:
        """The names of the outputs, or None if they are unknown before the first call."""
        return None

    def reset_metrics(self) -> None:
        """Reset the state of all metrics."""
        for metric in self.metrics:
            metric.reset_state()

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Return the loss of a batch, including the losses that layers added.

        In a strategy with several replicas, it is the share of this replica in the mean over all.
        """
        total = None
        if self._loss is not None and y is not None:
            masks = self._masks_of(y_pred)
            total = self._loss(y, y_pred, sample_weight, masks, self.output_names)
        for more in self.losses:  # type: ignore[attr-defined]
            total = more if total is None else total + more
        if total is None:
            raise ArgumentError(
                "There is no loss to minimize: compile the model with a loss and pass targets, or "
                "add losses in its layers with add_loss."
            )
        if training and replicas_of(self.optimizer) > 1 and fixed_shards() is None:
            share = self.__dict__["_share"] = share_of(total, x if y_pred is None else y_pred)
            return total * share
        return total

    def compiled_loss(
        self,
        y: Any,
        y_pred: Any,
        sample_weight: Any = None,
        regularization_losses: Any = None,
    ) -> Any:
        """Return `compute_loss(None, y, y_pred, sample_weight)`, a name from before Keras 3.

        `regularization_losses` is ignored: the losses that layers added are always included.
        """
        return self.compute_loss(None, y, y_pred, sample_weight)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Logs:
        """Update the metrics with a batch, and return all of them by name."""
        given = [one for one in (self._compiled, self._weighted) if one is not None and one.given]
        if given and y is not None:
            masks = self._masks_of(y_pred)
            for metrics in given:
                metrics.update_state(y, y_pred, sample_weight, masks)
        return {} if self._skips_results else self.get_metrics_result()

    def get_metrics_result(self) -> Logs:
        """Return the current results of the metrics by name."""
        return flat_logs({metric.name: metric.result() for metric in self.metrics})

    def _keep_masks(self, outputs: Any, masks: Any) -> Any:
        """Store the masks of the outputs for the loss and the metrics of this step."""
        if self._keeps_masks and any(mask is not None for mask in nest.flatten(masks)):
            self.__dict__["_masked"] = (outputs, nest.flatten(masks))
        return outputs

    def _masks_of(self, y_pred: Any) -> Any:
        kept = self._masked
        if kept is not None and kept[0] is y_pred:
            return kept[1]
        masks = [mask_of(one) for one in nest.flatten(y_pred)] if KEPT else []
        return masks if is_known(masks) else None


def flat_logs(logs: Mapping[str, Any]) -> Logs:
    """Return results by name, with nested dictionaries of results merged.

    >>> flat_logs({"loss": 1.0, "compile_metrics": {"mae": 2.0}})
    {'loss': 1.0, 'mae': 2.0}
    """
    found: Logs = {}
    for name, value in logs.items():
        found.update(flat_logs(value) if isinstance(value, dict) else {name: value})
    for name, value in found.items():
        refuse_method(value, f"The step, for {name!r},")
    return found


def _by_name(metrics: list[Any]) -> dict[str, Metric]:
    return flat_logs(
        {one.name: one.labels if isinstance(one, CompiledMetrics) else one for one in metrics}
    )


_OURS = ASIDE | {"_tracker"}
"""Attributes that are not searched for metrics."""


class _Kinds(dict[type, bool]):
    """Caches whether values of a type are metrics or containers that may hold metrics."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = found = issubclass(kind, Metric | list | tuple | dict)
        return found


_KINDS = _Kinds()


def _collect_metrics(layer: Holder, found: list[Metric]) -> None:
    """Collect the metrics among the attributes of a layer and its sublayers.

    Every eager step calls this, so the attributes to search are cached.
    """
    places = layer._metric_places
    if places is None:
        places = [
            value
            for name, value in vars(layer).items()
            if name not in _OURS and _KINDS[type(value)] and not _is_fixed(value)
        ]
        object.__setattr__(layer, "_metric_places", places)
    for place in places:
        # Most lists hold layers only.
        if type(place) is not list or any([_KINDS[type(one)] for one in place]):
            found += [leaf for leaf in nest.flatten(place) if isinstance(leaf, Metric)]
    for inner in layer._held()[1]:
        _collect_metrics(inner, found)


def _is_fixed(value: Any) -> bool:
    """Whether a value is a tuple without metrics, such as a shape: it cannot get any later."""
    return type(value) is tuple and not any([_KINDS[type(one)] for one in value])


def _plain(value: Any) -> Any:
    return plain(value() if isinstance(value, type) else value)
