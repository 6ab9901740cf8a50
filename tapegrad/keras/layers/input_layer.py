"""Input and InputLayer: the inputs of a functional model."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.symbolic import KerasTensor, Node


class InputLayer(Layer):
    """Represents an input of a model; `Input` creates one.

    >>> InputLayer((3,), name="point").output
    <KerasTensor shape=(None, 3), dtype=float32, name=point>
    """

    def __init__(
        self,
        shape: Sequence[int | None] | int | None = None,
        batch_size: int | None = None,
        dtype: Any = None,
        batch_shape: Sequence[int | None] | None = None,
        name: str | None = None,
        input_shape: Sequence[int | None] | int | None = None,
        batch_input_shape: Sequence[int | None] | None = None,
        sparse: bool | None = None,
        ragged: bool | None = None,
        input_tensor: Any = None,
        optional: bool = False,
    ) -> None:
        super().__init__(name=name)
        if input_tensor is not None:
            shape, batch_shape = None, input_tensor.shape
            dtype = input_tensor.dtype if dtype is None else dtype
        # The names before Keras 3.
        shape = input_shape if shape is None else shape
        batch_shape = batch_input_shape if batch_shape is None else batch_shape
        if (shape is None) == (batch_shape is None):
            raise ArgumentError(
                "Input takes either the shape of one example, as `shape`, or that of a batch, as "
                f"`batch_shape`. Got shape={shape}, batch_shape={batch_shape}."
            )
        if isinstance(shape, int):  # programs write (3) for (3,)
            shape = (shape,)
        for given in (shape, batch_shape):
            if given is not None and not isinstance(given, Sequence):
                raise ArgumentError(
                    f"A shape is a tuple of sizes, such as ({given},) for one dimension. "
                    f"Got {given!r}."
                )
        sizes: Any = tuple(batch_shape or ()) if shape is None else (batch_size, *shape)
        if any(n is not None and (not isinstance(n, Integral) or n < 0) for n in sizes):
            raise ArgumentError(
                "The sizes of a shape must be integers of 0 or more, or None for any size. "
                f"Got {sizes}."
            )
        sizes = tuple(None if n is None else int(n) for n in sizes)
        self.batch_shape = sizes
        self.input_dtype = "float32" if dtype is None else as_dtype(dtype).name
        self.sparse = bool(sparse)
        self.output = KerasTensor(sizes, self.input_dtype, self.name, self.sparse)
        Node(self, (), {}).set_outputs(self.output)
        self.last_output_shape = sizes
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments of this input."""
        config = {"batch_shape": self.batch_shape, "dtype": self.input_dtype, "name": self.name}
        return {**config, "sparse": True} if self.sparse else config

    def call(self, inputs: Any) -> Any:
        return inputs


def Input(  # noqa: N802  # Keras' name
    shape: Sequence[int | None] | int | None = None,
    batch_size: int | None = None,
    dtype: Any = None,
    batch_shape: Sequence[int | None] | None = None,
    name: str | None = None,
    sparse: bool | None = None,
    tensor: Any = None,
    optional: bool = False,
    ragged: bool | None = None,
) -> KerasTensor:
    """Return a symbolic tensor that is an input of a functional model.

    A sparse tensor for a sparse input becomes a dense one in the layers of Keras; layers of users
    get it as it is. With `tensor`, a symbolic tensor, its shape and dtype are those of the input.

    >>> Input(shape=(28, 28, 1)).shape
    (None, 28, 28, 1)
    """
    if tensor is not None and shape is None and batch_shape is None:
        batch_shape, dtype = tuple(tensor.shape), dtype or tensor.dtype
    return InputLayer(shape, batch_size, dtype, batch_shape, name, sparse=sparse).output
