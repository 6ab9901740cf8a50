"""Draw programs as self-contained SVG."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tapegrad.program.graph.graph import Value
from tapegrad.program.inspect.drawing import Drawing, Node, drawing_of
from tapegrad.program.inspect.graph_layout import Layout, Spot, laid_out
from tapegrad.program.inspect.text import Described

_IN_A_ROW = 6
_LETTER = 7.3
"""The width of a character in pixels, in a monospaced font."""
_HEAD_LETTER = 8.6
_LETTERS = 28
_LINE = 17
_MARGIN = 24
_HEADER = 74
_BETWEEN_ROWS = 44
_KINDS = {
    "loop": "fused loop",
    "product": "product",
    "other": "other call",
    "view": "view",
    "end": "input, output",
}
_STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2933; }
.head { font-size: 14px; font-weight: bold; } .title { font-weight: bold; }
.small { fill: #52606d; } rect { stroke-width: 1.2; } .page { fill: white; }
.loop rect { fill: #d8f3ea; stroke: #2a9d7f; } .product rect { fill: #dfe7fd; stroke: #4263c9; }
.other rect { fill: #fdf0d5; stroke: #c98a1b; } .view rect { fill: white; stroke: #b8c1cc; }
.end rect { fill: #eceff3; stroke: #7b8794; }
.arrow { fill: none; stroke: #9aa5b1; stroke-width: 1.4; } .arrow:hover { stroke: #d64545; }
"""
_TIP = """<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"
markerHeight="7" orient="90"><path d="M0,0 L8,4 L0,8 z" fill="#9aa5b1"/></marker></defs>"""


def svg_of(program: Described) -> str:
    """Return a drawing of a program; boxes and arrows have tooltips."""
    drawing = drawing_of(program)
    layout = laid_out([_width(node) for node in drawing.nodes], list(drawing.arrows), _IN_A_ROW)
    page = _Page(drawing, layout)
    width = max(layout.width, len(program.summary) * _HEAD_LETTER) + 2 * _MARGIN
    size = f'width="{width:.0f}" height="{page.height:.0f}"'
    box = f'viewBox="0 0 {width:.0f} {page.height:.0f}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>',
        f"<style>{_STYLE}</style>",
        _TIP,
        f'<rect class="page" {size}/>',
        *_header(program.summary),
        *[page.arrow(a, b, values) for (a, b), values in drawing.arrows.items()],
        *[page.box(node, spot) for node, spot in zip(drawing.nodes, layout.spots)],
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _is_small(node: Node) -> bool:
    return node.kind in ("end", "view")


def _width(node: Node) -> float:
    widest = max(len(_cut(line)) for line in node.lines)
    return (widest if _is_small(node) else _LETTERS) * _LETTER + 16


def _height(node: Node) -> int:
    return len(node.lines) * _LINE + 12


def _cut(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _header(summary: str) -> list[str]:
    parts = [f'<text class="head" x="{_MARGIN}" y="28">{_escaped(summary)}</text>']
    x = float(_MARGIN)
    for kind, words in _KINDS.items():
        parts.append(
            f'<g class="{kind}"><rect x="{x:.0f}" y="40" width="14" height="14" rx="3"/>'
            f'<text class="small" x="{x + 20:.0f}" y="51">{words}</text></g>'
        )
        x += 44 + len(words) * _LETTER
    return parts


class _Page:
    """The coordinates of boxes and arrows."""

    def __init__(self, drawing: Drawing, layout: Layout) -> None:
        self._nodes = drawing.nodes
        self._layout = layout
        self._heights = [0] * layout.rows
        for node, spot in zip(drawing.nodes, layout.spots):
            self._heights[spot.row] = max(self._heights[spot.row], _height(node))
        self._tops: list[int] = []
        self.height = _HEADER
        for height in self._heights:
            self._tops.append(self.height)
            self.height += height + _BETWEEN_ROWS
        self._entries = self._spread(list(drawing.arrows))

    def _spread(self, arrows: list[tuple[int, int]]) -> dict[tuple[int, int], float]:
        """The offset from the centre of a box at which each arrow ends, sorted by origin."""
        found: dict[tuple[int, int], float] = {}
        into: dict[int, list[tuple[int, int]]] = {}
        for arrow in arrows:
            into.setdefault(arrow[1], []).append(arrow)
        for end, some in into.items():
            some.sort(key=lambda arrow: self._layout.paths[arrow][-2].x)
            gap = min(16.0, (_width(self._nodes[end]) - 40) / len(some))
            for place, arrow in enumerate(some):
                found[arrow] = (place - (len(some) - 1) / 2) * gap
        return found

    def box(self, node: Node, spot: Spot) -> str:
        """Return a box with its lines of text."""
        x, y = _MARGIN + spot.x - _width(node) / 2, self._top(node, spot)
        texts = []
        for place, line in enumerate(node.lines):
            style = "title" if place == 0 and not _is_small(node) else "small"
            at = f'x="{x + 8:.1f}" y="{y + 18 + place * _LINE:.1f}"'
            texts.append(f'<text class="{style}" {at}>{_escaped(_cut(line))}</text>')
        kind = node.kind if node.kind == "end" else f"step {node.kind}"
        return (
            f'<g class="{kind}" id="{node.name}"><title>{_escaped(node.tooltip)}</title>'
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{_width(node):.1f}" height="{_height(node)}" '
            f'rx="{12 if _is_small(node) else 6}"/>{"".join(texts)}</g>'
        )

    def _top(self, node: Node, spot: Spot) -> float:
        return self._tops[spot.row] + (self._heights[spot.row] - _height(node)) / 2

    def arrow(self, a: int, b: int, values: Sequence[Value]) -> str:
        """Return an arrow through its spots in the layout."""
        path = self._layout.paths[a, b]
        x = _MARGIN + path[0].x
        line = [f"M{x:.1f},{self._top(self._nodes[a], path[0]) + _height(self._nodes[a]):.1f}"]
        for above, spot in pairwise(path):
            bottom, top = self._tops[above.row] + self._heights[above.row], self._tops[spot.row]
            to = _MARGIN + spot.x + (self._entries[a, b] if spot is path[-1] else 0.0)
            # Move sideways only between rows, where there are no boxes.
            line.append(f"V{bottom:.1f} {_bend(x, bottom, to, top)}")
            x = to
        line.append(f"V{self._top(self._nodes[b], path[-1]):.1f}")
        told = _escaped("\n".join(map(str, values)))
        return (
            f'<path class="arrow" marker-end="url(#tip)" d="{" ".join(line)}">'
            f"<title>{told}</title></path>"
        )


def _bend(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (y + to_y) / 2
    return f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}"
