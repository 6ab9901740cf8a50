"""Cross entropy losses of probabilities and of logits: the classes."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras.configured import arguments_in, computing
from tapegrad.keras.losses import crossentropy_functions as functions
from tapegrad.keras.losses.loss import LossFunctionWrapper
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.comparison import not_equal
from tapegrad.ops.shape.functions import reshape


class _Smoothed(LossFunctionWrapper):
    """Base class of cross entropies with label smoothing and no other options."""

    def __init__(
        self,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(self._function, **arguments_in(locals()))


@computing(functions.binary_crossentropy)
class BinaryCrossentropy(_Smoothed):
    """The cross entropy of independent binary labels.

    >>> loss = BinaryCrossentropy(from_logits=True)
    >>> f"{float(loss([[0, 1]], [[0.0, 0.0]])):.4f}"
    '0.6931'
    """


class BinaryFocalCrossentropy(LossFunctionWrapper):
    """The binary focal cross entropy, in which easily classified samples have less weight.

    >>> f"{float(BinaryFocalCrossentropy()([[0, 1]], [[0.5, 0.5]])):.4f}"
    '0.1733'
    """

    def __init__(
        self,
        apply_class_balancing: bool = False,
        alpha: float = 0.25,
        gamma: float = 2.0,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "binary_focal_crossentropy",
        dtype: Any = None,
    ) -> None:
        super().__init__(functions.binary_focal_crossentropy, **arguments_in(locals()))


@computing(functions.categorical_crossentropy)
class CategoricalCrossentropy(_Smoothed):
    """The cross entropy of class probabilities, such as one-hot labels.

    >>> loss = CategoricalCrossentropy(from_logits=True)
    >>> f"{float(loss([[0, 1]], [[0.0, 0.0]])):.4f}"
    '0.6931'
    """


class CategoricalFocalCrossentropy(LossFunctionWrapper):
    """The focal cross entropy, in which easily classified samples have less weight.

    >>> f"{float(CategoricalFocalCrossentropy()([[0, 1]], [[0.5, 0.5]])):.4f}"
    '0.0433'
    """

    def __init__(
        self,
        alpha: float = 0.25,
        gamma: float = 2.0,
        from_logits: bool = False,
        label_smoothing: float = 0.0,
        axis: int = -1,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "categorical_focal_crossentropy",
        dtype: Any = None,
    ) -> None:
        super().__init__(functions.categorical_focal_crossentropy, **arguments_in(locals()))


class CategoricalGeneralizedCrossEntropy(LossFunctionWrapper):
    """The generalized cross entropy of class numbers; a larger `q` tolerates more wrong labels.

    >>> float(CategoricalGeneralizedCrossEntropy()([1], [[0.75, 0.25]]))
    1.0
    """

    _casts_labels = False

    def __init__(
        self,
        q: float = 0.5,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = "categorical_generalized_cross_entropy",
        dtype: Any = None,
    ) -> None:
        if not 0 < q < 1:
            raise ArgumentError(
                f"The q of {type(self).__name__} must be between 0 and 1. Got {q!r}."
            )
        super().__init__(functions.categorical_generalized_cross_entropy, **arguments_in(locals()))


class SparseCategoricalCrossentropy(LossFunctionWrapper):
    """The cross entropy of class numbers; labels of `ignore_class` are ignored.

    >>> loss = SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    >>> f"{float(loss([0, -1], [[0.0, 0.0], [5.0, 1.0]])):.4f}"
    '0.6931'
    """

    _casts_labels = False

    def __init__(
        self,
        from_logits: bool = False,
        ignore_class: int | None = None,
        reduction: str | None = "sum_over_batch_size",
        axis: int = -1,
        name: str | None = "sparse_categorical_crossentropy",
        dtype: Any = None,
    ) -> None:
        super().__init__(functions.sparse_categorical_crossentropy, **arguments_in(locals()))
        self._ignored = ignore_class
        self._mask_of = None if ignore_class is None else self._counted

    def _counted(self, y_true: Any, values: Any) -> Any:
        # Cast, because an unsigned label cannot be compared with class -1.
        return reshape(not_equal(cast(y_true, "int32"), self._ignored), values.shape)
