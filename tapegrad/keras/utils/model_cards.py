"""The boxes of plot_model: the class of a layer, and rows with its properties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.keras.symbolic import KerasTensor
from tapegrad.keras.utils.model_graph import Box, is_model
from tapegrad.keras.utils.picture import hint, length_of, tag, text

KINDS = {
    "input": "input",
    "weights": "with weights",
    "plain": "without weights",
    "merge": "joins inputs",
    "model": "model",
}
"""The kinds of boxes, and their labels in the legend."""

TITLE, ROW = 13.0, 12.0
_LINE, _HEAD, _INSIDE = 18.0, 28.0, 10.0
_MOST_SHAPES = 4


@dataclass(frozen=True)
class Shown:
    """Which rows the boxes show; the arguments of `plot_model`."""

    shapes: bool = False
    dtype: bool = False
    layer_names: bool = False
    activations: bool = False
    trainable: bool = False


@dataclass(frozen=True)
class Card:
    """A box with a title and rows of a label and a value."""

    kind: str
    title: str
    rows: tuple[tuple[str, str], ...]
    tooltip: str

    @property
    def _label_width(self) -> float:
        return max((length_of(word, ROW) for word, _ in self.rows), default=0.0) + 12

    @property
    def width(self) -> float:
        widest = max((length_of(value, ROW) for _, value in self.rows), default=0.0)
        inner = max(length_of(self.title, TITLE), self._label_width + widest if self.rows else 0.0)
        return inner + 2 * _INSIDE + 4

    @property
    def height(self) -> float:
        return _HEAD + (len(self.rows) * _LINE + 8 if self.rows else 0)

    def drawn(self, x: float, y: float) -> str:
        """Return the box with its upper left corner at (x, y)."""
        place = {"x": x, "y": y, "width": self.width}
        middle = x + self.width / 2
        parts = [
            hint(self.tooltip),
            tag("rect", **place, height=self.height, rx=6.0, class_="card"),
            tag("rect", **place, height=_HEAD, rx=6.0, class_="bar"),
            text(self.title, middle, y + 18.5, "title"),
        ]
        if self.rows:  # the lower corners of the bar are square if rows follow
            parts.insert(3, tag("rect", **{**place, "y": y + _HEAD - 8}, height=8.0, class_="bar"))
        for number, (word, value) in enumerate(self.rows):
            line = y + _HEAD + 17 + number * _LINE
            parts.append(text(word, x + _INSIDE + 2, line, "word"))
            parts.append(text(value, x + _INSIDE + 2 + self._label_width, line, "value"))
        return tag("g", *parts, class_=self.kind)


def cards_of(boxes: Sequence[Box], shown: Shown) -> list[Card]:
    """Return a card for each call of a layer."""
    calls = Counter(id(box.layer) for box in boxes if box.layer is not None)
    seen: Counter[int] = Counter()
    found = []
    for box in boxes:
        seen[id(box.layer)] += 1
        shared = ""
        if calls[id(box.layer)] > 1:
            shared = f"call {seen[id(box.layer)]} of {calls[id(box.layer)]}"
        found.append(_card(box, shown, shared))
    return found


def _card(box: Box, shown: Shown, shared: str) -> Card:
    every = Shown(*[True] * 5)
    tooltip = [box.kind, *[f"{word}: {value}" for word, value in _rows(box, every, shared)]]
    if box.layer is not None and box.layer.built:
        tooltip.append(f"weights: {box.layer.count_params():,}")
    return Card(_kind(box), box.kind, tuple(_rows(box, shown, shared)), "\n".join(tooltip))


def _kind(box: Box) -> str:
    if box.layer is None:
        return "input"
    if is_model(box.layer):
        return "model"
    if box.layer.variables:
        return "weights"
    return "merge" if len(box.inputs) > 1 else "plain"


def _rows(box: Box, shown: Shown, shared: str) -> list[tuple[str, str]]:
    rows = []
    if shown.layer_names or shared:  # a shared layer needs its name to be identified
        rows.append(("name", box.name))
    if shared:
        rows.append(("shared", shared))
    if shown.activations and getattr(box.layer, "activation", None) is not None:
        rows.append(("activation", _name_of(box.layer.activation)))
    if shown.shapes:
        rows += _shapes("input", box.inputs) + _shapes("output", box.outputs)
    if shown.dtype:
        rows.append(("dtype", ", ".join(dict.fromkeys(x.dtype for x in box.outputs))))
    if shown.trainable and box.layer is not None:
        rows.append(("trainable", "yes" if box.layer.trainable else "no"))
    return rows


def _shapes(word: str, tensors: Sequence[KerasTensor]) -> list[tuple[str, str]]:
    lines = [str(x.shape) for x in tensors]
    if len(lines) > _MOST_SHAPES:
        lines[_MOST_SHAPES - 1 :] = [f"and {len(lines) - _MOST_SHAPES + 1} more"]
    return [(word if place == 0 else "", line) for place, line in enumerate(lines)]


def _name_of(activation: Any) -> str:
    return str(getattr(activation, "__name__", None) or type(activation).__name__)
