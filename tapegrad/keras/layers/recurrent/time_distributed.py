"""TimeDistributed: apply a layer to each step of a sequence."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentTypeError, ShapeError
from tapegrad.keras.layers.calling import call_spec
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.copying import revived
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.joining import stack, unstack

Shape = tuple[int | None, ...]


class TimeDistributed(Layer):
    """Apply a layer to each step, that is, to each index of the second axis.

    >>> import tapegrad
    >>> from tapegrad.keras.layers.core import Dense
    >>> TimeDistributed(Dense(4))(tapegrad.ones([2, 5, 3])).shape
    (2, 5, 4)
    """

    supports_masking = True

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        layer = revived(layer)
        if not isinstance(layer, Layer):
            raise ArgumentTypeError(
                f"TimeDistributed takes a layer. Got {type(layer).__name__}: {layer!r}."
            )
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = layer.dtype_policy
        super().__init__(**kwargs)
        self.layer = layer
        if not self.trainable:
            self.trainable = False  # also sets it on the wrapped layer

    def build(self, input_shape: Any) -> None:
        shape = self._without_steps(input_shape)
        if not self.layer.built:
            self.layer.build(shape)
            self.layer.built = True

    def _without_steps(self, shape: Any) -> Shape:
        if len(shape) < 3:
            raise ShapeError(
                f"{self._title} takes inputs of shape (batch, steps, ...) "
                f"with at least 3 dimensions. Got shape {tuple(shape)}."
            )
        return (shape[0], *shape[2:])

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        self._without_steps(inputs.shape)
        if self._keeps_state(training):
            return self._step_by_step(inputs, training, mask)
        options: dict[str, Any] = {"training": training}
        # A mask of shape (batch, steps) does not apply inside a step.
        if mask is not None and len(mask.shape) > 2 and call_spec(type(self.layer).call).takes_mask:
            options["mask"] = self._merged(mask)
        # All steps at once: fold them into the batch.
        outputs = self.layer(self._merged(inputs), **options)
        return reshape(outputs, (*inputs.shape[:2], *outputs.shape[1:]))

    def _keeps_state(self, training: bool | None) -> bool:
        """Whether a step updates state, such as moving averages, that the next step reads."""
        if getattr(self.layer, "stateful", False):
            return True
        is_trained = bool(training) and self.layer.trainable
        return is_trained and any(not variable.trainable for variable in self.layer.variables)

    def _step_by_step(self, inputs: Any, training: bool | None, mask: Any) -> Any:
        takes_mask = mask is not None and call_spec(type(self.layer).call).takes_mask
        masks = unstack(mask, axis=1) if takes_mask else [None] * inputs.shape[1]
        outputs = []
        for x, one in zip(unstack(inputs, axis=1), masks):
            options = {} if one is None else {"mask": one}
            outputs.append(self.layer(x, training=training, **options))
        return stack(outputs, 1)

    def _merged(self, x: Any) -> Any:
        return reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))

    def compute_output_shape(self, input_shape: Any) -> Shape:
        inner = self.layer.compute_output_shape(self._without_steps(input_shape))
        return (inner[0], input_shape[1], *inner[1:])
