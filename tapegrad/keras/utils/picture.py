"""SVG pictures: built from tags, displayed in notebooks, written to files."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from tapegrad.core.call_site import warn_outside
from tapegrad.errors import ArgumentError

FONT = 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace'
"""A monospaced font, so that the width of a text is known."""
_LETTER = 0.61
_OTHER_FORMATS = (".png", ".pdf", ".jpg", ".jpeg", ".gif", ".ps", ".webp")


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


def svg_path(to_file: Any) -> Path | None:
    """Return the path to write a picture to, or None for None.

    Programs written for other libraries ask for PNG or PDF files. They get an SVG file of the same
    name, with a warning.

    >>> svg_path("model.txt")
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: Pictures are written as SVG, which browsers display. The path \
must end in .svg, such as 'model.svg'. Got 'model.txt'.
    """
    if to_file is None:
        return None
    path = Path(to_file)
    if path.suffix.lower() == ".svg":
        return path
    instead = path.with_suffix(".svg")
    if path.suffix.lower() not in _OTHER_FORMATS:
        raise ArgumentError(
            "Pictures are written as SVG, which browsers display. The path must end in .svg, "
            f"such as {str(instead)!r}. Got {str(to_file)!r}."
        )
    warn_outside(
        f"Pictures are written as SVG: {str(instead)!r} instead of {str(to_file)!r}.",
    )
    return instead


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
