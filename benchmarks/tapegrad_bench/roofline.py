"""The roofline chart: what a step achieved under the ceilings of its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tapegrad_bench.charts import WIDTH, draw_mark, drawing, grid_x, grid_y
from tapegrad_bench.quantities import format_count, format_rate
from tapegrad_bench.results import Ceiling
from tapegrad_bench.rows import Row, is_ours
from tapegrad_bench.svg import LogScale, decades_around, hint, tag, text

HEIGHT = 300.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 26.0, 36.0


@dataclass(frozen=True)
class Spot:
    """One contender's dot."""

    contender: str
    row: Row
    intensity: float
    """Operations needed per byte needed."""
    rate: float
    """TFLOP/s achieved."""


@dataclass(frozen=True)
class Box:
    """A rectangle by its middle and half its width and height."""

    across: float
    down: float
    half_width: float
    half_height: float

    def meets(self, other: Box) -> bool:
        """Say whether the two overlap."""
        return (
            abs(self.across - other.across) < self.half_width + other.half_width
            and abs(self.down - other.down) < self.half_height + other.half_height
        )


def find_spots(rows: Sequence[Row]) -> list[Spot]:
    """Return a dot for every cell whose bytes and operations are known."""
    return [
        Spot(contender, row, cell.flops_needed / cell.bytes_needed, cell.tflop_per_s)
        for row in rows
        for contender, cell in row.cells.items()
        if cell.flops_needed and cell.bytes_needed and cell.tflop_per_s
    ]


def draw_roofline(ceiling: Ceiling, spots: Sequence[Spot]) -> str:
    """Draw achieved FLOP/s by FLOP per byte; `ceiling` must have both of its figures."""
    bandwidth, peak = ceiling.copy_tb_per_s, ceiling.matmul_tflop_per_s
    assert bandwidth is not None
    assert peak is not None
    x_limits = decades_around([peak / bandwidth, *[spot.intensity for spot in spots]], 2.5)
    low, high = decades_around([peak, *[spot.rate for spot in spots]], 2.0)
    x = LogScale(*x_limits, LEFT, WIDTH - RIGHT)
    # The names stand below the lowest dots.
    y = LogScale(low / 3, high, HEIGHT - BOTTOM, TOP)
    parts = [
        *grid_y(y, LEFT, WIDTH - RIGHT, lambda value: format_count(1e12 * value)),
        *grid_x(x, HEIGHT - BOTTOM, TOP, lambda value: f"{value:g}"),
        text("FLOP per byte needed", (LEFT + WIDTH) / 2, HEIGHT - 4, class_="axis middle"),
        text("FLOP/s", 2, 8, class_="axis"),
        _roof(x, y, bandwidth, peak),
        *_names(spots, x, y),
    ]
    # Ours last: what is drawn later lies on top.
    for spot in sorted(spots, key=lambda spot: is_ours(spot.contender)):
        words = hint(f"{spot.row.label}, {spot.contender}: {format_rate(spot.rate, 'FLOP/s')}")
        across, down = x.place(spot.intensity), y.place(spot.rate)
        radius = 4.0 if is_ours(spot.contender) else 3.0
        dot = tag("circle", words, cx=across, cy=down, r=radius, class_="point")
        parts.append(draw_mark(spot.contender, dot))
    return drawing(HEIGHT, f"Roofline on {ceiling.device}, {ceiling.dtype}", *parts)


def _roof(x: LogScale, y: LogScale, bandwidth: float, peak: float) -> str:
    knee = peak / bandwidth
    # The slope enters the drawing at its left edge or at its bottom, whichever comes first.
    start = max(x.low, y.low / bandwidth)
    corners = [(start, start * bandwidth), (knee, peak), (x.high, peak)]
    path = "M" + " L".join(f"{x.place(a):.1f},{y.place(b):.1f}" for a, b in corners)
    words = f"copy {format_rate(bandwidth, 'B/s')}, matrix product {format_rate(peak, 'FLOP/s')}"
    return tag(
        "g",
        tag("path", hint(words), d=path, class_="roof"),
        text(words, WIDTH - RIGHT, 8, class_="tick end"),
    )


def _names(spots: Sequence[Spot], x: LogScale, y: LogScale) -> list[str]:
    """Name each workload near its dots, where it meets neither a dot nor another name."""
    columns: dict[str, list[tuple[float, float]]] = {}
    for spot in spots:
        place = (x.place(spot.intensity), y.place(spot.rate))
        columns.setdefault(spot.row.workload, []).append(place)
    taken = [Box(across, down, 5, 5) for dots in columns.values() for across, down in dots]
    parts = []
    for workload, dots in columns.items():
        half = 3.4 * len(workload)
        across = min(max(dots[0][0], x.start + half + 2), x.stop - half)
        lowest, highest = max(down for _, down in dots), min(down for _, down in dots)
        steps = [10 * step for step in range(20)]
        below = [lowest + 11 + step for step in steps if lowest + 11 + step < y.start - 4]
        above = [highest - 11 - step for step in steps if highest - 11 - step > y.stop + 4]
        boxes = [Box(across, down, half, 6) for down in (*below, *above)]
        free = [box for box in boxes if not any(box.meets(other) for other in taken)]
        chosen = (free or boxes)[0]
        taken.append(chosen)
        parts.append(text(workload, chosen.across, chosen.down + 3.5, class_="label middle"))
    return parts
