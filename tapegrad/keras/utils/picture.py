"""Pictures in SVG: put together from tags, shown in notebooks, written to files."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from tapegrad.errors import ArgumentError

FONT = 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace'
"""A font whose letters all have the same width, so that it is known how long a text is."""
_LETTER = 0.61


class Picture:
    """A drawing; `svg` is its text.

    >>> picture = Picture(tag("svg", width=3, height=2, xmlns="http://www.w3.org/2000/svg"))
    >>> picture.svg
    '<svg width="3" height="2" xmlns="http://www.w3.org/2000/svg"></svg>'
    """

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, to_file: Any) -> None:
        """Write the drawing to a file, whose name ends in .svg."""
        Path(to_file).write_text(self.svg + "\n", encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Picture in SVG, {len(self.svg):,} characters>"


def check_path(to_file: Any) -> None:
    """Refuse a path that is not one of an SVG file; None is for none.

    >>> check_path("model.png")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: Pictures are drawn as SVG, which needs nothing else to be \
installed and which browsers show. The file must end in .svg, such as 'model.svg'. Got 'model.png'.
    """
    if to_file is not None and Path(to_file).suffix.lower() != ".svg":
        raise ArgumentError(
            "Pictures are drawn as SVG, which needs nothing else to be installed and which "
            "browsers show. The file must end in .svg, such as "
            f"{str(Path(to_file).with_suffix('.svg'))!r}. Got {str(to_file)!r}."
        )


def finish(width: float, height: float, style: str, label: str, parts: list[str]) -> Picture:
    """Return a picture of some parts on white; `style` says how its classes look."""
    size = {"width": round(width), "height": round(height)}
    return Picture(
        tag(
            "svg",
            f"<style>{style}</style>",
            tag("rect", **size, fill="white"),
            "\n".join(parts),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {size['width']} {size['height']}",
            **size,
            role="img",
            aria_label=label,
        )
    )


def tag(name: str, *children: str, **attributes: Any) -> str:
    """Return an element of XML; underscores in names of attributes stand for hyphens.

    >>> tag("text", "a", x=1.25, class_="small")
    '<text x="1.2" class="small">a</text>'
    """
    written = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(_shown(value))}"'
        for key, value in attributes.items()
    ]
    return f"<{name}{''.join(written)}>{''.join(children)}</{name}>"


def _shown(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def text(words: str, x: float, y: float, kind: str) -> str:
    """Return words that begin at a place; `kind` is the class of its style."""
    return tag("text", escape(words), x=float(x), y=float(y), class_=kind)


def hint(words: str) -> str:
    """Return what is told when somebody points at an element."""
    return tag("title", escape(words))


def length_of(words: str, size: float) -> float:
    """Return how wide words are in letters of this size."""
    return len(words) * size * _LETTER
