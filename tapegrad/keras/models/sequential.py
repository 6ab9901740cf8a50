"""Sequential: a model that is a stack of layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from tapegrad.core.argument_checks import described
from tapegrad.core.values.strings import StringTensor
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.layers.calling import call_spec, shape_of
from tapegrad.keras.layers.fused_norm_relu import joined
from tapegrad.keras.layers.input_layer import InputLayer
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.models.inputs import fitted
from tapegrad.keras.models.model import Model
from tapegrad.keras.models.text_front import after_stack, resumed_at
from tapegrad.keras.saving.objects import deserialize_keras_object, serialize_keras_object
from tapegrad.keras.symbolic import KerasTensor


class Sequential(Model):
    """A stack of layers: the output of each layer is the input of the next.

    >>> import tapegrad
    >>> from tapegrad.keras.layers.core import Dense
    >>> model = Sequential([Dense(4, activation="relu"), Dense(2)])
    >>> model(tapegrad.ones([5, 3])).shape, model.count_params()
    ((5, 2), 26)
    """

    def __init__(
        self, layers: Iterable[Any] | None = None, trainable: bool = True, name: str | None = None
    ) -> None:
        second: Any = trainable
        if isinstance(second, Layer):
            raise ArgumentTypeError(
                "Sequential takes one list of layers: write Sequential([first, second])."
            )
        super().__init__(trainable=trainable, name=name)
        self._stack: list[Layer] = []
        self._start: InputLayer | None = None
        self._is_told = False
        self._outputs: list[KerasTensor] = []
        given: Any = layers  # a layer is no list, though it could be iterated over
        if isinstance(given, Layer | KerasTensor) or not isinstance(given, Iterable | None):
            raise ArgumentTypeError(
                "Sequential takes a list of layers. "
                f"Got {type(layers).__name__}: {described(layers)}."
            )
        for layer in () if layers is None else layers:
            self.add(layer)

    def get_config(self) -> dict[str, Any]:
        """Return the layers and the input shape of this model."""
        if type(self).__init__ is not Sequential.__init__:
            return super().get_config()
        found: dict[str, Any] = serialize_keras_object(self._config_of_objects())
        return found

    def _config_of_objects(self) -> dict[str, Any]:
        """Return the configuration with the layers themselves."""
        if type(self).__init__ is not Sequential.__init__:
            return super().get_config()
        start = [self._start] if self._is_told else []
        return {
            "name": self.name,
            "trainable": self.trainable,
            "layers": [*start, *self._stack],
            "build_input_shape": self.input_shape,
        }

    @classmethod
    def _from_config(cls, config: Mapping[str, Any]) -> Any:
        if "build_input_shape" not in config:
            return super()._from_config(config)
        given = deserialize_keras_object(dict(config))
        model = cls(given["layers"], given["trainable"], given["name"])
        if given["build_input_shape"] is not None:
            model.build(given["build_input_shape"])
        return model

    @property
    def layers(self) -> list[Layer]:
        """The layers, without the InputLayer."""
        return list(self._stack)

    def add(self, layer: Any) -> None:
        """Append a layer. The first one may be an Input."""
        if isinstance(layer, KerasTensor) and layer.node is not None:
            layer = layer.node.layer
        if isinstance(layer, InputLayer):
            if self._stack or self._start is not None:
                raise ArgumentError("An Input can only be the first entry of a Sequential model.")
            self._start, self._is_told = layer, True
            return
        if not isinstance(layer, Layer):
            raise ArgumentTypeError(
                f"Sequential takes layers. Got {type(layer).__name__}: {described(layer)}. "
                "Wrap functions in a Lambda layer."
            )
        if any(layer.name == other.name and layer is not other for other in self._stack):
            raise ArgumentError(
                f"The model already has a layer named {layer.name!r}. Layer names must differ."
            )
        if not self._stack and self._start is None and layer.first_input_shape is not None:
            self._start, self._is_told = InputLayer(batch_shape=layer.first_input_shape), True
        self._stack.append(layer)
        self._forget_held()
        if self._start is not None:
            self._build_last()

    def _build_last(self) -> None:
        """Create the weights of the last layer, whose input shape is known."""
        assert self._start is not None
        x = self._start.output if len(self._stack) == 1 else self._outputs[-1]
        output: Any = self._stack[-1](x)
        self._outputs.append(output)
        self.built = True

    def pop(self) -> Layer:
        """Remove the last layer and return it."""
        if not self._stack:
            raise ArgumentError("The model has no layer to remove.")
        if self._start is not None:
            self._outputs.pop()
        self._forget_held()
        return self._stack.pop()

    @property
    def inputs(self) -> list[KerasTensor]:
        return [] if self._start is None else [self._start.output]

    @property
    def outputs(self) -> list[KerasTensor]:
        return [] if self._start is None or not self._stack else [self._outputs[-1]]

    @property
    def input(self) -> KerasTensor:
        return _single(self.inputs)

    @property
    def output(self) -> KerasTensor:
        return _single(self.outputs)

    @property
    def output_names(self) -> list[str] | None:
        """The name of the last layer."""
        return [self._stack[-1].name] if self._stack else None

    def build(self, input_shape: Any = None) -> None:
        """Create all weights for inputs of this shape, batch included."""
        if self._start is None and input_shape is not None:
            self._build_on_input(InputLayer(batch_shape=tuple(input_shape)))

    def _build_on_input(self, start: InputLayer) -> None:
        if not self._build_and_load(partial(self._build_stack, start)):
            self._build_stack(start)

    def _build_stack(self, start: InputLayer) -> None:
        stack = self._stack
        try:
            self._start = start
            self._stack = []
            for layer in stack:
                self._stack.append(layer)
                self._build_last()
            self.built = True
        except BaseException:
            # The next call builds again; layers that are built keep their weights.
            self._stack, self._start, self._outputs, self.built = stack, None, [], False
            raise

    def _build_for(self, spec: Any, args: Any, kwargs: Any) -> None:
        if not self.built and self._stack:
            first = _only(args[0])
            shape = (None, *shape_of(first)[1:])  # batches of other sizes may follow
            dtype = "string" if type(first) is StringTensor else None
            if self._start is None or self._awaited is not None:
                self._build_on_input(InputLayer(batch_shape=shape, dtype=dtype))
        self.built = True

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        if not self._stack:
            raise ArgumentError(f"Model {self.name!r} has no layers to call. Add one with add().")
        done = resumed_at(inputs)
        first, x = (0, self._fitted(inputs)) if done is None else next(iter(done.items()))
        for layer in self._steps()[first:]:
            takes_mask = mask is not None and call_spec(type(layer).call).takes_mask
            before, x = x, layer(x, mask=mask) if takes_mask else layer(x)
            if mask is not None or layer.supports_masking:
                mask = layer.compute_mask(before, mask)
        return self._keep_masks(x, mask)

    def without_text(self, x: Any) -> Any:
        """Return the results of the text layers in place of the input, or None."""
        is_usual = type(self).call is Sequential.call
        return after_stack(self._steps(), self._fitted(x)) if is_usual else None

    def _steps(self) -> list[Layer]:
        """Return the layers in call order, with fused pairs."""
        seen, steps = getattr(self, "_joined", (None, []))
        if seen != self._stack:
            if not all([layer.built for layer in self._stack]):
                return self._stack
            seen, steps = list(self._stack), joined(self._stack)
            object.__setattr__(self, "_joined", (seen, steps))
        return steps

    def _fitted(self, x: Any) -> Any:
        """Check the input against the shape of the Input, if there is one."""
        x = _only(x)
        if not self._is_told:
            return x
        assert self._start is not None
        return fitted(x, self._start.batch_shape, f"Model {self.name!r}")

    def compute_output_shape(self, input_shape: Any) -> Any:
        shape = input_shape
        for layer in self._stack:
            if not layer.built:
                layer.build(shape)
                layer.built = True
            shape = layer.compute_output_shape(shape)
        return shape

    @property
    def input_shape(self) -> Any:
        return None if self._start is None else self._start.batch_shape

    @property
    def output_shape(self) -> Any:
        return shape_of(self.outputs[0]) if self.outputs else None


def _only(inputs: Any) -> Any:
    """Return the tensor of a list or tuple of one."""
    return inputs[0] if isinstance(inputs, list | tuple) and len(inputs) == 1 else inputs


def _single(ends: list[KerasTensor]) -> KerasTensor:
    if not ends:
        raise AttributeError  # Layer.__getattr__ then raises the error with the reason
    return ends[0]
