"""The graph of layer calls of a Sequential or functional model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.keras.layers.core import Operation
from tapegrad.keras.symbolic import KerasTensor, nodes_between

_OPERATORS = {
    "abs": "Absolute",
    "floordiv": "FloorDivide",
    "ge": "GreaterEqual",
    "getitem": "GetItem",
    "gt": "Greater",
    "le": "LessEqual",
    "lt": "Less",
    "mul": "Multiply",
    "neg": "Negative",
    "pow": "Power",
    "sub": "Subtract",
    "truediv": "TrueDivide",
}
"""Keras names of operators that differ from their Python names."""


@dataclass(frozen=True)
class Box:
    """A call of a layer, or an input (layer is None).

    `reads` are the numbers of the boxes that provide its inputs. `path` names the enclosing models.
    """

    number: int
    layer: Any
    reads: tuple[int, ...]
    inputs: tuple[KerasTensor, ...]
    outputs: tuple[KerasTensor, ...]
    path: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The class of the layer, or the operator."""
        if self.layer is None:
            return "InputLayer"
        if isinstance(self.layer, Operation):
            name: str = self.layer.function.__name__
            return _OPERATORS.get(name, name.capitalize())
        return type(self.layer).__name__

    @property
    def name(self) -> str:
        return self.outputs[0].name if self.layer is None else str(self.layer.name)


def boxes_of(model: Any, expand_nested: bool = False) -> list[Box]:
    """Return the calls of a model's layers in topological order.

    With `expand_nested`, inner models are replaced by their layers.

    >>> from tapegrad.keras.layers import Dense, Input
    >>> from tapegrad.keras.models import Sequential
    >>> boxes = boxes_of(Sequential([Input((2,)), Dense(3), Dense(1)]))
    >>> [(box.kind, box.reads) for box in boxes]
    [('InputLayer', ()), ('Dense', (0,)), ('Dense', (1,))]
    """
    ends = _ends(model)
    if ends is None or not all(ends):
        raise _cannot_be_drawn(model, ends)
    walk = _Walk(expand_nested)
    inputs, outputs = ends
    starts = [walk.add(None, (), (), (x,), ()) for x in inputs]
    walk.follow(inputs, outputs, starts, ())
    return walk.boxes


def is_model(layer: Any) -> bool:
    """Return whether a layer is a model."""
    return isinstance(getattr(layer, "layers", None), list) and hasattr(layer, "fit")


def can_be_drawn(model: Any) -> bool:
    """Return whether the graph of a model is known.

    >>> from tapegrad.keras.models import Sequential
    >>> can_be_drawn(Sequential())
    False
    """
    ends = _ends(model)
    return ends is not None and all(ends)


class _Walk:
    def __init__(self, expand: bool) -> None:
        self.boxes: list[Box] = []
        self._expand = expand

    def add(self, layer: Any, reads: Any, inputs: Any, outputs: Any, path: Any) -> int:
        number = len(self.boxes)
        self.boxes.append(Box(number, layer, reads, inputs, outputs, path))
        return number

    def follow(
        self,
        inputs: Sequence[KerasTensor],
        outputs: Sequence[KerasTensor],
        starts: Sequence[int],
        path: tuple[str, ...],
    ) -> list[int]:
        """Add all calls between inputs and outputs; return the boxes of the outputs.

        `starts` are the boxes of the inputs.
        """
        makers = dict(zip(map(id, inputs), starts))
        for node in nodes_between(inputs, outputs):
            reads = tuple(makers[id(x)] for x in node.inputs)
            results = tuple(nest.flatten(node.outputs))
            ends = _ends(node.layer) if self._expand else None
            if ends is not None and all(ends) and len(ends[0]) == len(reads):
                found = self.follow(*ends, reads, (*path, node.layer.name))
            else:
                number = self.add(node.layer, reads, tuple(node.inputs), results, path)
                found = [number] * len(results)
            makers.update(zip(map(id, results), found))
        return [makers[id(x)] for x in outputs]


def _ends(model: Any) -> tuple[list[KerasTensor], list[KerasTensor]] | None:
    """Return the symbolic inputs and outputs of a model, or None if it has none."""
    inner = getattr(model, "_network", None) or model
    inputs, outputs = getattr(inner, "inputs", None), getattr(inner, "outputs", None)
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        return None
    return inputs, outputs


def _cannot_be_drawn(model: Any, ends: Any) -> Exception:
    if not hasattr(model, "layers"):
        return ArgumentTypeError(
            f"Only Sequential and functional models can be drawn. Got {type(model).__name__}."
        )
    if ends is None:
        return ArgumentError(
            f"Model {model.name!r} overrides `call` in its class {type(model).__name__} and cannot "
            "be drawn. Only Sequential models and functional models, keras.Model(inputs, outputs), "
            "can be drawn."
        )
    if not model.layers:
        return ArgumentError(f"Model {model.name!r} has no layers to draw. Add some with add().")
    return ArgumentError(
        f"Model {model.name!r} is not built yet, so its shapes are unknown. Start it with an "
        "Input, build it with model.build(input_shape), or call it on a batch."
    )
