"""RotaryEmbedding: pairs of features that turn with the position in the sequence."""

from __future__ import annotations

from typing import Any

from tapegrad.core.device import device
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.layer import Layer
from tapegrad.ops.attention import rotary_embedding
from tapegrad.ops.cast import cast
from tapegrad.ops.creation import arange
from tapegrad.ops.shape import expand_dims, moveaxis


class RotaryEmbedding(Layer):
    """Turn pairs of features by angles that grow with their position.

    Feature i is paired with feature i + features / 2. `scaling_factor` divides the positions, so
    that longer sequences stay within the angles of shorter ones.

    >>> import tapegrad
    >>> y = RotaryEmbedding()(tapegrad.constant([[[1.0, 0.0], [1.0, 0.0]]])).numpy()
    >>> [f"{number:.3f}" for number in y[0, 1]]
    ['0.540', '0.841']
    """

    supports_masking = True

    def __init__(
        self,
        max_wavelength: float = 10000,
        scaling_factor: float = 1.0,
        sequence_axis: int = 1,
        feature_axis: int = -1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if max_wavelength <= 0 or scaling_factor <= 0:
            raise ArgumentError(
                "RotaryEmbedding takes a positive max_wavelength and scaling_factor. "
                f"Got {max_wavelength} and {scaling_factor}."
            )
        self.max_wavelength, self.scaling_factor = max_wavelength, scaling_factor
        self.sequence_axis, self.feature_axis = sequence_axis, feature_axis

    def build(self, input_shape: Any) -> None:
        self._axes(input_shape)

    def _axes(self, shape: Any) -> tuple[int, int]:
        """The axes of steps and features, counted from the front."""
        rank = len(shape)
        axes = self.sequence_axis, self.feature_axis
        fits = all(-rank <= axis < rank for axis in axes) and axes[0] % rank != axes[1] % rank
        if not fits or (shape[axes[1]] is not None and shape[axes[1]] % 2):
            raise ShapeError(
                f"{self._title} takes inputs with an axis {axes[0]} of "
                f"steps and an axis {axes[1]} of an even number of features. "
                f"Got shape {tuple(shape)}."
            )
        return axes[0] % rank, axes[1] % rank

    def call(self, inputs: Any, start_index: Any = 0, positions: Any = None) -> Any:
        axes = self._axes(inputs.shape)
        x = moveaxis(inputs, axes, (-2, -1))
        return moveaxis(self._turned(x, start_index, positions), (-2, -1), axes)

    def _turned(self, x: Any, start_index: Any, positions: Any) -> Any:
        with device(x.device):  # numbers made here belong where the values are
            places = self._places(x.shape[-2], start_index, positions)
            while 2 <= len(places.shape) < len(x.shape) - 1:
                places = expand_dims(places, 1)
            return rotary_embedding(x, places, float(self.max_wavelength))

    def _places(self, length: int, start_index: Any, positions: Any) -> Any:
        # In float64, because at large positions the fraction of a turn is all that counts.
        first = arange(length, dtype="float64") if positions is None else positions
        places = cast(first, "float64") + cast(start_index, "float64")
        return places if self.scaling_factor == 1.0 else places / self.scaling_factor

    def compute_output_shape(self, input_shape: Any) -> Any:
        return tuple(input_shape)
