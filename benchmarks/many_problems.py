"""Many small problems at once beside a loop over SciPy: fits, minima, roots and trajectories.

    python benchmarks/many_problems.py                               # 10,000 problems of each row
    python benchmarks/many_problems.py --rows fit rosenbrock --count 1000
    TAPEGRAD_DEVICE=cuda python benchmarks/many_problems.py --budget 55 --record FILE
    python benchmarks/many_problems.py --limit 10                    # fail below this ratio

SciPy solves the first `--sample` problems; its time is scaled to all of them. On the CPU, times are
those of the processor, on one thread for both; on a GPU they are those of the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as onp  # noqa: ICN001  # `np` is tapegrad's
import scipy
import scipy.integrate
import scipy.optimize

import tapegrad as tf
import tapegrad.numpy as np
from tapegrad.scipy import integrate, optimize
from tapegrad_bench.machine import describe_gpu, describe_machine
from tapegrad_bench.provenance import current_commit

Array = onp.ndarray
LONG = 5.0
"""After so many seconds a row is not repeated."""


@dataclass(frozen=True)
class Row:
    """One kind of problem: all of them by tapegrad, and one by SciPy."""

    name: str
    ours: Callable[[], Any]
    scipys: Callable[[int], Array]
    tolerance: float


@dataclass(frozen=True)
class Found:
    """Seconds for all problems, and the largest relative difference in the sample."""

    name: str
    count: int
    ours: float
    first: float
    scipy: float
    error: float
    agrees: bool

    @property
    def ratio(self) -> float:
        return self.scipy / self.ours


def fits(count: int) -> Iterator[Row]:
    """Yield fits of an exponential and of a peak to 50 points with noise."""
    rng, x = onp.random.default_rng(0), onp.linspace(0.0, 4.0, 50)
    truth = rng.uniform([1.0, 0.5, 0.0], [3.0, 2.0, 1.0], (count, 3)).T[:, :, None]
    noise = 0.05 * rng.normal(size=(count, 50))
    y = truth[0] * onp.exp(-truth[1] * x) + truth[2] + noise
    on_device = tf.constant(y)

    def decay(x: Any, a: Any, b: Any, c: Any, m: Any = np) -> Any:
        return a * m.exp(-b * x) + c

    def misfit(p: Any, y: Any, m: Any = np) -> Any:
        return decay(x, p[0], p[1], p[2], m) - y

    def hosted(x: Array, a: float, b: float, c: float) -> Array:
        return onp.asarray(decay(x, a, b, c, onp))

    start = [1.0, 1.0, 0.0]
    starts = tf.constant(onp.tile(start, (count, 1)))
    batched, plain = optimize.batched, scipy.optimize
    yield Row(
        "fit",
        lambda: batched.curve_fit(decay, x, on_device, p0=start)[0],
        lambda i: plain.curve_fit(hosted, x, y[i], p0=start)[0],
        1e-4,
    )
    yield Row(
        "least_squares",
        lambda: batched.least_squares(misfit, starts, [on_device]).x,
        lambda i: plain.least_squares(misfit, start, args=(y[i], onp)).x,
        1e-4,
    )

    def peak(x: Any, a: Any, middle: Any, width: Any, m: Any = np) -> Any:
        return a * m.exp(-((x - middle) ** 2) / (2.0 * width**2))

    def hosted_peak(x: Array, a: float, middle: float, width: float) -> Array:
        return onp.asarray(peak(x, a, middle, width, onp))

    wide = rng.uniform([1.0, 1.5, 0.4], [3.0, 2.5, 0.8], (count, 3)).T[:, :, None]
    peaks = wide[0] * onp.exp(-((x - wide[1]) ** 2) / (2.0 * wide[2] ** 2)) + noise
    at, bounds = tf.constant(peaks), ([0.0, 0.0, 0.1], [10.0, 4.0, 2.0])
    guess = [1.0, 2.0, 0.5]
    yield Row(
        "fit_within_bounds",
        lambda: batched.curve_fit(peak, x, at, p0=guess, bounds=bounds)[0],
        lambda i: plain.curve_fit(hosted_peak, x, peaks[i], p0=guess, bounds=bounds)[0],
        1e-4,
    )


def minima(count: int) -> Iterator[Row]:
    """Yield Rosenbrock's function in four variables by three methods, and a system of equations."""
    rng = onp.random.default_rng(1)
    weights, starts = rng.uniform(1.0, 20.0, count), rng.uniform(-1.0, 1.0, (count, 4))
    on_device, start = tf.constant(weights), tf.constant(starts)

    def valley(x: Any, a: Any, m: Any = np) -> Any:
        return m.sum(a * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    def slope(x: Array, a: float, m: Any) -> Array:
        rest, found = x[1:] - x[:-1] ** 2, onp.zeros_like(x)
        found[1:] += 2.0 * a * rest
        found[:-1] -= 4.0 * a * x[:-1] * rest + 2.0 * (1.0 - x[:-1])
        return found

    def bend(x: Array, a: float, m: Any) -> Array:
        diagonal = onp.zeros_like(x)
        diagonal[1:] += 2.0 * a
        diagonal[:-1] += 12.0 * a * x[:-1] ** 2 - 4.0 * a * x[1:] + 2.0
        beside = -4.0 * a * x[:-1]
        return onp.diag(diagonal) + onp.diag(beside, 1) + onp.diag(beside, -1)

    for method in ("BFGS", "L-BFGS-B", "Newton-CG"):
        exact: dict[str, Any] = {"jac": slope, "method": method}
        exact |= {"hess": bend} if method == "Newton-CG" else {}
        yield Row(
            f"rosenbrock_{method}",
            lambda method=method: optimize.batched.minimize(valley, start, [on_device], method).x,
            lambda i, exact=exact: (
                scipy.optimize.minimize(valley, starts[i], args=(weights[i], onp), **exact).x
            ),
            2e-2,
        )

    def system(x: Any, a: Any, m: Any = np) -> Any:
        bent = 0.5 * (x[0] - x[1]) ** 3
        return m.stack([x[0] + bent - a, x[1] - bent])

    zeros = tf.zeros([count, 2], "float64")
    yield Row(
        "root",
        lambda: optimize.batched.root(system, zeros, [on_device]).x,
        lambda i: scipy.optimize.root(system, [0.0, 0.0], args=(weights[i], onp)).x,
        1e-5,
    )


def trajectories(count: int) -> Iterator[Row]:
    """Yield predators and prey over ten units of time, and a stiff reaction."""
    rng = onp.random.default_rng(2)
    births, meetings = rng.uniform(0.8, 1.5, count), rng.uniform(0.5, 1.0, count)
    start, rates = tf.constant(onp.tile([2.0, 1.0], (count, 1))), rng.uniform(0.02, 0.08, count)
    args, rate = [tf.constant(births), tf.constant(meetings)], tf.constant(rates)

    def prey(t: Any, y: Any, a: Any, b: Any, m: Any = np) -> Any:
        met = b * y[0] * y[1]
        return m.stack([a * y[0] - met, met - y[1]])

    for method, rtol in (("RK45", 1e-6), ("DOP853", 1e-8)):
        limits: dict[str, Any] = {"method": method, "rtol": rtol, "atol": rtol * 1e-2}
        yield Row(
            f"prey_{method}",
            lambda o=limits: integrate.batched.solve_ivp(prey, (0, 10), start, args=args, **o).y,
            lambda i, o=limits: (
                scipy.integrate.solve_ivp(
                    prey,
                    (0, 10),
                    [2.0, 1.0],
                    args=(births[i], meetings[i], onp),
                    **o,
                    t_eval=(0, 10),
                ).y
            ),
            1e-4,
        )

    def reaction(t: Any, y: Any, k: Any, m: Any = np) -> Any:
        slow, back, fast = k * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return m.stack([back - slow, slow - back - fast, fast])

    first = tf.constant(onp.tile([1.0, 0.0, 0.0], (count, 1)))
    for method in ("Radau", "BDF"):
        stiff: dict[str, Any] = {"method": method, "rtol": 1e-5, "atol": 1e-8}
        yield Row(
            f"reaction_{method}",
            lambda o=stiff: (
                integrate.batched.solve_ivp(reaction, (0, 100), first, args=[rate], **o).y
            ),
            lambda i, o=stiff: (
                scipy.integrate.solve_ivp(
                    reaction, (0, 100), [1.0, 0.0, 0.0], args=(rates[i], onp), **o, t_eval=(0, 100)
                ).y
            ),
            1e-3,
        )


def all_rows(count: int) -> Iterator[Row]:
    """Yield all kinds of problems."""
    yield from fits(count)
    yield from minima(count)
    yield from trajectories(count)


def measured(row: Row, count: int, sample: int, repeats: int, clock: Callable[[], float]) -> Found:
    """Time a row on both sides and compare the sample."""

    def solve() -> Array:
        return onp.asarray(row.ours().numpy())

    start = clock()
    solve()
    first, times = clock() - start, []
    while not times or (len(times) < repeats and sum(times) < LONG):
        start = clock()
        answer = solve()
        times.append(clock() - start)
    start = clock()
    expected = [onp.asarray(row.scipys(i)) for i in range(sample)]
    scipys = (clock() - start) / sample * count
    errors = [abs(answer[i] - x).max() / abs(x).max() for i, x in enumerate(expected)]
    error = float(max(errors))
    return Found(row.name, count, min(times), first, scipys, error, error <= row.tolerance)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the rows; 1 if one disagrees with SciPy or is below the limit."""
    given = parser().parse_args(arguments)
    is_gpu = "cuda" in os.environ.get("TAPEGRAD_DEVICE", "").lower()
    clock = time.perf_counter if is_gpu else time.process_time
    begin, found, left_out = time.perf_counter(), [], []
    for row in all_rows(given.count):
        if given.rows and not any(row.name.startswith(name) for name in given.rows):
            continue
        if time.perf_counter() - begin > given.budget:
            left_out.append(row.name)
            continue
        found.append(measured(row, given.count, given.sample, given.repeats, clock))
        one = found[-1]
        words = f"{one.name:22} {one.ours * 1e3:9.1f} ms  SciPy {one.scipy:8.2f} s"
        words += f"  {one.ratio:7.1f}x  first {one.first:5.1f} s  difference {one.error:.0e}"
        print(words + ("" if one.agrees else "  DISAGREES"), flush=True)
    if left_out:
        print(f"The budget is spent. Left out: {', '.join(left_out)}")
    if given.record is not None:
        save(given.record, found, is_gpu)
    return 1 if any(not one.agrees or one.ratio < given.limit for one in found) else 0


def save(path: Path, found: Sequence[Found], is_gpu: bool) -> None:
    """Write the record that `ci/ecosystem_page.py` reads."""
    machine = asdict(describe_machine(1, describe_gpu() if is_gpu else None))
    record = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {name: value for name, value in machine.items() if value is not None},
        "versions": {"tapegrad": current_commit(), "scipy": scipy.__version__},
        "clock": "wall" if is_gpu else "processor",
        "rows": [asdict(one) for one in found],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python benchmarks/many_problems.py", description=__doc__)
    found.add_argument("--count", type=int, default=10_000, help="how many problems of each row")
    found.add_argument("--sample", type=int, default=30, help="how many of them SciPy solves")
    found.add_argument("--repeats", type=int, default=5)
    found.add_argument("--rows", nargs="*", default=[], help="the beginnings of names of rows")
    found.add_argument("--budget", type=float, default=3600.0, help="start no row after so long")
    found.add_argument("--limit", type=float, default=0.0, help="fail below this ratio")
    found.add_argument("--record", type=Path)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
