"""Layered layout of a graph: nodes in rows from top to bottom, near their neighbours.

Arrows point down. An arrow that crosses rows has a spot in each of them, so that it overlaps no
node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_SWEEPS = 12
_GAP = 22.0
_LANE = 4.0
"""The width of an arrow that crosses a row."""


@dataclass(eq=False)
class Spot:
    """A node, or the point where an arrow crosses a row; `x` is its centre."""

    row: int
    width: float
    x: float = 0.0
    above: list[Spot] = field(default_factory=list)
    below: list[Spot] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    """The spots of nodes, and for each arrow its spots from start to end."""

    spots: list[Spot]
    paths: dict[tuple[int, int], list[Spot]]
    width: float
    rows: int


def laid_out(
    widths: Sequence[float], arrows: Sequence[tuple[int, int]], most_in_a_row: int
) -> Layout:
    """Place nodes that are numbered in topological order."""
    rows = _rows(len(widths), arrows, most_in_a_row)
    spots = [Spot(row, width) for row, width in zip(rows, widths)]
    lanes: dict[int, list[Spot]] = {}
    paths = {(a, b): _path(spots, lanes.setdefault(a, [spots[a]]), b) for a, b in arrows}
    passing = [spot for lane in lanes.values() for spot in lane[1:]]
    grid = _grid([*spots, *passing])
    for sweep in range(_SWEEPS):
        _order(grid, from_above=sweep % 2 == 0)
    for row in grid:
        _side_by_side(row)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in grid if down else grid[::-1]:
            _settle(row, from_above=down)
    left = min((spot.x - spot.width / 2 for row in grid for spot in row), default=0.0)
    for row in grid:
        for spot in row:
            spot.x -= left
    right = max((spot.x + spot.width / 2 for row in grid for spot in row), default=0.0)
    return Layout(spots, paths, right, len(grid))


def _rows(count: int, arrows: Sequence[tuple[int, int]], most: int) -> list[int]:
    """The row of each node, below its predecessors; nodes without any are as low as possible."""
    rows = [0] * count
    taken: dict[int, int] = {}
    begins: list[list[int]] = [[] for _ in range(count)]
    ends: list[list[int]] = [[] for _ in range(count)]
    for a, b in arrows:
        begins[b].append(a)
        ends[a].append(b)
    for node in range(count):
        row = max((rows[before] + 1 for before in begins[node]), default=0)
        while taken.get(row, 0) >= most:
            row += 1
        rows[node] = row
        taken[row] = taken.get(row, 0) + 1
    # Nodes that depend on nothing are right above their first reader.
    loose: list[bool] = []
    for node in range(count):
        loose.append(all(loose[before] and len(ends[before]) == 1 for before in begins[node]))
    for node in range(count - 1, -1, -1):
        if ends[node] and loose[node]:
            lowest = min(rows[after] for after in ends[node]) - 1
            free = (row for row in range(lowest, rows[node], -1) if taken.get(row, 0) < most)
            row = next(free, rows[node])
            taken[rows[node]] -= 1
            taken[row] = taken.get(row, 0) + 1
            rows[node] = row
    used = {row: place for place, row in enumerate(sorted(set(rows)))}
    return [used[row] for row in rows]


def _path(spots: list[Spot], lane: list[Spot], end: int) -> list[Spot]:
    """The spots from the start of a lane down to a node; the arrows of a node share its lane."""
    last = spots[end]
    while lane[-1].row < last.row - 1:
        spot = Spot(lane[-1].row + 1, _LANE)
        _connect(lane[-1], spot)
        lane.append(spot)
    way = [spot for spot in lane if spot.row < last.row]
    _connect(way[-1], last)
    return [*way, last]


def _connect(upper: Spot, lower: Spot) -> None:
    upper.below.append(lower)
    lower.above.append(upper)


def _grid(spots: Sequence[Spot]) -> list[list[Spot]]:
    grid: list[list[Spot]] = [[] for _ in range(1 + max((s.row for s in spots), default=-1))]
    for spot in spots:
        grid[spot.row].append(spot)
    for row in grid:
        _side_by_side(row)
    return grid


def _order(grid: list[list[Spot]], from_above: bool) -> None:
    """Sort each row by the mean position of its nodes' neighbours."""
    for row in grid if from_above else grid[::-1]:
        row.sort(key=lambda spot: _wanted(spot, from_above))
        _side_by_side(row)


def _wanted(spot: Spot, from_above: bool) -> float:
    near = (spot.above if from_above else spot.below) or spot.above or spot.below
    return sum(other.x for other in near) / len(near) if near else spot.x


def _side_by_side(row: list[Spot]) -> None:
    """Place a row without gaps, centred at x = 0."""
    x = -sum(spot.width + _GAP for spot in row) / 2
    for spot in row:
        spot.x = x + (spot.width + _GAP) / 2
        x += spot.width + _GAP


def _settle(row: list[Spot], from_above: bool) -> None:
    """Move each node of a row to its preferred position, without overlaps.

    Nodes that would overlap form a block, which is placed at the mean of their preferences.
    """
    blocks: list[tuple[float, int, float]] = []  # preferred left side, number of nodes, width
    for spot in row:
        wanted, count, width = _wanted(spot, from_above) - spot.width / 2, 1, spot.width + _GAP
        while blocks and blocks[-1][0] + blocks[-1][2] > wanted:
            left, before, reach = blocks.pop()
            wanted = (left * before + (wanted - reach) * count) / (before + count)
            count, width = before + count, reach + width
        blocks.append((wanted, count, width))
    members = iter(row)
    for left, count, _ in blocks:
        for _ in range(count):
            spot = next(members)
            spot.x = left + spot.width / 2
            left += spot.width + _GAP
