"""The tables of a report, as text with a tone: terminal, page and README draw the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapegrad_bench.quantities import (
    format_bytes,
    format_count,
    format_digits,
    format_percent,
    format_rate,
    format_ratio,
    format_value,
)
from tapegrad_bench.results import Cell, Run, Status
from tapegrad_bench.rows import (
    OURS,
    Row,
    contenders_of,
    devices_of,
    is_ours,
    rows_of,
    standard_rows,
)
from tapegrad_bench.scaling import Series, crossovers_of, find_series


@dataclass(frozen=True)
class Entry:
    """One text in a table."""

    text: str
    tone: str = ""
    """"good", "bad", "muted", "strong" or nothing."""
    hint: str = ""
    """What a page shows on hovering."""


NOTHING = Entry("-", "muted")
"""For what was not measured."""


@dataclass(frozen=True)
class Table:
    """A title, a sentence on how to read it, and rows."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    names: int = 1
    """How many columns from the left hold names; those after them hold figures."""


def time_table(rows: Sequence[Row], device: str) -> Table:
    """Return the medians: rows by workload, columns by contender."""
    names = contenders_of(cell for row in rows for cell in row.cells.values())
    lines = []
    for row in rows:
        times = [time for name in names if (time := row.time(name)) is not None]
        best = min(times, default=None)
        entries = [time_entry(row.cells.get(name), best) for name in names]
        lines.append((Entry(row.workload), Entry(row.extent), *entries))
    note = "Median of one whole step. The fastest of each row stands out."
    return Table(f"Time on {device}", note, ("workload", "size", *names), tuple(lines), names=2)


def time_entry(cell: Cell | None, best: float | None = None) -> Entry:
    """Return a median, or how the cell ended; `best` stands out."""
    if cell is None:
        return NOTHING
    if cell.median is None or cell.spread is None:
        tone = "bad" if cell.status in (Status.WRONG, Status.FAILED) else "muted"
        return Entry(cell.status.value, tone, cell.reason)
    text = format_value(cell.median, cell.unit)
    spread = format_value(cell.spread, cell.unit)
    hint = f"{len(cell.times)} repeats, spread (interquartile) {spread}"
    return Entry(text, "strong" if cell.median == best else "", hint)


def ratio_table(rows: Sequence[Row], device: str) -> Table:
    """Return how many times our time each peer takes, for each of our modes."""
    names = contenders_of(cell for row in rows for cell in row.cells.values())
    ours = [name for name in names if is_ours(name)]
    peers = [name for name in names if not is_ours(name)]
    lines = []
    for row in rows:
        for mode in ours:
            ratios = [row.ratio(peer, mode) for peer in peers]
            if any([ratio is not None for ratio in ratios]):
                entries = [ratio_entry(ratio) for ratio in ratios]
                names_of_row = (Entry(row.workload), Entry(row.extent), Entry(mode))
                lines.append((*names_of_row, *entries))
    note = "The peer's time over ours: above 1x we are faster, below 1x the peer is."
    columns = ("workload", "size", "ours", *peers)
    return Table(f"Ratio to each peer on {device}", note, columns, tuple(lines), names=3)


def best_table(rows: Sequence[Row], device: str) -> Table:
    """Return each library's fastest mode by name, and the ratio of its time to ours."""
    timed = [row for row in rows if row.is_computed]  # what is not computed has no modes
    names = contenders_of(cell for row in timed for cell in row.cells.values())
    peers = list(dict.fromkeys(_maker(name) for name in names if not is_ours(name)))
    lines = []
    for row in timed:
        ours = row.best(OURS)
        if ours is not None:
            entries = [_best_entry(row, row.best(peer), ours) for peer in peers]
            first = Entry(row.workload), Entry(row.extent), _best_entry(row, ours, ours)
            lines.append((*first, *entries))
    note = (
        "The fastest mode of each library, named, and its time over that of our fastest mode: "
        "above 1x we are faster. A mode that did not run, or was wrong, is not among them; "
        "'Absent, wrong or failed' says why."
    )
    columns = ("workload", "size", OURS, *peers)
    return Table(f"Best mode of each library on {device}", note, columns, tuple(lines), names=2)


def _maker(contender: str) -> str:
    return contender.split(" ")[0]


def _best_entry(row: Row, best: str | None, ours: str) -> Entry:
    cell = row.cells[best] if best else None
    if cell is None or cell.median is None:
        return NOTHING
    mode = "" if cell.contender == _maker(cell.contender) else f", {cell.mode}"
    text = f"{format_value(cell.median, cell.unit)}{mode}"
    ratio = None if best == ours else row.ratio(cell.contender, ours)
    if ratio is None:
        return Entry(text)
    return Entry(f"{text}, {format_ratio(ratio)}", ratio_entry(ratio).tone)


def ratio_entry(ratio: float | None) -> Entry:
    """Return a ratio of times, green when we are faster."""
    if ratio is None:
        return NOTHING
    tone = "good" if ratio > 1.02 else "bad" if ratio < 0.98 else ""
    return Entry(format_ratio(ratio), tone)


def limit_table(run: Run, rows: Sequence[Row], device: str) -> Table:
    """Return what each step needs at least, and how far each contender is from that."""
    names = contenders_of(cell for row in rows for cell in row.cells.values())
    lines = [
        (Entry(row.workload), Entry(row.extent), *limit_entries(run, row, names))
        for row in rows
        if any(run.floor(cell) for cell in row.cells.values())
    ]
    note = (
        "The limit is the time in which the device could move the bytes or make the operations "
        "that the step needs at least, at the rates in 'Ceilings'. Below the names: how many times "
        "the limit a step takes. What fits into caches can take less than 1x."
    )
    columns = ("workload", "size", "bytes needed", "operations needed", "limit", *names)
    return Table(f"Limit on {device}", note, columns, tuple(lines), names=2)


def limit_entries(run: Run, row: Row, contenders: Sequence[str]) -> tuple[Entry, ...]:
    """Return needed bytes, needed operations, the limit, and its multiple by each contender."""
    cell = next(iter(row.cells.values()))
    floor = run.floor(cell)
    found = [row.cells.get(name) for name in contenders]
    multiples = [run.times_the_floor(cell) if cell else None for cell in found]
    return (
        bytes_entry(cell.bytes_needed),
        Entry(format_count(cell.flops_needed)) if cell.flops_needed else NOTHING,
        _value_entry(floor, "s"),
        *[NOTHING if multiple is None else Entry(format_ratio(multiple)) for multiple in multiples],
    )


def scaling_table(series: Sequence[Series]) -> Table:
    """Return slopes by series and, where two devices were measured, the crossover."""
    crossovers = {
        (c.workload, c.dtype, c.contender, c.axis, c.fixed): c.sentence
        for c in crossovers_of(series)
    }
    lines = []
    for one in series:
        low, high = one.points[0][0], one.points[-1][0]
        key = (one.workload, one.dtype, one.contender, one.axis, one.fixed)
        lines.append(
            (
                Entry(f"{one.workload} {one.dtype}"),
                Entry(one.contender),
                Entry(one.device),
                Entry(f"{one.axis} {format_count(low)} to {format_count(high)}"),
                NOTHING if one.device == "cpu" else Entry(crossovers.get(key, "-")),
                Entry(f"{one.fit.slope:.2f}"),
                Entry(f"{one.large_fit.slope:.2f}"),
            )
        )
    note = (
        "Time grows as size to the power of the slope: 0 is fixed cost only, 1 is linear. "
        "'Slope at large sizes' is over the larger half of the sizes."
    )
    words = ("workload", "contender", "device", "sizes", "against the CPU")
    columns = (*words, "slope", "slope at large sizes")
    return Table("Scaling", note, columns, tuple(lines), names=5)


def problem_table(run: Run) -> Table:
    """Return what did not run or was wrong, one line per reason."""
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for cell in run.cells:
        if cell.status is not Status.OK:
            key = (cell.contender, cell.device, cell.status.value, cell.reason)
            grouped.setdefault(key, []).append(cell.workload)
    lines = []
    for (contender, device, status, reason), workloads in grouped.items():
        tone = "bad" if status in ("wrong", "failed") else "muted"
        names = ", ".join(dict.fromkeys(workloads))
        texts = (Entry(contender), Entry(device), Entry(status, tone), Entry(reason), Entry(names))
        lines.append(texts)
    columns = ("contender", "device", "status", "reason", "workloads")
    return Table(
        "Absent, wrong or failed", "Why a cell has no time.", columns, tuple(lines), names=5
    )


def ceiling_table(run: Run) -> Table:
    """Return the measured ceilings."""
    lines = [
        (
            Entry(ceiling.device),
            Entry(ceiling.dtype),
            rate_entry(ceiling.copy_tb_per_s, "B/s"),
            rate_entry(ceiling.matmul_tflop_per_s, "FLOP/s"),
        )
        for ceiling in run.ceilings
    ]
    note = "What a plain copy and a large matrix product reached in this run."
    columns = ("device", "dtype", "copy", "matrix product")
    return Table("Ceilings", note, columns, tuple(lines), names=2)


def _threads(run: Run) -> str:
    """Say how many threads were allowed: only contenders on the CPU are limited."""
    on_cpu = any(cell.device == "cpu" for cell in run.cells)
    return f"{run.machine.threads} on the CPU" if on_cpu else "not limited"


def machine_table(run: Run, complete: str = "") -> Table:
    """Return machine, driver and library versions; `complete` says more than yes or no."""
    machine = run.machine
    complete = complete or ("yes" if run.complete else "no: it was stopped before its end")
    facts = [
        ("started", run.started),
        ("revision", run.commit),
        ("digest of the sources", run.digest[:12] or "not recorded"),
        ("complete", complete),
        ("CPU", f"{machine.cpu}, {machine.cores} cores"),
        ("threads per library", _threads(run)),
        ("GPU", machine.gpu or "none"),
        ("driver", machine.driver or "-"),
        ("CUDA", machine.cuda or "-"),
        ("system", machine.os),
        *sorted(run.versions.items()),
    ]
    lines = tuple((Entry(name), Entry(value)) for name, value in facts)
    return Table("Machine and versions", "", ("", ""), lines, names=2)


def detail_table(run: Run) -> Table:
    """Return every cell with everything that was measured."""
    columns = (
        *("workload", "size", "dtype", "device", "contender", "status", "median", "spread"),
        *("repeats", "warm-up", "compile", "host peak", "device peak", "launches", "transfers"),
        *("needed bytes", "needed operations", "of ceiling", "error"),
    )
    lines = tuple(_detail(run, cell) for cell in run.cells)
    return Table("Every cell", "All that was measured.", columns, lines, names=6)


def _detail(run: Run, cell: Cell) -> tuple[Entry, ...]:
    names = (cell.workload, cell.size.label, cell.dtype, cell.device, cell.contender)
    good = cell.status is Status.OK
    status = Entry(cell.status.value, "" if good else "muted", cell.reason)
    percent = run.percent_of_ceiling(cell)
    return (
        *map(Entry, names),
        status,
        _value_entry(cell.median, cell.unit),
        _value_entry(cell.spread, cell.unit),
        Entry(str(len(cell.times))),
        Entry(str(cell.warmup)),
        _value_entry(cell.compile_seconds, "s"),
        bytes_entry(cell.peak_host_bytes),
        bytes_entry(cell.peak_device_bytes),
        number_entry(cell.launches),
        number_entry(cell.transfers),
        rate_entry(cell.tb_per_s, "B/s"),
        rate_entry(cell.tflop_per_s, "FLOP/s"),
        NOTHING if percent is None else Entry(format_percent(percent)),
        NOTHING if cell.loss_error is None else Entry(f"{cell.loss_error:.1e}"),
    )


def _value_entry(value: float | None, unit: str) -> Entry:
    return NOTHING if value is None else Entry(format_value(value, unit))


def bytes_entry(count: int | None) -> Entry:
    """Return a number of bytes or a dash."""
    return NOTHING if count is None else Entry(format_bytes(count))


def rate_entry(tera: float | None, unit: str) -> Entry:
    """Return a rate or a dash."""
    return NOTHING if tera is None else Entry(format_rate(tera, unit))


def number_entry(value: float | None) -> Entry:
    """Return a number or a dash; whole numbers without a point."""
    if value is None:
        return NOTHING
    return Entry(str(int(value)) if value == int(value) else format_digits(value))


def summary_tables(run: Run) -> list[Table]:
    """Return the tables of a whole report; empty ones are left out."""
    return _tables(run, rows_of, find_series(run))


def short_tables(run: Run) -> list[Table]:
    """Return the standard sizes, and how our own cost grows: enough for a README."""
    ours = [one for one in find_series(run) if is_ours(one.contender)]
    return _tables(run, standard_rows, ours)


def _tables(
    run: Run, rows_on: Callable[[Run, str], list[Row]], series: Sequence[Series]
) -> list[Table]:
    tables: list[Table] = []
    for device in devices_of(run):
        rows = rows_on(run, device)
        tables += [time_table(rows, device), best_table(rows, device), ratio_table(rows, device)]
        tables.append(limit_table(run, rows, device))
    tables += [scaling_table(series), ceiling_table(run), problem_table(run)]
    return [table for table in tables if table.rows]
