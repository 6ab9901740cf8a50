"""SVG pictures: built from tags, displayed in notebooks, written to files."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from tapegrad.errors import ArgumentError

FONT = 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace'
"""A monospaced font, so that the width of a text is known."""
_LETTER = 0.61


class Picture:
    """An SVG picture; `svg` is its source.

    >>> picture = Picture(tag("svg", width=3, height=2, xmlns="http://www.w3.org/2000/svg"))
    >>> picture.svg
    '<svg width="3" height="2" xmlns="http://www.w3.org/2000/svg"></svg>'
    """

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, to_file: Any) -> None:
        """Write the picture to a file with the suffix .svg."""
        Path(to_file).write_text(self.svg + "\n", encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Picture in SVG, {len(self.svg):,} characters>"


def check_path(to_file: Any) -> None:
    """Raise an error unless a path is None or ends in .svg.

    >>> check_path("model.png")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: Pictures are written as SVG, which browsers display. The path \
must end in .svg, such as 'model.svg'. Got 'model.png'.
    """
    if to_file is not None and Path(to_file).suffix.lower() != ".svg":
        raise ArgumentError(
            "Pictures are written as SVG, which browsers display. The path must end in .svg, "
            "such as "
            f"{str(Path(to_file).with_suffix('.svg'))!r}. Got {str(to_file)!r}."
        )


def finish(width: float, height: float, style: str, label: str, parts: list[str]) -> Picture:
    """Return a picture of the parts on white; `style` is CSS for their classes."""
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
    """Return an XML element; underscores in attribute names become hyphens.

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
    """Return a text element at (x, y); `kind` is its CSS class."""
    return tag("text", escape(words), x=float(x), y=float(y), class_=kind)


def hint(words: str) -> str:
    """Return a tooltip element."""
    return tag("title", escape(words))


def length_of(words: str, size: float) -> float:
    """Return the width of words at this font size."""
    return len(words) * size * _LETTER
