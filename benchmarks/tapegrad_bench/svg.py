"""Elements of HTML and SVG as text, and the two scales that charts need."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

_VOID = frozenset(["meta", "br", "hr"])


def tag(name: str, /, *children: str, **attributes: str | float) -> str:
    """Return one element; `children` are markup already, attributes are escaped here.

    Underscores become hyphens, and a trailing one is dropped: class_="bar", font_size=9.

    >>> tag("rect", class_="a&b", stroke_width=1.0)
    '<rect class="a&amp;b" stroke-width="1"></rect>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in attributes.items()
    )
    if name in _VOID:
        return f"<{name}{written}>"
    return f"<{name}{written}>{''.join(children)}</{name}>"


def text(content: str, x: float, y: float, **attributes: str | float) -> str:
    """Return a piece of text in a drawing."""
    return tag("text", escape(content), x=x, y=y, **attributes)


def hint(content: str) -> str:
    """Return what hovering over the parent shows."""
    return tag("title", escape(content))


def _plain(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.2f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class LogScale:
    """Maps `low` to `start` and `high` to `stop`, factors to equal distances."""

    low: float
    high: float
    start: float
    stop: float

    def place(self, value: float) -> float:
        """Return where `value` lies; values outside are put onto the edge."""
        inside = min(max(value, self.low), self.high)
        share = log10(inside / self.low) / log10(self.high / self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self, most: int = 7) -> list[float]:
        """Return round values inside the scale: decades, or 1-2-5 where there are few.

        >>> LogScale(0.5, 20, 0, 1).ticks()
        [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
        >>> LogScale(1, 1e6, 0, 1).ticks(4)
        [1.0, 100.0, 10000.0, 1000000.0]
        """
        first, last = floor(log10(self.low)), ceil(log10(self.high))
        fine = [m * 10.0**e for e in range(first, last + 1) for m in (1, 2, 5)]
        decades = [10.0**e for e in range(first, last + 1)]
        inside = [value for value in fine if self._has(value)]
        if len(inside) <= most:
            return inside
        inside = [value for value in decades if self._has(value)]
        return inside[:: ceil(len(inside) / most)]

    def _has(self, value: float) -> bool:
        return self.low * 0.999 <= value <= self.high * 1.001


@dataclass(frozen=True)
class LinearScale:
    """Maps 0 to `start` and `high` to `stop`."""

    high: float
    start: float
    stop: float

    def place(self, value: float) -> float:
        """Return where `value` lies."""
        return self.start + value / self.high * (self.stop - self.start)


def decades_around(values: list[float], room: float = 1.0) -> tuple[float, float]:
    """Return limits of a log scale that holds `values` with a factor of `room` to spare.

    >>> decades_around([3.0, 40.0], 2.0)
    (1.5, 80.0)
    """
    low, high = min(values) / room, max(values) * room
    return (low, high) if high > low * 1.01 else (low / 2, high * 2)
