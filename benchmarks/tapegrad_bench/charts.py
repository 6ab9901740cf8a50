"""The charts of the page, each one drawing in SVG: size, ratio, memory; see also roofline.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tapegrad_bench.quantities import (
    format_bytes,
    format_count,
    format_digits,
    format_percent,
    format_ratio,
    format_time,
)
from tapegrad_bench.rows import Row, is_keras, is_ours
from tapegrad_bench.scaling import Crossover, Series
from tapegrad_bench.svg import LinearScale, LogScale, decades_around, hint, tag, text

WIDTH = 380.0
LINE = 19.0
"""Height of one bar with its gap."""


def slug(contender: str) -> str:
    """Return `contender` as a name for classes: letters, digits and hyphens.

    >>> slug("torch compile (max)")
    'torch-compile-max'
    """
    return re.sub(r"[^a-z0-9]+", "-", contender.lower()).strip("-")


def short_tick(written: str) -> str:
    """Return a label of an axis without needless zeros.

    >>> short_tick("1.00 ms"), short_tick("0.500x"), short_tick("100k")
    ('1 ms', '0.5x', '100k')
    """
    return re.sub(r"\.0+(?=\D|$)|(\.\d*?[1-9])0+(?=\D|$)", r"\1", written)


def draw_mark(contender: str, *children: str, kind: str = "") -> str:
    """Group what belongs to one contender, so that the legend can hide it."""
    ours = " ours" if is_ours(contender) else ""
    classes = f"mark c-{slug(contender)}{ours} {kind}".strip()
    return tag("g", *children, class_=classes, data_c=slug(contender))


def drawing(height: float, label: str, *children: str) -> str:
    """Return a chart of the common width."""
    box = f"0 0 {WIDTH:.0f} {height:.0f}"
    return tag("svg", *children, viewBox=box, role="img", aria_label=label)


def draw_sizes(series: Sequence[Series], crossovers: Sequence[Crossover]) -> str:
    """Draw time by size, one line per contender and device, both axes logarithmic."""
    height, left, right, top, bottom = 250.0, 52.0, 12.0, 12.0, 38.0
    sizes = [size for one in series for size, _ in one.points]
    times = [time for one in series for _, time in one.points]
    x = LogScale(*decades_around(sizes, 1.15), left, WIDTH - right)
    y = LogScale(*decades_around(times, 1.5), height - bottom, top)
    parts = [
        *grid_y(y, left, WIDTH - right, format_time),
        *grid_x(x, height - bottom, top, format_count),
        text(series[0].axis, (left + WIDTH - right) / 2, height - 6, class_="axis middle"),
    ]
    parts += [_crossing(c, x, y) for c in crossovers if c.size and c.size > c.smallest]
    # Ours last: what is drawn later lies on top.
    parts += [_size_line(one, x, y) for one in sorted(series, key=lambda s: is_ours(s.contender))]
    label = f"{series[0].workload}: time by {series[0].axis}"
    return drawing(height, label, *parts)


def _size_line(one: Series, x: LogScale, y: LogScale) -> str:
    places = [(x.place(size), y.place(time)) for size, time in one.points]
    path = "M" + " L".join(f"{a:.1f},{b:.1f}" for a, b in places)
    kind = "cpu" if one.device == "cpu" else "gpu"
    parts = [tag("path", d=path, class_=f"line {kind}")]
    for (size, time), (a, b) in zip(one.points, places):
        words = hint(
            f"{one.contender} on {one.device}, {format_count(size)} {one.axis}: {format_time(time)}"
        )
        if kind == "cpu":
            parts.append(tag("circle", words, cx=a, cy=b, r=3.4, class_="dot cpu"))
        else:
            box = {"x": a - 3.2, "y": b - 3.2, "width": 6.4, "height": 6.4}
            parts.append(tag("rect", words, **box, class_="dot gpu"))
    return draw_mark(one.contender, *parts)


def _crossing(crossover: Crossover, x: LogScale, y: LogScale) -> str:
    assert crossover.size is not None
    place = x.place(crossover.size)
    words = hint(f"{crossover.contender}: {crossover.sentence}")
    line = tag("line", words, x1=place, x2=place, y1=y.start, y2=y.stop, class_="crossing")
    return draw_mark(crossover.contender, line)


def grid_y(
    y: LogScale, left: float, right: float, write: Callable[[float], str], most: int = 6
) -> list[str]:
    """Return lines across and their labels."""
    parts = []
    for value in y.ticks(most):
        place = y.place(value)
        parts.append(tag("line", x1=left, x2=right, y1=place, y2=place, class_="grid"))
        parts.append(text(short_tick(write(value)), left - 5, place + 3.5, class_="tick end"))
    return parts


def grid_x(
    x: LogScale, bottom: float, top: float, write: Callable[[float], str], most: int = 6
) -> list[str]:
    """Return upright lines and their labels."""
    parts = []
    for value in x.ticks(most):
        place = x.place(value)
        parts.append(tag("line", x1=place, x2=place, y1=top, y2=bottom, class_="grid"))
        parts.append(text(short_tick(write(value)), place, bottom + 14, class_="tick middle"))
    return parts


def ratios_of(row: Row) -> dict[str, float]:
    """Return each peer's time over that of our mode which answers it; our own models are peers."""
    peers = [name for name in row.cells if is_keras(name) or not is_ours(name)]
    found = {peer: row.ratio(peer, row.answer(peer)) for peer in peers}
    return {peer: ratio for peer, ratio in found.items() if ratio is not None}


def draw_ratios(row: Row, ratios: Mapping[str, float], limits: tuple[float, float]) -> str:
    """Draw one bar per peer from 1 to its ratio, on a logarithmic scale."""
    left, right, top = 142.0, 46.0, 6.0
    bottom = top + LINE * len(ratios)
    x = LogScale(*limits, left, WIDTH - right)
    one = x.place(1.0)
    parts = grid_x(x, bottom, top, format_ratio, 5)
    for place, (peer, ratio) in enumerate(ratios.items()):
        y = top + LINE * place + 3
        end = x.place(ratio)
        words = hint(
            f"{peer} takes {format_ratio(ratio)} the time of {row.answer(peer)} on {row.workload}"
        )
        bar = {"x": min(one, end), "y": y, "width": max(abs(end - one), 1.5), "height": LINE - 6}
        tone = "good" if ratio > 1.02 else "bad" if ratio < 0.98 else ""
        value = text(format_ratio(ratio), max(one, end) + 5, y + 10, class_=f"value {tone}".strip())
        name = text(peer, left - 8, y + 10, class_="name end")
        parts.append(draw_mark(peer, tag("rect", words, **bar, rx=2.0, class_="bar"), value, name))
    parts.append(tag("line", x1=one, x2=one, y1=top, y2=bottom, class_="one"))
    return drawing(bottom + 20, f"{row.label}: ratio to each peer", *parts)


def draw_ranking(title: str, ratios: Mapping[str, Mapping[str, float]]) -> str:
    """Draw one line per program with a dot per peer, in the given order, on a logarithmic scale."""
    left, right, top, line = 134.0, 16.0, 6.0, 15.0
    values = [ratio for found in ratios.values() for ratio in found.values()]
    x = LogScale(*decades_around([0.9, 1.1, *values], 1.2), left, WIDTH - right)
    bottom = top + line * len(ratios)
    one, lines = x.place(1.0), [top + line * (place + 0.5) for place in range(len(ratios))]
    edges = {"x1": left, "x2": WIDTH - right}
    parts = [
        *grid_x(x, bottom, top, format_ratio, 5),
        *[tag("line", **edges, y1=y, y2=y, class_="grid") for y in lines],
        tag("line", x1=one, x2=one, y1=top, y2=bottom, class_="one"),
    ]
    for y, (program, found) in zip(lines, ratios.items()):
        parts.append(text(program, left - 8, y + 3.5, class_="name end"))
        for peer, ratio in found.items():
            words = hint(f"{program}: {peer} takes {format_ratio(ratio)} our time")
            dot = tag("circle", words, cx=x.place(ratio), cy=y, r=4.0, class_="point")
            parts.append(draw_mark(peer, dot))
    return drawing(bottom + 20, f"{title}: ratio to the peers by program", *parts)


def draw_shares(shares: Mapping[str, Mapping[str, float]]) -> str:
    """Draw a line of dots per workload: percent of the ceiling on a logarithmic scale."""
    left, right, top, line = 134.0, 16.0, 6.0, 22.0
    values = [share for found in shares.values() for share in found.values()]
    x = LogScale(*decades_around([100.0, *values], 1.3), left, WIDTH - right)
    bottom = top + line * len(shares)
    parts = grid_x(x, bottom, top, lambda value: f"{format_digits(value)} %", 4)
    for place, (workload, found) in enumerate(shares.items()):
        y = top + line * (place + 0.5)
        parts.append(tag("line", x1=left, x2=WIDTH - right, y1=y, y2=y, class_="grid"))
        parts.append(text(workload, left - 8, y + 3.5, class_="name end"))
        for name, share in sorted(found.items(), key=lambda item: is_ours(item[0])):
            words = hint(f"{workload}, {name}: {format_percent(share)} of the ceiling")
            radius = 4.4 if is_ours(name) else 3.2
            dot = tag("circle", words, cx=x.place(share), cy=y, r=radius, class_="point")
            parts.append(draw_mark(name, dot))
    whole = x.place(100.0)
    parts.append(tag("line", x1=whole, x2=whole, y1=top, y2=bottom, class_="one"))
    return drawing(bottom + 20, "Percent of the ceiling by workload", *parts)


def draw_memory(row: Row, peaks: Mapping[str, int]) -> str:
    """Draw one bar per contender, as long as its peak of memory."""
    left, right, top = 142.0, 66.0, 6.0
    x = LinearScale(float(max(peaks.values())), left, WIDTH - right)
    parts = []
    for place, (name, peak) in enumerate(peaks.items()):
        y = top + LINE * place + 3
        width = max(x.place(peak) - left, 1.5)
        words = hint(f"{name} on {row.workload}: {format_bytes(peak)} at most")
        bar = tag("rect", words, x=left, y=y, width=width, height=LINE - 6, rx=2.0, class_="bar")
        value = text(format_bytes(peak), left + width + 5, y + 10, class_="value")
        parts.append(draw_mark(name, bar, value, text(name, left - 8, y + 10, class_="name end")))
    bottom = top + LINE * len(peaks)
    parts.append(tag("line", x1=left, x2=left, y1=top, y2=bottom, class_="one"))
    return drawing(bottom + 6, f"{row.label}: peak memory", *parts)
