"""The table of `tapegrad bench --peers ... script.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from textwrap import shorten

HEADINGS = ("program", "contender", "agreement", "time", "ratio", "first call")
MOST_WORDS = 100
"""The length at which a sentence in the table is cut."""

NOTE = (
    "ratio: time of the peer / time of tapegrad. Above 1 tapegrad is faster. agreement: largest "
    "difference, in units of the largest element of a result. first call: with compilation."
)


@dataclass(frozen=True)
class Row:
    """One contender of one part of a program. Without times, `words` says why."""

    program: str
    contender: str
    words: str = ""
    times: tuple[float, ...] = ()
    ours: tuple[float, ...] = ()
    """The times of tapegrad for the same part."""
    first_seconds: float | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the row."""
        time = duration(median(self.times)) if self.times else ""
        is_peer = self.times and self.ours and self.contender != "tapegrad"
        ratio = f"{median(self.times) / median(self.ours):.2f}" if is_peer else ""
        first = "" if self.first_seconds is None else duration(self.first_seconds)
        words = shorten(self.words, MOST_WORDS, placeholder=" ...")
        return self.program, self.contender, words, time, ratio, first


def duration(seconds: float) -> str:
    """Return a time with its unit.

    >>> duration(0.00123), duration(4.2e-6), duration(12.0)
    ('1.23 ms', '4.2 us', '12 s')
    """
    unit, scale = next(
        (unit, scale) for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)) if (
            seconds * scale >= 1 or unit == "us"
        )
    )  # fmt: skip
    return f"{seconds * scale:.3g} {unit}"


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text with aligned columns."""
    cells = [HEADINGS, *[row.cells for row in rows]]
    widths = [max(len(line[k]) for line in cells) for k in range(len(HEADINGS))]
    lines = []
    for line in cells:
        words = [
            text.rjust(width) if k >= 3 else text.ljust(width)
            for k, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(words).rstrip())
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], "", NOTE])
