"""Loss, the base class of losses, and LossFunctionWrapper."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tapegrad.core.argument_checks import described
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentTypeError
from tapegrad.keras import dtype_policies
from tapegrad.keras.configured import Configured
from tapegrad.keras.losses.weighting import (
    as_dtype_of,
    check_reduction,
    match_ranks,
    reduce_weighted,
)
from tapegrad.keras.naming import automatic_name
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.comparison import logical_and


def computing_dtype(dtype: Any) -> str:
    """Return the compute dtype of a loss or metric: float32 by default.

    >>> computing_dtype(None), computing_dtype("float64")
    ('float32', 'float64')
    """
    return dtype_policies.get(dtype or "float32").compute_dtype


class Loss(Configured, ABC):
    """Base class of losses: `call` returns one value per sample, to be weighted and reduced.

    >>> from tapegrad.ops.elementwise.magnitude import abs
    >>> class Distance(Loss):
    ...     def call(self, y_true, y_pred):
    ...         return abs(y_true - y_pred)
    >>> float(Distance(reduction="sum")([1, 2], [1.5, 0.0]))
    2.5
    """

    # False for class numbers, which would not be exact as floats.
    _casts_labels = True

    def __init__(
        self,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: Any = None,
    ) -> None:
        self.name = name or automatic_name(type(self).__name__)
        self.reduction = check_reduction(reduction)
        self._dtype = computing_dtype(dtype)
        self._mask_of: Callable[[Any, Any], Any] | None = None

    @property
    def dtype(self) -> str:
        """Name of the dtype in which the loss is computed."""
        return self._dtype

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None, mask: Any = None
    ) -> Any:
        """Return the reduced loss; masked samples are ignored."""
        predicted = as_dtype_of(y_pred, self._dtype)
        true = as_dtype_of(y_true, self._dtype) if self._casts_labels else as_operand(y_true)
        found = self.call(true, predicted)
        if found is None or isinstance(found, str):
            raise ArgumentTypeError(
                f"Loss {self.name!r} must return the loss of each sample. Got {described(found)}."
            )
        values = as_dtype_of(found, self._dtype)
        if self._mask_of is not None:
            own = self._mask_of(true, values)
            mask = own if mask is None else logical_and(own, cast(mask, "bool"))
        return reduce_weighted(values, sample_weight, mask, self.reduction)

    @abstractmethod
    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the loss of each sample."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} name={self.name}>"


class LossFunctionWrapper(Loss):
    """A loss that calls a function of labels and predictions.

    >>> from tapegrad.ops.nn.regression_losses import mean_squared_error
    >>> float(LossFunctionWrapper(mean_squared_error)([[0.0, 0.0]], [[1.0, 3.0]]))
    5.0
    """

    _function: Callable[..., Any]
    """The function of subclasses that have a fixed one; see `computing`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.fn = fn
        self._options = kwargs
        self._mask_of = getattr(fn, "mask_of", None)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        y_true, y_pred = match_ranks(y_true, y_pred)
        return self.fn(y_true, y_pred, **self._options)

    def __getattr__(self, name: str) -> Any:
        """Return an option of the function, such as `from_logits`."""
        options = vars(self).get("_options", {})
        if name in options:
            return options[name]
        kind = type(self).__name__
        raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} name={self.name} fn={getattr(self.fn, '__name__', self.fn)}>"
        )


class PlainLoss(LossFunctionWrapper):
    """Base class of losses whose function takes only labels and predictions."""

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(self._function, reduction, name, dtype)
