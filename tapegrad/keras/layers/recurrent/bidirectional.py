"""Bidirectional: run a recurrent layer over sequences in both directions."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.recurrent.copying import copy_of, revived
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.rearranging import flip

_MODES = ("sum", "mul", "ave", "concat", None)


class Bidirectional(Layer):
    """Run one layer forwards and one backwards over sequences, and merge their outputs.

    The forward layer is a new layer with the arguments of `layer`. So is the backward layer,
    unless `backward_layer` is given.

    >>> import tapegrad
    >>> from tapegrad.keras.layers.recurrent.lstm import LSTM
    >>> Bidirectional(LSTM(4, return_sequences=True))(tapegrad.ones([2, 5, 3])).shape
    (2, 5, 8)
    """

    supports_masking = True

    def __init__(
        self,
        layer: Any,
        merge_mode: str | None = "concat",
        weights: Any = None,
        backward_layer: Any = None,
        **kwargs: Any,
    ) -> None:
        layer, backward_layer = revived(layer), revived(backward_layer)
        for given in (layer, *([] if backward_layer is None else [backward_layer])):
            if not isinstance(given, Layer) or not hasattr(given, "go_backwards"):
                raise ArgumentTypeError(
                    "Bidirectional takes recurrent layers, such as LSTM(8). "
                    f"Got {type(given).__name__}: {given!r}."
                )
        if merge_mode not in _MODES:
            raise ArgumentError(
                f"The merge_mode of Bidirectional must be one of {', '.join(map(repr, _MODES))}. "
                f"Got {merge_mode!r}."
            )
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = layer.dtype_policy
        super().__init__(**kwargs)
        self.merge_mode, self._given = merge_mode, weights
        self.forward_layer = copy_of(layer, name=f"forward_{layer.name}")
        self.backward_layer = backward_layer
        if backward_layer is None:
            self.backward_layer = copy_of(
                layer, name=f"backward_{layer.name}", go_backwards=not layer.go_backwards
            )
        self._check_pair()
        self.stateful = layer.stateful
        self.return_sequences, self.return_state = layer.return_sequences, layer.return_state
        # Outputs of both directions are merged per step, so a masked step must not repeat the
        # output of its predecessor, which differs between the directions.
        for inner in (self.forward_layer, self.backward_layer):
            inner.zero_output_for_mask = self.return_sequences
        if not self.trainable:
            self.trainable = False  # also sets it on the sublayers

    def _check_pair(self) -> None:
        one, other = self.forward_layer, self.backward_layer
        if one.go_backwards == other.go_backwards:
            raise ArgumentError(
                "The layer and the backward_layer of Bidirectional must run in opposite "
                f"directions. Got go_backwards={one.go_backwards} for both."
            )
        for name in ("stateful", "return_sequences", "return_state"):
            if getattr(one, name) != getattr(other, name):
                raise ArgumentError(
                    f"Both layers of Bidirectional must have the same {name}. Got "
                    f"{getattr(one, name)} and {getattr(other, name)}."
                )

    def build(self, sequences_shape: Any, initial_state_shape: Any = None) -> None:
        for layer in (self.forward_layer, self.backward_layer):
            if not layer.built:
                layer.build(sequences_shape)
                layer.built = True
        if self._given is not None:
            self.set_weights(self._given)

    def call(
        self,
        sequences: Any,
        initial_state: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        options = {"mask": mask, "training": training}
        first, second = self._halves(initial_state)
        y = self.forward_layer(sequences, initial_state=first, **options)
        z = self.backward_layer(sequences, initial_state=second, **options)
        states: tuple[Any, ...] = ()
        if self.return_state:
            states = (*y[1:], *z[1:])
            y, z = y[0], z[0]
        if self.return_sequences:
            z = flip(z, 1)
        if self.merge_mode is None:
            return (y, z, *states)
        merged = self._merged(y, z)
        return (merged, *states) if self.return_state else merged

    def _halves(self, states: Any) -> tuple[Any, Any]:
        if states is None:
            return None, None
        if not isinstance(states, list | tuple) or len(states) % 2:
            raise ShapeError(
                f"{self._title} takes an initial_state that lists the states of the forward "
                "layer, followed by as many states of the backward layer."
            )
        half = len(states) // 2
        return list(states[:half]), list(states[half:])

    def _merged(self, y: Any, z: Any) -> Any:
        if self.merge_mode == "concat":
            return concat([y, z], -1)
        if self.merge_mode == "mul":
            return y * z
        return y + z if self.merge_mode == "sum" else (y + z) / 2.0

    @property
    def states(self) -> Any:
        """The states that stateful layers keep: forward states, then backward states."""
        one, other = self.forward_layer.states, self.backward_layer.states
        return None if one is None or other is None else (*one, *other)

    def reset_state(self) -> None:
        """Reset the states of stateful layers to zero."""
        self.forward_layer.reset_state()
        self.backward_layer.reset_state()

    reset_states = reset_state

    def compute_output_shape(self, sequences_shape: Any, initial_state_shape: Any = None) -> Any:
        one = self.forward_layer.compute_output_shape(sequences_shape)
        other = self.backward_layer.compute_output_shape(sequences_shape)
        states: tuple[Any, ...] = ()
        if self.return_state:
            states = (*one[1:], *other[1:])
            one, other = one[0], other[0]
        if self.merge_mode is None:
            return (one, other, *states)
        if self.merge_mode == "concat":
            one = (*one[:-1], one[-1] + other[-1])
        return (one, *states) if self.return_state else one

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        if not self.return_sequences or previous_mask is None:
            return None
        count = 2 if self.merge_mode is None else 1
        if count == 1 and not self.return_state:
            return previous_mask
        return [previous_mask] * count
