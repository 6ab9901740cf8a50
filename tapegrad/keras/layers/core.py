"""Dense layers, embeddings, and layers that apply a function."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras import activations
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.weight_rules import ruled_weight, set_rules
from tapegrad.keras.operation_sizes import check_call
from tapegrad.keras.symbolic import inferred_outputs, set_operation_layer
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.collective.sharded_weights import is_sharded
from tapegrad.ops.elementwise.comparison import not_equal
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.reduction.functions import reduce_any

Shape = tuple[int | None, ...]


def checked_count(value: Any, layer: str, what: str) -> int:
    """Check that a count, such as a number of units, is a positive integer, and return it."""
    if not isinstance(value, Integral) or value < 1:
        raise ArgumentError(f"{layer} takes a positive number of {what}. Got {value!r}.")
    return int(value)


class Dense(Layer):
    """Multiply the last axis by a matrix, add a bias, apply an activation.

    >>> import tapegrad
    >>> layer = Dense(3, kernel_initializer="ones")
    >>> layer(tapegrad.constant([[1.0, 2.0]])).tolist()
    [[3.0, 3.0, 3.0]]
    """

    takes_integers_as_floats = True
    supports_masking = True

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
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
        self.units, self.use_bias = checked_count(units, "Dense", "units"), use_bias
        self.activation = activations.get(activation)
        set_rules(self, locals(), "kernel", "bias")

    def build(self, input_shape: Any) -> None:
        self.kernel = ruled_weight(self, "kernel", (input_shape[-1], self.units))
        if self.use_bias:
            self.bias = ruled_weight(self, "bias", (self.units,))

    def call(self, inputs: Any) -> Any:
        # Read both before the matmul: the sweep can then compute both gradients in one step.
        kernel, bias = self.kernel, self.bias if self.use_bias else None
        if len(inputs.shape) < 2:
            raise ShapeError(
                f"{self._title} takes inputs of at least 2 dimensions, the last of which holds "
                f"the features. Got shape {tuple(inputs.shape)}."
            )
        try:
            x = matmul(inputs, kernel)
        except ShapeError as error:
            raise ShapeError(
                f"{self._title} was built for {kernel.shape[0]} features. Got an "
                f"input of shape {inputs.shape}."
            ) from error
        if bias is not None:
            x = x + bias
        return x if self.activation is None else self.activation(x)

    def compute_output_shape(self, input_shape: Any) -> Shape:
        return (*input_shape[:-1], self.units)


class Embedding(Layer):
    """Look up rows of a trainable table by integer index.

    >>> import tapegrad
    >>> layer = Embedding(10, 4)
    >>> layer(tapegrad.constant([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        weights: Any = None,
        **kwargs: Any,
    ) -> None:
        kwargs.pop("input_length", None)  # of Keras 2; the length follows from the input
        super().__init__(**kwargs)
        self.input_dim = checked_count(input_dim, "Embedding", "rows, input_dim")
        self.output_dim = checked_count(output_dim, "Embedding", "columns, output_dim")
        self.mask_zero = mask_zero
        self.supports_masking = mask_zero
        set_rules(self, locals(), "embeddings")
        self._given = weights

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments of this layer, without `weights`."""
        return {**super().get_config(), "weights": None}

    def build(self, input_shape: Any) -> None:
        self.embeddings = ruled_weight(self, "embeddings", (self.input_dim, self.output_dim))
        if self._given is not None:
            self.built = True
            self.set_weights(self._given if isinstance(self._given, list) else [self._given])

    def call(self, inputs: Any) -> Any:
        if inputs.dtype.is_floating:
            inputs = cast(inputs, "int32")
        # Gather from the variable itself, so that its gradient is sparse (IndexedSlices).
        table = self._in_float32.get("embeddings", None)
        if table is None or is_sharded(table):
            return gather(self.embeddings, inputs)
        return cast(gather(table, inputs), self.compute_dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return not_equal(inputs, 0) if self.mask_zero else None

    def compute_output_shape(self, input_shape: Any) -> Shape:
        return (*input_shape, self.output_dim)


class _Unchanged(Layer):
    """Base class of layers whose output has the shape of the input."""

    supports_masking = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


class Activation(_Unchanged):
    """Apply an activation.

    >>> import tapegrad
    >>> Activation("relu")(tapegrad.constant([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def __init__(self, activation: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = activations.get(activation)

    def call(self, inputs: Any) -> Any:
        return inputs if self.activation is None else self.activation(inputs)


class Identity(_Unchanged):
    """Return the input.

    >>> import tapegrad
    >>> float(Identity()(tapegrad.constant(2.0)))
    2.0
    """

    def call(self, inputs: Any) -> Any:
        return inputs


class Lambda(Layer):
    """Apply a function of tensors.

    >>> import tapegrad
    >>> Lambda(lambda x: x * x)(tapegrad.constant(3.0)).numpy().item()
    9.0
    """

    def __init__(
        self,
        function: Callable[..., Any],
        output_shape: Any = None,
        mask: Any = None,
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not callable(function):
            raise ArgumentError(f"Lambda takes a function. Got {function!r}.")
        self.function, self.arguments = function, dict(arguments or {})
        self._output_shape, self._mask = output_shape, mask
        self.supports_masking = mask is not None

    def call(self, inputs: Any) -> Any:
        return self.function(inputs, **self.arguments)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        check_call(self.function, args, self.arguments)
        return super().compute_output_spec(*args, **kwargs)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return self._mask(inputs, previous_mask) if callable(self._mask) else self._mask

    def compute_output_shape(self, input_shape: Any) -> Any:
        if self._output_shape is None:
            return super().compute_output_shape(input_shape)
        if callable(self._output_shape):
            return tuple(self._output_shape(input_shape))
        several = not isinstance(input_shape[0], int | None)
        return (input_shape[0][0] if several else input_shape[0], *self._output_shape)


class Masking(_Unchanged):
    """Mask the steps of sequences at which all features are `mask_value`.

    >>> import tapegrad
    >>> layer = Masking(0.0)
    >>> x = tapegrad.constant([[[1.0, 2.0], [0.0, 0.0]]])
    >>> layer.compute_mask(x, None).tolist()
    [[True, False]]
    """

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mask_value = mask_value

    def call(self, inputs: Any) -> Any:
        kept = reduce_any(not_equal(inputs, self.mask_value), axis=-1, keepdims=True)
        return inputs * cast(kept, inputs.dtype)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return reduce_any(not_equal(inputs, self.mask_value), axis=-1)


class Operation(Layer):
    """Apply an operator or a function to symbolic tensors in a functional model."""

    def __init__(self, function: Callable[..., Any], options: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function, self.options = function, dict(options or {})
        self.built = True

    def call(self, *operands: Any) -> Any:
        return self.function(*operands, **self.options)

    def compute_output_spec(self, *operands: Any, **_: Any) -> Any:
        check_call(self.function, operands, self.options)
        return inferred_outputs(self, *operands)


set_operation_layer(Operation)
