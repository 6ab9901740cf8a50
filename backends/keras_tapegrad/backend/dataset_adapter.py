"""`tapegrad.data.Dataset` as data of `fit`, `evaluate` and `predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

import tapegrad as tg


class DatasetAdapter(DataAdapter):  # type: ignore[misc]  # Keras has no types
    """Gives the batches of a dataset as they are: tensors on their device."""

    def __init__(self, dataset: Any, class_weight: Any = None) -> None:
        self._dataset, self._class_weight = dataset, class_weight

    def get_numpy_iterator(self) -> Iterator[Any]:
        """Return the batches; the backend takes tensors as well as NumPy arrays."""
        if self._class_weight is None:
            return iter(self._dataset)
        return (self._weighted(batch) for batch in self._dataset)

    def _weighted(self, batch: Any) -> Any:
        x, y, weights = data_adapter_utils.unpack_x_y_sample_weight(batch)
        if weights is not None:
            raise ValueError(
                "The batches of the dataset contain weights. Leave out `class_weight`, or the "
                "weights of the dataset."
            )
        return x, y, data_adapter_utils.class_weight_to_sample_weights(y, self._class_weight)

    @property
    def num_batches(self) -> int | None:
        """The number of batches, or None if the dataset does not know it or has no end."""
        count = int(self._dataset.cardinality())
        return count if count >= 0 else None

    @property
    def batch_size(self) -> None:
        return None

    @property
    def has_partial_batch(self) -> None:
        return None

    @property
    def partial_batch_size(self) -> None:
        return None


def adapter_chooser(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Return Keras' `get_data_adapter` with one kind of data more."""

    def get_data_adapter(
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        batch_size: int | None = None,
        steps_per_epoch: int | None = None,
        shuffle: bool = False,
        class_weight: Any = None,
    ) -> Any:
        if not isinstance(x, tg.data.Dataset):
            return usual(x, y, sample_weight, batch_size, steps_per_epoch, shuffle, class_weight)
        for name, given in (("y", y), ("sample_weight", sample_weight)):
            if given is not None:
                raise ValueError(
                    f"`{name}` is refused with a `Dataset`: its elements are batches "
                    "(x, y) or (x, y, sample_weight)."
                )
        return DatasetAdapter(x, class_weight)

    return get_data_adapter
