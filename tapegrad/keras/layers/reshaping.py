"""Reshaping layers: Flatten, Reshape, Permute, RepeatVector."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.core.argument_checks import check_wholes, described, is_whole
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.layer import Layer
from tapegrad.ops.shape.functions import expand_dims, reshape, transpose
from tapegrad.ops.shape.rearranging import tile

Shape = tuple[int | None, ...]


class Flatten(Layer):
    """Merge all axes except the batch into one.

    >>> import tapegrad
    >>> Flatten()(tapegrad.ones([2, 3, 4])).shape
    (2, 12)
    """

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = data_format

    def call(self, inputs: Any) -> Any:
        rank = len(inputs.shape)
        if self.data_format == "channels_first" and rank > 2:
            inputs = transpose(inputs, (0, *range(2, rank), 1))
        return reshape(inputs, (inputs.shape[0], prod(inputs.shape[1:])))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        sizes = input_shape[1:]
        return (input_shape[0], None if None in sizes else prod(sizes))


class Reshape(Layer):
    """Reshape each example; one size may be -1.

    >>> import tapegrad
    >>> Reshape((2, -1))(tapegrad.ones([5, 6])).shape
    (5, 2, 3)
    """

    def __init__(self, target_shape: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_shape = check_wholes("target_shape", target_shape, "Reshape")
        if self.target_shape.count(-1) > 1:
            raise ArgumentError(f"Reshape takes one size of -1 at most. Got {self.target_shape}.")

    def call(self, inputs: Any) -> Any:
        return reshape(inputs, (inputs.shape[0], *self._sizes(tuple(inputs.shape[1:]))))

    def _sizes(self, sizes: Shape) -> Shape:
        if None in sizes:
            return tuple(None if n == -1 else n for n in self.target_shape)
        total, known = prod(n or 0 for n in sizes), prod(n for n in self.target_shape if n != -1)
        free = -1 in self.target_shape
        if (free and (known == 0 or total % known)) or (not free and known != total):
            raise ShapeError(
                f"{self._title} cannot reshape examples of shape {sizes} to {self.target_shape}."
            )
        return tuple(total // known if n == -1 else n for n in self.target_shape)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        return (input_shape[0], *self._sizes(tuple(input_shape[1:])))


class Permute(Layer):
    """Reorder the axes of each example, counted from 1.

    >>> import tapegrad
    >>> Permute((2, 1))(tapegrad.ones([5, 2, 3])).shape
    (5, 3, 2)
    """

    def __init__(self, dims: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dims = tuple(dims)
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ArgumentError(
                f"Permute takes the axes 1 to {len(self.dims)} in some order. Got {self.dims}."
            )

    def call(self, inputs: Any) -> Any:
        return transpose(inputs, (0, *self.dims))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        return (input_shape[0], *[input_shape[axis] for axis in self.dims])


class RepeatVector(Layer):
    """Repeat each vector `n` times along a new time axis.

    >>> import tapegrad
    >>> RepeatVector(3)(tapegrad.ones([5, 2])).shape
    (5, 3, 2)
    """

    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not is_whole(n) or n < 1:
            raise ArgumentError(f"RepeatVector takes a positive n. Got {described(n)}.")
        self.n = int(n)

    def build(self, input_shape: Any) -> None:
        if len(input_shape) != 2:
            raise ShapeError(
                f"{self._title} takes inputs of 2 dimensions: batch, "
                f"features. Got shape {tuple(input_shape)}."
            )

    def call(self, inputs: Any) -> Any:
        return tile(expand_dims(inputs, 1), (1, self.n, 1))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        return (input_shape[0], self.n, input_shape[1])
