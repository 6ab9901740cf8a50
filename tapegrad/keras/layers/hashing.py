"""Hashing and HashedCrossing: distribute integers and texts over a fixed number of categories.

The hashes are those of TensorFlow, so that models can be exchanged. They are computed on the host:
use these layers in a dataset's `map` or before the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError, DTypeError, ShapeError
from tapegrad.fingerprints import crossed_hash, farm_hash, sip_hash
from tapegrad.keras.layers.category_layers import CategoryLayer, checked_salt, texts_in
from tapegrad.keras.layers.spatial_arguments import positive
from tapegrad.ops.creation import constant


class _HashLayer(CategoryLayer):
    def __init__(self, num_bins: int, output_mode: str, sparse: bool, **kwargs: Any) -> None:
        super().__init__(output_mode, sparse, **kwargs)
        self.num_bins = positive(self, num_bins, "num_bins")

    def count_categories(self) -> int:
        return self.num_bins

    def _values(self, inputs: Any) -> Any:
        if not inputs.dtype.is_integer and inputs.dtype.name != "string":
            raise DTypeError(f"{self._title} takes integers or text. Got {inputs.dtype.name}.")
        return inputs.array if inputs.dtype.name == "string" else inputs.numpy()

    def _finished(self, bins: Any, like: Any) -> Any:
        with device(like.device):
            return self.encoded(constant(bins.astype(np.int64)))


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _as_words(column: np.ndarray) -> Any:
    """Return integers as they are and the hashes of texts, both as uint64."""
    if column.dtype.kind == "O":
        return farm_hash(column.tolist())
    return column.astype(np.int64).view(np.uint64)


class Hashing(_HashLayer):
    """Return a hash of each integer or text, modulo `num_bins`.

    `mask_value` becomes 0, and other values then become 1 to `num_bins - 1`. A `salt`, one integer
    or two, gives other hashes.

    >>> import tapegrad
    >>> Hashing(3)(tapegrad.constant([[1], [2], [1]])).tolist()
    [[0], [1], [0]]
    """

    def __init__(
        self,
        num_bins: int,
        mask_value: Any = None,
        salt: Any = None,
        output_mode: str = "int",
        sparse: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_bins, output_mode, sparse, **kwargs)
        self.mask_value = mask_value
        self.salt = checked_salt(salt)

    def call(self, inputs: Any) -> Any:
        values = self._values(inputs)
        texts = [_as_bytes(value) for value in values.ravel().tolist()]
        hashes = farm_hash(texts) if self.salt is None else sip_hash(texts, self.salt)
        if self.mask_value is None or self.num_bins == 1:
            bins = hashes % np.uint64(self.num_bins)
        else:
            others = hashes % np.uint64(self.num_bins - 1) + np.uint64(1)
            mask = _as_bytes(self.mask_value)
            is_masked = np.array([text == mask for text in texts], np.bool_)
            bins = np.where(is_masked, np.uint64(0), others)
        return self._finished(bins.reshape(values.shape), inputs)


class HashedCrossing(_HashLayer):
    """Return a hash of each pair of integers or texts, modulo `num_bins`.

    >>> import tapegrad
    >>> first, second = tapegrad.constant([1, 2, 1]), tapegrad.constant([101, 101, 101])
    >>> y = HashedCrossing(5)((first, second)).tolist()
    >>> y[0] == y[2], max(y) < 5
    (True, True)
    """

    modes = ("int", "one_hot")

    def __init__(
        self, num_bins: int, output_mode: str = "int", sparse: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(num_bins, output_mode, sparse, **kwargs)

    def call(self, inputs: Any) -> Any:
        self._check_features(inputs)
        columns = [np.asarray(self._values(feature)) for feature in inputs]
        numbers = [_as_words(column.ravel()) for column in columns]
        bins = crossed_hash(numbers) % np.uint64(self.num_bins)
        return self._finished(bins.reshape(columns[0].shape), inputs[0])

    def text_inputs(self, args: Any) -> Any:
        """Return the features as tensors, which lists may give."""
        first, *rest = args
        return (list(texts_in(first)), *rest) if isinstance(first, list | tuple) else args

    def _check_features(self, inputs: Any) -> None:
        if not isinstance(inputs, list | tuple) or len(inputs) < 2:
            raise ArgumentError(f"{self._title} takes a tuple of two or more features.")
        shapes = {tuple(feature.shape) for feature in inputs}
        (first, *others) = shapes
        if others or len(first) > 2 or (len(first) == 2 and first[1] != 1):
            raise ShapeError(
                f"{self._title} takes features of one shape, (batch,) or (batch, 1). "
                f"Got shapes {', '.join(str(tuple(feature.shape)) for feature in inputs)}."
            )

    def compute_output_shape(self, input_shape: Any) -> Any:
        return super().compute_output_shape(input_shape[0])
