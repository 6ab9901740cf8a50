"""RecurrentCell: the base class of cells, with weights, dropout and the step function.

A cell multiplies the input by one matrix and the state by another. The first product does not
depend on the state, so a layer computes it for all steps at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from tapegrad.core.values import nest
from tapegrad.core.values.device import device
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras import activations
from tapegrad.keras.layers.core import checked_count
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.weight_rules import ruled_weight, set_rules
from tapegrad.ops.casting.cast import in_dtype
from tapegrad.ops.creation import ones, zeros
from tapegrad.ops.nn.dropout import dropout
from tapegrad.ops.products.einsum import einsum
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.random.generator import Generator
from tapegrad.ops.shape.functions import expand_dims, reshape

Step = Callable[[Any, list[Any]], tuple[Any, list[Any]]]
"""The function of one step: (projected input, state) -> (output, next state)."""


def taken_by(kind: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the given arguments that the constructor of `kind` takes."""
    code = kind.__init__.__code__
    return {name: given[name] for name in code.co_varnames[1 : code.co_argcount]}


class RecurrentCell(Layer):
    """Base class of cells: subclasses define the number of gates and the step function."""

    gates = 1
    bias_initializer: Any
    bias_regularizer: Any
    bias_constraint: Any

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = checked_count(units, type(self).__name__, "units")
        self.use_bias, self.seed = use_bias, seed
        self.activation = activation_or_none(activation)
        set_rules(self, locals(), "kernel", "recurrent", "bias")
        self.dropout = checked_rate(self, "dropout", dropout)
        self.recurrent_dropout = checked_rate(self, "recurrent_dropout", recurrent_dropout)
        self._rng = None if seed is None else Generator.from_seed(seed)

    @property
    def state_size(self) -> Any:
        """The number of features of the state, or a list of such numbers."""
        return self.units

    @property
    def output_size(self) -> int:
        return self.units

    # Weights

    def build(self, input_shape: Any) -> None:
        if len(input_shape) != 2:
            raise ShapeError(
                f"{self._title} takes the input of one step, of shape (batch, features). Got shape "
                f"{tuple(input_shape)}."
            )
        width = self.gates * self.units
        self.kernel = ruled_weight(self, "kernel", (input_shape[-1], width))
        self.recurrent_kernel = ruled_weight(
            self, "recurrent", (self.units, width), "recurrent_kernel"
        )
        if self.use_bias:
            self.bias = self.add_weight(
                self.bias_shape(),
                self.first_bias,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
                name="bias",
            )

    def bias_shape(self) -> tuple[int, ...]:
        return (self.gates * self.units,)

    def first_bias(self, shape: Any, dtype: Any = None) -> Any:
        return self.bias_initializer(shape, dtype=dtype)

    def read(self, variable: Any) -> Any:
        """Cast a weight to the compute dtype; a layer also needs this outside the cell's call."""
        return in_dtype(variable, self.compute_dtype)

    # Steps

    def call(self, inputs: Any, states: Any, training: bool | None = None) -> Any:
        given = as_list(states)
        step = self.step(training, given[0])
        output, new = step(self.project(inputs, training), given)
        return output, new if nest.is_nested(states) else new[0]

    def project(self, inputs: Any, training: bool | None) -> Any:
        """Multiply the inputs `[..., batch, features]` of one or of all steps by the kernel."""
        kernel = self.read(self.kernel)
        if inputs.shape[-1] != kernel.shape[0]:
            raise ShapeError(
                f"{self._title} was built for {kernel.shape[0]} features. Got {inputs.shape[-1]}."
            )
        if training and self.dropout:
            # One mask for all steps: the same features are dropped.
            noise = (*(1 for _ in inputs.shape[:-2]), *inputs.shape[-2:])
            inputs = dropout(inputs, self.dropout, noise, rng=self._rng)
        x = matmul(inputs, kernel)
        bias = self.input_bias()
        return x if bias is None else x + bias

    def input_bias(self) -> Any:
        """Return the bias to add to the input projection, or None."""
        return self.read(self.bias) if self.use_bias else None

    @abstractmethod
    def step(self, training: bool | None, state: Any) -> Step:
        """Return the step function for states with the shape and device of this one."""

    def recurrence(
        self, training: bool | None, state: Any, first: int = 0, last: int | None = None
    ) -> Callable[[Any], Any]:
        """Return a function that multiplies a state by the recurrent kernel of some gates."""
        kernel = self.read(self.recurrent_kernel)
        gates = (self.gates if last is None else last) - first
        if gates != self.gates:
            kernel = kernel[:, first * self.units : (first + gates) * self.units]
        if not (training and self.recurrent_dropout):
            return lambda h: matmul(h, kernel)
        # One mask per gate, the same for all steps.
        with device(state.device):
            like = ones((state.shape[0], gates, self.units), self.compute_dtype)
        masks = dropout(like, self.recurrent_dropout, rng=self._rng)
        kernels = reshape(kernel, (self.units, gates, self.units))

        def masked(h: Any) -> Any:
            product = einsum("bgu,ugv->bgv", expand_dims(h, 1) * masks, kernels)
            return reshape(product, (h.shape[0], gates * self.units))

        return masked

    # Shapes

    def get_initial_state(
        self, batch_size: int | None = None, inputs: Any = None, dtype: Any = None
    ) -> list[Any]:
        """Return the state before the first step: zeros.

        Earlier versions of Keras take the batch from `inputs`, and a dtype.
        """
        size = inputs.shape[0] if batch_size is None else batch_size
        kind = self.compute_dtype if dtype is None else dtype
        return [zeros((size, n), kind) for n in sizes_of(self.state_size)]

    def compute_output_shape(self, input_shape: Any) -> Any:
        batch = input_shape[0]
        return (batch, self.units), [(batch, n) for n in sizes_of(self.state_size)]


def sizes_of(state_size: Any) -> list[Any]:
    """Return `state_size` as a list."""
    return list(state_size) if isinstance(state_size, list | tuple) else [state_size]


def as_list(state: Any) -> list[Any]:
    """Return a state as a list of tensors."""
    return list(state) if nest.is_nested(state) else [state]


def activation_or_none(identifier: Any) -> Any:
    """Return an activation; None means linear, as in Keras."""
    return activations.get("linear" if identifier is None else identifier)


def checked_rate(layer: Layer, name: str, rate: float) -> float:
    """Return a dropout rate, which must be at least 0 and below 1."""
    if not 0.0 <= rate < 1.0:
        raise ArgumentError(
            f"{type(layer).__name__} takes a {name} of at least 0 and below 1. Got {rate!r}."
        )
    return float(rate)
