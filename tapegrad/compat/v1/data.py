"""`tf.compat.v1.data`: iterators that functions make, and `tf.data`."""

from __future__ import annotations

from typing import Any

from tapegrad import data
from tapegrad.core.values import nest

__all__ = [
    "get_output_classes", "get_output_shapes", "get_output_types", "make_initializable_iterator",
    "make_one_shot_iterator",
]  # fmt: skip


def make_one_shot_iterator(dataset: Any) -> Any:
    """Return an iterator of a dataset; `get_next()` returns the next element.

    >>> make_one_shot_iterator(data.Dataset.range(3)).get_next().tolist()
    0
    """
    return iter(dataset)


def make_initializable_iterator(dataset: Any, shared_name: str | None = None) -> Any:
    """Return an iterator of a dataset, which is ready at once.

    >>> make_initializable_iterator(data.Dataset.range(3)).get_next().tolist()
    0
    """
    return iter(dataset)


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """Return the shapes of the elements.

    >>> get_output_shapes(data.Dataset.range(3))
    ()
    """
    return nest.map_structure(lambda spec: spec.shape, dataset_or_iterator.element_spec)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """Return the dtypes of the elements.

    >>> get_output_types(data.Dataset.range(3)).name
    'int64'
    """
    return nest.map_structure(lambda spec: spec.dtype, dataset_or_iterator.element_spec)


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """Return the classes of the elements.

    >>> get_output_classes(data.Dataset.range(3)).__name__
    'Tensor'
    """
    return nest.map_structure(lambda spec: spec.value_type, dataset_or_iterator.element_spec)


def __getattr__(name: str) -> Any:
    return getattr(data, name)
