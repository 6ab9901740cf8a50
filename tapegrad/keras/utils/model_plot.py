"""plot_model: draw the layers of a model as boxes and arrows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from tapegrad.errors import ArgumentError
from tapegrad.keras.utils.model_cards import KINDS, Shown, cards_of
from tapegrad.keras.utils.model_graph import Box, boxes_of, can_be_drawn
from tapegrad.keras.utils.picture import (
    FONT,
    Picture,
    finish,
    hint,
    length_of,
    svg_path,
    tag,
    text,
)

if TYPE_CHECKING:
    from tapegrad.program.inspect.graph_layout import Layout, Spot

_MARGIN, _HEADER = 22.0, 72.0
_BETWEEN = 40.0
"""The space between two rows, for arrows."""
_FRAME = 16.0
_TIP = 8.0
_DIRECTIONS = ("TB", "BT", "LR", "RL")
_COLOURS = {
    "input": ("#7b8794", "#f5f7fa"),
    "weights": ("#2f5fb3", "#eef4fd"),
    "plain": ("#2a8c74", "#edf8f5"),
    "merge": ("#8a4fb0", "#f7f0fb"),
    "model": ("#3e4c59", "#f8fafc"),
}
_STYLE = f"""
.tapegrad-model text {{ font: 12px {FONT}; fill: #1f2933; }}
.tapegrad-model .head {{ font-size: 15px; font-weight: bold; }}
.tapegrad-model .title {{ font-size: 13px; font-weight: bold; fill: white; text-anchor: middle; }}
.tapegrad-model .word {{ fill: #616e7c; }}
.tapegrad-model .frame-name {{ font-weight: bold; fill: #3e4c59; }}
.tapegrad-model .frame {{ fill: #f8fafc; stroke: #9aa5b1; stroke-dasharray: 5 4; }}
.tapegrad-model .arrow {{ fill: none; stroke: #7b8794; stroke-width: 1.5; }}
.tapegrad-model .arrow:hover {{ stroke: #d64545; stroke-width: 2.5; }}
""" + "".join(
    f".tapegrad-model .{kind} .card {{ fill: {fill}; stroke: {stroke}; stroke-width: 1.2; }}\n"
    f".tapegrad-model .{kind} .bar {{ fill: {stroke}; }}\n"
    for kind, (stroke, fill) in _COLOURS.items()
)
_MARKER = (
    '<defs><marker id="tapegrad-model-tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" '
    'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
    '<path d="M0,0.5 L8,4 L0,7.5 z" fill="#7b8794"/></marker></defs>'
)


def plot_model(
    model: Any,
    to_file: Any = "model.svg",
    show_shapes: bool = False,
    show_dtype: bool = False,
    show_layer_names: bool = False,
    rankdir: str = "TB",
    expand_nested: bool = False,
    dpi: int = 200,
    show_layer_activations: bool = False,
    show_trainable: bool = False,
    splines: str = "ortho",
) -> Picture:
    """Draw the layers of a Sequential or functional model to an SVG file.

    A layer that is called several times has a box for each call. The tooltip of a box shows all
    properties of its layer, whatever the `show_` arguments are. `rankdir` is the direction of the
    arrows: "TB" (top to bottom), "BT", "LR" or "RL". `dpi` and `splines` are accepted and ignored.
    Notebooks display the result. Pass `to_file=None` to write no file.

    >>> from tapegrad.keras.layers import Dense, Input
    >>> from tapegrad.keras.models import Sequential
    >>> model = Sequential([Input((8,)), Dense(4, activation="relu"), Dense(1)])
    >>> plot_model(model, to_file=None, show_shapes=True).svg.count(">(None, 4)<")
    2
    """
    path = svg_path(to_file)
    if rankdir not in _DIRECTIONS:
        raise ArgumentError(f"rankdir must be one of {', '.join(_DIRECTIONS)}. Got {rankdir!r}.")
    shown = Shown(show_shapes, show_dtype, show_layer_names, show_layer_activations, show_trainable)
    boxes = boxes_of(model)
    network = _Network(boxes, _parts(boxes, shown, rankdir, expand_nested), rankdir)
    words = (
        f"{model.name}: {_counted(len(model.layers), 'layer')}, {model.count_params():,} weights"
    )
    kinds = {part.kind for part in network.leaves()}
    legend, legend_width = _legend([kind for kind in KINDS if kind in kinds])
    width = max(network.width, length_of(words, 15), legend_width) + 2 * _MARGIN
    x = (width - network.width) / 2
    parts = [_MARKER, text(words, _MARGIN, 30, "head"), *legend, network.drawn(x, _HEADER)]
    group = tag("g", "\n".join(parts), class_="tapegrad-model")
    picture = finish(width, _HEADER + network.height + _MARGIN, _STYLE, words, [group])
    if path is not None:
        picture.save(path)
    return picture


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _legend(kinds: Sequence[str]) -> tuple[list[str], float]:
    x, parts = _MARGIN, []
    for kind in kinds:
        square = {"x": x, "y": 42.0, "width": 14.0, "height": 14.0, "rx": 3.0}
        parts.append(tag("g", tag("rect", **square, class_="bar"), class_=kind))
        parts.append(text(KINDS[kind], x + 20, 53, "word"))
        x += 44 + length_of(KINDS[kind], 12)
    return parts, x - _MARGIN - 24


class _Part(Protocol):
    """An element with a size that can be drawn: a card, or a model with all of its layers."""

    @property
    def kind(self) -> str: ...
    @property
    def width(self) -> float: ...
    @property
    def height(self) -> float: ...
    def drawn(self, x: float, y: float) -> str: ...


def _parts(boxes: Sequence[Box], shown: Shown, rankdir: str, expand: bool) -> list[_Part]:
    found: list[_Part] = []
    for box, card in zip(boxes, cards_of(boxes, shown)):
        if not expand or not can_be_drawn(box.layer):
            found.append(card)
            continue
        inner = boxes_of(box.layer)
        parts = _parts(inner, shown, rankdir, expand)
        call = dict(card.rows).get("shared", "")
        words = f"{box.name} ({box.kind}){f', {call}' if call else ''}"
        found.append(_Frame(words, card.tooltip, _Network(inner, parts, rankdir)))
    return found


class _Frame:
    """An inner model with its layers."""

    kind = "model"

    def __init__(self, words: str, tooltip: str, network: _Network) -> None:
        self._words, self._tooltip, self.network = words, tooltip, network
        self.width = max(network.width, length_of(words, 12)) + 2 * _FRAME
        self.height = network.height + 2 * _FRAME + 18

    def drawn(self, x: float, y: float) -> str:
        size = {"width": self.width, "height": self.height}
        return tag(
            "g",
            tag("rect", hint(self._tooltip), x=x, y=y, **size, rx=10.0, class_="frame"),
            text(self._words, x + _FRAME, y + 20, "frame-name"),
            self.network.drawn(x + (self.width - self.network.width) / 2, y + _FRAME + 18),
        )


class _Network:
    """Parts in rows, with arrows between them.

    Coordinates are across the rows and along the arrows; only `_at` converts them to x and y.
    """

    kind = "model"

    def __init__(self, boxes: Sequence[Box], parts: Sequence[_Part], rankdir: str) -> None:
        # Imported here because all models import this module, and few are drawn.
        from tapegrad.program.inspect.graph_layout import laid_out

        self._boxes, self._parts, self._rankdir = boxes, parts, rankdir
        self._is_upright = rankdir in ("TB", "BT")
        arrows = list(dict.fromkeys((start, box.number) for box in boxes for start in box.reads))
        self._layout: Layout = laid_out([self._across(p) for p in parts], arrows, len(parts))
        self._sizes = [0.0] * self._layout.rows
        for part, spot in zip(parts, self._layout.spots):
            self._sizes[spot.row] = max(self._sizes[spot.row], self._along(part))
        self._begins = [sum(self._sizes[:row]) + row * _BETWEEN for row in range(self._layout.rows)]
        self._length = sum(self._sizes) + _BETWEEN * (self._layout.rows - 1)
        across = self._layout.width
        self.width, self.height = (
            (across, self._length) if self._is_upright else (self._length, across)
        )
        self._ends = self._spread(arrows)

    def leaves(self) -> list[_Part]:
        """Return all parts, including those of inner models."""
        found: list[_Part] = []
        for part in self._parts:
            found += part.network.leaves() if isinstance(part, _Frame) else [part]
        return found

    def _across(self, part: _Part) -> float:
        return part.width if self._is_upright else part.height

    def _along(self, part: _Part) -> float:
        return part.height if self._is_upright else part.width

    def _spread(self, arrows: Sequence[tuple[int, int]]) -> dict[tuple[int, int], float]:
        """Return the offset of each arrow tip from the centre of its box, sorted by origin."""
        found: dict[tuple[int, int], float] = {}
        for end, part in enumerate(self._parts):
            some = [arrow for arrow in arrows if arrow[1] == end]
            some.sort(key=lambda arrow: self._layout.paths[arrow][-2].x)
            gap = min(16.0, (self._across(part) - 16) / max(1, len(some)))
            for place, arrow in enumerate(some):
                found[arrow] = (place - (len(some) - 1) / 2) * gap
        return found

    def _at(self, across: float, along: float) -> tuple[float, float]:
        if self._rankdir in ("BT", "RL"):
            along = self._length - along
        return (across, along) if self._is_upright else (along, across)

    def _begin(self, part: _Part, spot: Spot) -> float:
        """Return the start of a part along the arrows, centred in its row."""
        return self._begins[spot.row] + (self._sizes[spot.row] - self._along(part)) / 2

    def drawn(self, x: float, y: float) -> str:
        arrows = [self._arrow(start, end) for start, end in self._layout.paths]
        boxes = []
        for part, spot in zip(self._parts, self._layout.spots):
            middle = self._at(spot.x, self._begin(part, spot) + self._along(part) / 2)
            boxes.append(part.drawn(middle[0] - part.width / 2, middle[1] - part.height / 2))
        return tag("g", "\n".join([*arrows, *boxes]), transform=f"translate({x:.1f} {y:.1f})")

    def _arrow(self, start: int, end: int) -> str:
        """Return an arrow through the gaps of the layout; it moves sideways only between rows."""
        path = self._layout.paths[start, end]
        across = path[0].x
        along = self._begin(self._parts[start], path[0]) + self._along(self._parts[start])
        words = ["M" + self._pair(across, along)]
        for before, spot in pairwise(path):
            leave = self._begins[before.row] + self._sizes[before.row]
            arrive = self._begins[spot.row] - _TIP
            to = spot.x + (self._ends[start, end] if spot is path[-1] else 0.0)
            middle = (leave + arrive) / 2
            words.append("L" + self._pair(across, leave))
            pairs = [self._pair(across, middle), self._pair(to, middle), self._pair(to, arrive)]
            words.append("C" + " ".join(pairs))
            across = to
        words.append("L" + self._pair(across, self._begin(self._parts[end], path[-1])))
        names = f"{self._boxes[start].name} to {self._boxes[end].name}"
        shapes = ", ".join(str(x.shape) for x in self._between(start, end))
        tooltip = hint(f"{names}: {shapes}" if shapes else names)
        tip = "url(#tapegrad-model-tip)"
        return tag("path", tooltip, class_="arrow", d=" ".join(words), marker_end=tip)

    def _between(self, start: int, end: int) -> list[Any]:
        made = {id(x) for x in self._boxes[start].outputs}
        return [x for x in self._boxes[end].inputs if id(x) in made]

    def _pair(self, across: float, along: float) -> str:
        x, y = self._at(across, along)
        return f"{x:.1f},{y:.1f}"
