"""RotaryEmbedding: rotate pairs of features by angles that depend on the position."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers.layer import Layer
from tapegrad.ops.attention.functions import rotary_embedding
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import arange
from tapegrad.ops.shape.functions import expand_dims, moveaxis


class RotaryEmbedding(Layer):
    """Rotate pairs of features by angles that grow with their position.

    Feature i is paired with feature i + features / 2. `scaling_factor` divides the positions, so
    that longer sequences use the range of angles of shorter ones.

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
        """Return the sequence axis and the feature axis as nonnegative integers."""
        rank = len(shape)
        axes = self.sequence_axis, self.feature_axis
        fits = all(-rank <= axis < rank for axis in axes) and axes[0] % rank != axes[1] % rank
        if not fits or (shape[axes[1]] is not None and shape[axes[1]] % 2):
            raise ShapeError(
                f"{self._title} takes inputs whose axis {axes[0]} holds the steps and whose axis "
                f"{axes[1]} holds an even number of features. Got shape {tuple(shape)}."
            )
        return axes[0] % rank, axes[1] % rank

    def call(self, inputs: Any, start_index: Any = 0, positions: Any = None) -> Any:
        axes = self._axes(inputs.shape)
        x = moveaxis(inputs, axes, (-2, -1))
        return moveaxis(self._rotated(x, start_index, positions), (-2, -1), axes)

    def _rotated(self, x: Any, start_index: Any, positions: Any) -> Any:
        with device(x.device):
            steps = self._positions(x.shape[-2], start_index, positions)
            while 2 <= len(steps.shape) < len(x.shape) - 1:
                steps = expand_dims(steps, 1)
            return rotary_embedding(x, steps, float(self.max_wavelength))

    def _positions(self, length: int, start_index: Any, positions: Any) -> Any:
        # In float64: the angle modulo a full turn needs all digits of a large position.
        first = arange(length, dtype="float64") if positions is None else positions
        steps = cast(first, "float64") + cast(start_index, "float64")
        return steps if self.scaling_factor == 1.0 else steps / self.scaling_factor

    def compute_output_shape(self, input_shape: Any) -> Any:
        return tuple(input_shape)
