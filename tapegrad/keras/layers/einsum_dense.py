"""EinsumDense: a dense layer given by an einsum equation."""

from __future__ import annotations

import re
from functools import cache
from string import ascii_letters
from typing import Any

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras import activations
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.weight_rules import ruled_weight, set_rules
from tapegrad.ops.products.einsum import einsum


class EinsumDense(Layer):
    """Multiply by a kernel with einsum, add a bias, apply an activation.

    The equation has the form "abc,cd->abd": letters name the axes of inputs, kernel and outputs,
    and "..." stands for axes that do not change. `output_shape` gives the sizes of the
    output without the batch, with None for sizes that the input determines. `bias_axes` are
    letters of the output.

    >>> import tapegrad
    >>> layer = EinsumDense("abc,cde->abde", output_shape=(None, 4, 5), bias_axes="de")
    >>> layer(tapegrad.ones([2, 7, 3])).shape, layer.kernel.shape, layer.bias.shape
    ((2, 7, 4, 5), (3, 4, 5), (4, 5))
    """

    takes_integers_as_floats = True

    def __init__(
        self,
        equation: str,
        output_shape: Any,
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.equation, self.bias_axes = equation, bias_axes
        found = re.fullmatch(r"([a-zA-Z.]+),([a-zA-Z]+)->([a-zA-Z.]+)", equation.replace(" ", ""))
        if found is None or any(
            axes.count("...") * 3 != axes.count(".") for axes in found.groups()
        ):
            raise ArgumentError(
                'EinsumDense takes an equation of the form "abc,cd->abd", with "..." in inputs and '
                f"outputs for axes that do not change. Got {equation!r}."
            )
        self._axes: tuple[str, str, str] = (found[1], found[2], found[3])
        self._wanted = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        unknown = set(bias_axes or "") - set(self._axes[2])
        if unknown:
            raise ArgumentError(
                f"EinsumDense takes bias_axes among the output axes, {self._axes[2]!r}. "
                f"Got {bias_axes!r}."
            )
        self.activation = activations.get(activation)
        set_rules(self, locals(), "kernel", "bias")

    def _sizes(self, input_shape: Any) -> dict[str, int | None]:
        """Return the size of every axis, those behind "..." included."""
        given, kernel, made = _spelled(self._axes, len(input_shape))
        if len(given) != len(input_shape):
            raise ShapeError(
                f"{self._title} has the equation {self.equation!r}, which does not fit inputs of "
                f"shape {tuple(input_shape)}."
            )
        sizes = dict(zip(given, input_shape))
        named = self._axes[2].replace("...", "")
        wanted = {k: n for k, n in zip(named[::-1], self._wanted[::-1]) if n is not None}
        unknown = sorted(set(kernel + made) - set(sizes) - set(wanted))
        wrong = [k for k, n in wanted.items() if sizes.get(k, n) not in (n, None)]
        if unknown or wrong:
            raise ShapeError(
                f"{self._title} has the equation {self.equation!r} and output_shape "
                f"{self._wanted}. For inputs of shape {tuple(input_shape)} they give no size, or "
                f"another one, for axes {', '.join(unknown + wrong)}."
            )
        return {**sizes, **wanted}

    def build(self, input_shape: Any) -> None:
        sizes = self._sizes(input_shape)
        _, kernel, made = _spelled(self._axes, len(input_shape))
        self.kernel = ruled_weight(self, "kernel", tuple(sizes[letter] for letter in kernel))
        self.bias = None
        if self.bias_axes:
            axes = made[min(made.index(letter) for letter in self.bias_axes) :]
            shape = tuple(sizes[letter] if letter in self.bias_axes else 1 for letter in axes)
            self.bias = ruled_weight(self, "bias", shape)

    def call(self, inputs: Any) -> Any:
        given, kernel, made = _spelled(self._axes, len(inputs.shape))
        x = einsum(f"{given},{kernel}->{made}", inputs, self.kernel)
        if self.bias is not None:
            x = x + self.bias
        return x if self.activation is None else self.activation(x)

    def compute_output_shape(self, input_shape: Any) -> Any:
        sizes = self._sizes(input_shape)
        return tuple(sizes[letter] for letter in _spelled(self._axes, len(input_shape))[2])


@cache
def _spelled(axes: tuple[str, str, str], rank: int) -> tuple[str, str, str]:
    """Return the letters of inputs, kernel and outputs, with unused letters for "..."."""
    given, kernel, made = axes
    free = [letter for letter in ascii_letters if letter not in given + kernel + made]
    rest = "".join(free[: max(0, rank - len(given.replace("...", "")))])
    return given.replace("...", rest), kernel, made.replace("...", rest)
