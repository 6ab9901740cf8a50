"""How cost grows with size, and from which size on a GPU pays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, isclose, log

from tapegrad.errors import ArgumentError
from tapegrad_bench.quantities import format_count
from tapegrad_bench.results import Run, Size

Point = tuple[float, float]
"""A size and its median time."""


Fixed = tuple[str | float | None, ...]
"""What the sizes of a series have in common."""


@dataclass(frozen=True)
class Fit:
    """time = scale * size ** slope, the least squares line through the logarithms."""

    slope: float
    scale: float

    def at(self, size: float) -> float:
        """Return the fitted time at `size`."""
        return self.scale * exp(self.slope * log(size))


@dataclass(frozen=True)
class Series:
    """One contender on one device, over the sizes that differ along one axis only."""

    workload: str
    dtype: str
    contender: str
    axis: str
    device: str
    fixed: Fixed
    """The sizes along the other axes."""
    points: tuple[Point, ...]
    """Smallest size first."""

    @property
    def fit(self) -> Fit:
        """Return the fit over all sizes."""
        return fit_power_law(self.points)

    @property
    def large_fit(self) -> Fit:
        """Return the fit over the larger half of the sizes, where fixed costs no longer hide it."""
        return fit_power_law(self.points[-max(2, (len(self.points) + 1) // 2) :])


@dataclass(frozen=True)
class Crossover:
    """From which size on a GPU is faster than the CPU, for one contender."""

    workload: str
    dtype: str
    contender: str
    axis: str
    fixed: Fixed
    smallest: float
    largest: float
    """The sizes that were measured on both devices lie between these two."""
    size: float | None
    """None: the GPU is not ahead at the largest size. `smallest`: it is ahead everywhere."""

    @property
    def sentence(self) -> str:
        """Say it in words."""
        if self.size is None:
            return f"the CPU is faster up to {self._say(self.largest)}"
        if self.size <= self.smallest:
            least = self._say(self.smallest)
            return f"the GPU is faster at every size measured, {least} and more"
        return f"the GPU is faster from about {self._say(self.size)} on"

    def _say(self, size: float) -> str:
        count = format_count(size)
        return f"{count} elements" if self.axis == "elements" else f"{self.axis} {count}"


def fit_power_law(points: Sequence[Point]) -> Fit:
    """Return the power law that fits `points` best.

    >>> fit = fit_power_law([(10, 2.0), (100, 20.0), (1000, 200.0)])
    >>> round(fit.slope, 6), round(fit.scale, 6)
    (1.0, 0.2)
    """
    logs = [(log(size), log(time)) for size, time in points if size > 0 and time > 0]
    if len({size for size, _ in logs}) < 2:
        raise ArgumentError(
            "A power law needs times above zero at two different sizes or more. "
            f"Got {len(logs)} usable of {len(points)} points."
        )
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in logs)
    slope = covariance / sum((x - mean_x) ** 2 for x, _ in logs)
    return Fit(slope, exp(mean_y - slope * mean_x))


def find_series(run: Run) -> list[Series]:
    """Return every series of two or more sizes in `run`, in the order of its cells.

    Sizes that lie on no axis, because everything grows at once, are one series by elements.
    """
    groups: dict[tuple[str, str, str, str], dict[Size, float]] = {}
    for cell in run.cells:
        if cell.unit == "s" and cell.median:
            key = (cell.workload, cell.dtype, cell.contender, cell.device)
            groups.setdefault(key, {})[cell.size] = cell.median
    return [
        Series(workload, dtype, contender, axis, device, fixed, points)
        for (workload, dtype, contender, device), times in groups.items()
        for axis, fixed, points in _split(times)
    ]


def _split(times: Mapping[Size, float]) -> Iterator[tuple[str, Fixed, tuple[Point, ...]]]:
    lines: dict[tuple[str, Fixed], list[Size]] = {}
    for size in times:
        for axis, fixed in _lines_through(size):
            lines.setdefault((axis, fixed), []).append(size)
    left = set(times)
    for (axis, fixed), sizes in lines.items():
        points = {float(getattr(size, axis)): times[size] for size in sizes}
        if len(points) > 1:
            left.difference_update(sizes)
            yield axis, fixed, tuple(sorted(points.items()))
    points = {float(size.elements): times[size] for size in left if size.elements}
    if len(points) > 1:
        yield "elements", (), tuple(sorted(points.items()))


def _lines_through(size: Size) -> Iterator[tuple[str, Fixed]]:
    """Yield each axis along which `size` may lie, with what all sizes on it have in common."""
    if size.elements:
        yield "elements", ("batch", size.batch, "depth", size.depth)
    if size.batch:
        yield "batch", ("elements per example", size.elements / size.batch, "depth", size.depth)
    if size.depth:
        # A deeper network reads the same data; a longer sequence reads more of it.
        yield "depth", ("elements", size.elements, "batch", size.batch)
        yield "depth", ("elements per step", size.elements / size.depth, "batch", size.batch)


def find_crossovers(run: Run) -> list[Crossover]:
    """Return one crossover for each contender that was measured on both kinds of device."""
    return crossovers_of(find_series(run))


def crossovers_of(series: Sequence[Series]) -> list[Crossover]:
    """Pair the CPU's and the GPU's series and say where the second overtakes the first."""
    found = []
    on_gpu = [one for one in series if one.device != "cpu"]
    for cpu in (one for one in series if one.device == "cpu"):
        for gpu in on_gpu:
            if _same_question(cpu, gpu):
                crossover = _cross(cpu, gpu)
                if crossover is not None:
                    found.append(crossover)
    return found


def _same_question(a: Series, b: Series) -> bool:
    names = ("workload", "dtype", "contender", "axis", "fixed")
    return all(getattr(a, name) == getattr(b, name) for name in names)


def _cross(cpu: Series, gpu: Series) -> Crossover | None:
    smallest = max(cpu.points[0][0], gpu.points[0][0])
    largest = min(cpu.points[-1][0], gpu.points[-1][0])
    if smallest > largest:
        return None
    sizes = sorted({size for size, _ in (*cpu.points, *gpu.points) if smallest <= size <= largest})
    leads = [log(_interpolate(cpu.points, n)) - log(_interpolate(gpu.points, n)) for n in sizes]
    return Crossover(
        cpu.workload,
        cpu.dtype,
        cpu.contender,
        cpu.axis,
        cpu.fixed,
        smallest,
        largest,
        _last_zero(sizes, leads),
    )


def _last_zero(sizes: Sequence[float], leads: Sequence[float]) -> float | None:
    """Return the size from which on `leads` stays above zero."""
    if leads[-1] <= 0:
        return None
    for place in range(len(sizes) - 1, 0, -1):
        low, high = leads[place - 1], leads[place]
        if low <= 0:
            share = -low / (high - low)
            return exp(log(sizes[place - 1]) * (1 - share) + log(sizes[place]) * share)
    return sizes[0]


def _interpolate(points: Sequence[Point], size: float) -> float:
    """Return the time at `size` on the straight lines between `points` in log-log."""
    for (left, low), (right, high) in pairwise(points):
        if left <= size <= right or isclose(size, right):
            share = (log(size) - log(left)) / (log(right) - log(left))
            return exp(log(low) * (1 - share) + log(high) * share)
    raise ArgumentError(f"{size} lies outside of the sizes {points[0][0]} to {points[-1][0]}.")
