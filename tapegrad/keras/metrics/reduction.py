"""Sums and means of what is handed in or of what a function makes of labels and predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.commit import store
from tapegrad.core.update_lock import updating_alone
from tapegrad.core.values.tensor import Tensor
from tapegrad.keras.configured import with_defaults
from tapegrad.keras.losses.weighting import as_dtype_of, match_ranks
from tapegrad.keras.metrics.functions import FUNCTIONS
from tapegrad.keras.metrics.metric import Metric, add_to
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.reduction.primitives import mean, sum as sum_of
from tapegrad.ops.shape.functions import broadcast_to
from tapegrad.optimizers.updates import tally_update


def _per_sample(
    values: Any, sample_weight: Any, reduce: Callable[..., Any], dtype: str
) -> tuple[Any, Any]:
    """Return one weighted value per sample and its weight, None if there are no weights."""
    values = as_dtype_of(values, dtype)
    weight = None
    if sample_weight is not None:
        values, weight = match_ranks(values, as_dtype_of(sample_weight, dtype))
        rank = len(weight.shape)
        values = _reduce_from(rank, values, reduce)
        weight = broadcast_to(weight, values.shape)
        values = values * weight
        weight = _reduce_from(1, weight, reduce) if rank > 1 else weight
    return _reduce_from(1, values, reduce), weight


def _reduce_from(first: int, x: Any, reduce: Callable[..., Any]) -> Any:
    axes = tuple(range(first, len(x.shape)))
    return reduce(x, axis=axes) if axes else x


class Sum(Metric):
    """The sum of all values.

    >>> metric = Sum()
    >>> metric.update_state([1.0, 2.0])
    >>> float(metric([3.0], sample_weight=0.5))
    4.5
    """

    def __init__(self, name: str | None = "sum", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable(name="total")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        values, _ = _per_sample(values, sample_weight, sum_of, self.dtype)
        add_to(self.total, sum_of(values))

    def result(self) -> Any:
        return self.total.read_value()


class Average(Metric):
    """Base of the metrics that are means over samples."""

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable(name="total")
        self.count = self.add_variable(name="count")

    def add_samples(self, values: Any, sample_weight: Any = None) -> None:
        """Add values, one or several per sample, to the mean."""
        values, weight = _per_sample(values, sample_weight, mean, self.dtype)
        add_to(self.total, sum_of(values))
        if weight is not None:
            add_to(self.count, sum_of(weight))
        else:
            add_to(self.count, float(values.shape[0]) if values.shape else 1.0)

    def add_one(self, value: Any, weight: float) -> None:
        """Add one number that counts `weight` times."""
        total, count = self.total, self.count
        if not (
            type(value) is Tensor
            and value.dtype.name == self.dtype
            and not value.shape
            and value.device == total.device
        ):
            return self.add_samples(value, weight)
        # On raw arrays, like an optimizer's step: no tape may see it, and every step does it.
        tally = tally_update.kernel(type(total.array))
        with updating_alone():
            new = tally(total.array, count.array, value.array, weight=weight)
            store((total, count), new)
        return None

    def average(self) -> Any:
        """Return the mean so far, 0 before the first sample."""
        return divide_no_nan(self.total, self.count)

    def result(self) -> Any:
        return self.average()


@with_defaults(name="mean")
class Mean(Average):
    """The mean of all values, each counted by its weight.

    >>> metric = Mean()
    >>> metric.update_state([1.0, 2.0])
    >>> float(metric([6.0]))
    3.0
    """

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        self.add_samples(values, sample_weight)


class MeanMetricWrapper(Average):
    """The mean of a function of labels and predictions.

    >>> metric = MeanMetricWrapper(lambda y_true, y_pred: abs(y_true - y_pred))
    >>> import tapegrad as tf
    >>> float(metric(tf.constant([1.0, 2.0]), tf.constant([1.0, 5.0])))
    1.5
    """

    _function: Callable[..., Any]

    def __init__(self, fn: Any, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype)
        self._fn: Callable[..., Any] = FUNCTIONS.get(fn)
        self._options = kwargs

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.add_samples(self._fn(y_true, y_pred, **self._options), sample_weight)


class PlainMean(MeanMetricWrapper):
    """Base of means of a function that takes nothing but labels and predictions."""

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(self._function, name, dtype)
