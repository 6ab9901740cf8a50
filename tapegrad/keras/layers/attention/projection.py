"""The linear projections of attention layers between features and heads."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.keras import activations
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.weight_rules import ruled_weight, set_rules
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.shape.functions import reshape


class Projection(Layer):
    """Multiply the last `contracted` axes of a tensor by a kernel, which gives axes `sizes`.

    The kernel has the sizes of the contracted axes, followed by `sizes`.

    >>> import tapegrad
    >>> Projection((4, 8))(tapegrad.ones([2, 5, 3])).shape
    (2, 5, 4, 8)
    """

    def __init__(
        self,
        sizes: Sequence[int],
        contracted: int = 1,
        use_bias: bool = True,
        activation: Any = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.sizes, self.contracted, self.use_bias = tuple(sizes), contracted, use_bias
        self.activation = None if activation is None else activations.get(activation)
        set_rules(self, locals(), "kernel", "bias")

    def build(self, input_shape: Any) -> None:
        self.kernel = ruled_weight(self, "kernel", (*input_shape[-self.contracted :], *self.sizes))
        if self.use_bias:
            self.bias = ruled_weight(self, "bias", self.sizes)

    def call(self, inputs: Any) -> Any:
        kernel = self.kernel
        lead, old = inputs.shape[: -self.contracted], inputs.shape[-self.contracted :]
        if tuple(old) != tuple(kernel.shape[: self.contracted]):
            raise ShapeError(
                f"Layer {self.name!r} was built for {tuple(kernel.shape[: self.contracted])} "
                f"features. Got an input of shape {inputs.shape}."
            )
        # One large matrix product is the fastest form on all devices.
        flat = inputs if self.contracted == 1 else reshape(inputs, (*lead, prod(old)))
        x = matmul(flat, reshape(kernel, (prod(old), prod(self.sizes))))
        if len(self.sizes) > 1:
            x = reshape(x, (*lead, *self.sizes))
        if self.use_bias:
            x = x + self.bias
        return x if self.activation is None else self.activation(x)

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        return (*input_shape[: -self.contracted], *self.sizes)
