"""Activation layers: activations with parameters, weights or masks."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras import activations
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.weight_rules import ruled_weight, set_rules
from tapegrad.ops.elementwise.selection import keep, where


class _Elementwise(Layer):
    """Base class of layers whose output has the shape of the input."""

    supports_masking = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        return tuple(input_shape)

    def _from_zero_on(self, name: str, value: Any) -> Any:
        if value is None or not value >= 0:
            raise ArgumentError(
                f"{type(self).__name__} takes a {name} of 0 or more. Got {value!r}."
            )
        return value


class ReLU(_Elementwise):
    """Return x above `threshold`, at most `max_value`; below, `negative_slope * (x - threshold)`.

    >>> import tapegrad
    >>> ReLU(max_value=6.0)(tapegrad.constant([-1.0, 2.0, 9.0])).tolist()
    [0.0, 2.0, 6.0]
    """

    def __init__(
        self,
        max_value: float | None = None,
        negative_slope: Any = 0.0,
        threshold: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_value = max_value
        if max_value is not None:
            self._from_zero_on("max_value", max_value)
        self.negative_slope = self._from_zero_on("negative_slope", negative_slope)
        self.threshold = self._from_zero_on("threshold", threshold)

    def call(self, inputs: Any) -> Any:
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(_Elementwise):
    """Return x where it is positive and `negative_slope * x` elsewhere.

    >>> import tapegrad
    >>> LeakyReLU(0.5)(tapegrad.constant([-4.0, 2.0])).tolist()
    [-2.0, 2.0]
    """

    def __init__(self, negative_slope: Any = 0.3, **kwargs: Any) -> None:
        negative_slope = kwargs.pop("alpha", negative_slope)  # its name before Keras 3
        super().__init__(**kwargs)
        self.negative_slope = self._from_zero_on("negative_slope", negative_slope)

    def call(self, inputs: Any) -> Any:
        return activations.leaky_relu(inputs, self.negative_slope)


class PReLU(_Elementwise):
    """Return x where it is positive and `alpha * x` elsewhere, with trainable `alpha`.

    Each element of an example has its slope. Along `shared_axes` the slope is shared; axis 0 is
    the batch.

    >>> import tapegrad
    >>> PReLU(alpha_initializer="ones")(tapegrad.constant([[-4.0, 2.0]])).tolist()
    [[-4.0, 2.0]]
    """

    def __init__(
        self,
        alpha_initializer: Any = "Zeros",
        alpha_regularizer: Any = None,
        alpha_constraint: Any = None,
        shared_axes: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        set_rules(self, locals(), "alpha")
        axes = () if shared_axes is None else shared_axes
        self.shared_axes = tuple(axes) if isinstance(axes, list | tuple) else (axes,)

    def build(self, input_shape: Any) -> None:
        rank = len(input_shape)
        if any(not 1 <= axis < rank for axis in self.shared_axes):
            raise ShapeError(
                f"{self._title} takes shared_axes from 1 to {rank - 1} for inputs of shape "
                f"{tuple(input_shape)}. Got {self.shared_axes}."
            )
        self.alpha = ruled_weight(
            self,
            "alpha",
            [1 if k in self.shared_axes else n for k, n in enumerate(input_shape)][1:],
        )

    def call(self, inputs: Any) -> Any:
        slopes, sizes = tuple(self.alpha.shape), tuple(inputs.shape[1:])
        if len(slopes) != len(sizes) or any(m not in (1, n) for m, n in zip(slopes, sizes)):
            raise ShapeError(
                f"{self._title} has slopes of shape {slopes}, which do not broadcast to examples "
                f"of shape {sizes}. Got inputs of shape {inputs.shape}."
            )
        return where(inputs > 0, inputs, self.alpha * inputs)


class ELU(_Elementwise):
    """Return x where it is positive and `alpha * (exp(x) - 1)` elsewhere.

    >>> import tapegrad
    >>> ELU()(tapegrad.constant([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = alpha

    def call(self, inputs: Any) -> Any:
        return activations.elu(inputs, alpha=self.alpha)


class Softmax(_Elementwise):
    """Return exp(x) divided by its sum along one axis or several.

    Elements at which `mask` is False are left out of the sum and get 0.

    >>> import tapegrad
    >>> x, mask = tapegrad.constant([1.0, 1.0, 5.0]), tapegrad.constant([True, True, False])
    >>> Softmax()(x, mask=mask).tolist()
    [0.5, 0.5, 0.0]
    """

    def __init__(self, axis: Any = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None:
            return activations.softmax(inputs, self.axis)
        sizes, own = tuple(inputs.shape), tuple(mask.shape)
        if len(own) > len(sizes) or any(m not in (1, n) for m, n in zip(own[::-1], sizes[::-1])):
            raise ShapeError(
                f"{self._title} takes a mask that broadcasts to the shape of its input, {sizes}. "
                f"Got a mask of shape {own}."
            )
        kept = mask if mask.dtype == "bool" else mask > 0.5
        # Finite, so that fully masked rows become zeros instead of NaN.
        lowest = -3e4 if inputs.dtype == "float16" else -1e9
        return keep(activations.softmax(where(kept, inputs, lowest), self.axis), kept)
