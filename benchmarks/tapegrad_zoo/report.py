"""What a record of the zoo says, as tables: ratios, means, worst rows, limits and spellings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean, median

from tapegrad_bench.quantities import format_ratio, format_time
from tapegrad_bench.results import Cell
from tapegrad_bench.rows import Row, is_ours, rows_of
from tapegrad_bench.tables import (
    NOTHING,
    Entry,
    Table,
    bytes_entry,
    ceiling_table,
    limit_entries,
    machine_table,
    problem_table,
    ratio_entry,
    time_entry,
)
from tapegrad_zoo.contenders import MODES
from tapegrad_zoo.record import Half, Place, Record

OURS = "tapegrad function"
BEST = "torch best"
"""The fastest mode of torch, whichever it is in a row."""
COMPILED = "torch best, compiled"
"""The same, only of the rows in which torch ran in a compiled mode."""
WORST = 10


def ratios_of(row: Row) -> dict[str, float]:
    """Return how many times our time each peer takes, and the best of torch, where both ran."""
    peers = [name for name in row.cells if not is_ours(name)]
    found = {peer: row.ratio(peer, OURS) for peer in peers}
    known = {peer: ratio for peer, ratio in found.items() if ratio is not None}
    torch = [ratio for peer, ratio in known.items() if peer.startswith("torch ")]
    return {**known, BEST: min(torch)} if torch else known


def means_of(row: Row) -> dict[str, float]:
    """Return the ratios of a row that enter means, by peer."""
    ratios = ratios_of(row)
    is_compiled = any(f"torch {mode}" in ratios for mode in ("compile", "graph"))
    return {**ratios, COMPILED: ratios[BEST]} if is_compiled else ratios


def has_all_modes(row: Row, peer: str) -> bool:
    """Say whether all modes of a peer's library that took part in a row have a time."""
    library = peer.split()[0]
    return all(row.time(name) is not None for name in row.cells if name.split()[0] == library)


def programs_of(record: Record, half: Half) -> list[Row]:
    """Return the rows of a half without spellings, the slowest in relation to a peer first."""
    rows = [row for row, place in _placed(record) if place.half is half and not place.spelling]
    return sorted(rows, key=lambda row: (_worst(row)[0], row.workload))


def _placed(record: Record) -> list[tuple[Row, Place]]:
    return [(row, record.places[row.workload]) for row in rows_of(record.run)]


def _worst(row: Row) -> tuple[float, str]:
    """Return our ratio to the fastest peer, and its name."""
    ratios = {peer: ratio for peer, ratio in ratios_of(row).items() if peer != BEST}
    return min(((ratio, peer) for peer, ratio in ratios.items()), default=(math.inf, ""))


def tables_of(record: Record) -> list[Table]:
    """Return all tables of a record; empty ones are left out."""
    machine = machine_table(record.run, record.completeness)
    tables = [machine, mean_table(record), worst_table(record)]
    for half in Half:
        rows = programs_of(record, half)
        tables += [speed_table(record, half, rows), cost_table(record, half, rows)]
    tables += [spelling_table(record), ceiling_table(record.run), problem_table(record.run)]
    return [table for table in tables if table.rows]


def peers_of(record: Record) -> list[str]:
    """Return the peers that have a time in some row, in the order of the modes."""
    modes = MODES[record.device]
    names = [f"{library} {mode}" for library in modes for mode in modes[library]]
    timed = {cell.contender for cell in record.run.cells if cell.median is not None}
    return [name for name in names if name in timed and not is_ours(name)]


def speed_table(record: Record, half: Half, rows: Sequence[Row]) -> Table:
    """Return our times and the ratio to each peer."""
    peers = peers_of(record)
    lines = []
    for row in rows:
        ratios = ratios_of(row)
        times = [time_entry(row.cells.get(name)) for name in (OURS, "tapegrad eager")]
        entries = [ratio_entry(ratios.get(peer)) for peer in (*peers, BEST)]
        lines.append((_name(row), *times, *entries))
    note = (
        "The median of one step, and how many times that of tapegrad.function each peer takes: "
        "above 1x we are faster. The slowest in relation to a peer come first."
    )
    columns = ("program", "function", "eager", *peers, BEST)
    return Table(f"Programs of the {half} on {record.device}", note, columns, tuple(lines))


def _name(row: Row) -> Entry:
    return Entry(row.workload, hint=row.extent)


def cost_table(record: Record, half: Half, rows: Sequence[Row]) -> Table:
    """Return first calls, peaks of memory, and the distance to the limit of the device."""
    compiled = [name for name in (OURS, "jax jit", "torch compile") if _is_timed(record, name)]
    lines = []
    for row in rows:
        firsts = [_first_call(row.cells.get(name)) for name in compiled]
        peaks = [_peak(row.cells.get(name)) for name in compiled]
        lines.append((_name(row), *firsts, *peaks, *limit_entries(record.run, row, [OURS])))
    columns = (
        "program",
        *[f"first call, {name}" for name in compiled],
        *[f"peak memory, {name}" for name in compiled],
        *("bytes needed", "operations needed", "limit", "function of the limit"),
    )
    note = (
        "The limit is the time in which the device could move the bytes or make the operations "
        "that the step needs at least, and 'of the limit' how many times that it takes."
    )
    title = f"First calls, memory and limits of the {half} on {record.device}"
    return Table(title, note, columns, tuple(lines))


def _is_timed(record: Record, contender: str) -> bool:
    return any(c.contender == contender and c.median is not None for c in record.run.cells)


def _first_call(cell: Cell | None) -> Entry:
    seconds = cell.compile_seconds if cell else None
    return NOTHING if seconds is None else Entry(format_time(seconds))


def _peak(cell: Cell | None) -> Entry:
    if cell is None:
        return NOTHING
    return bytes_entry(cell.peak_host_bytes if cell.device == "cpu" else cell.peak_device_bytes)


def mean_table(record: Record) -> Table:
    """Return mean and median of the ratios to each peer, both halves apart."""
    lines = []
    for half in Half:
        rows = programs_of(record, half)
        for peer in (*peers_of(record), BEST, COMPILED):
            compared = [row for row in rows if peer in means_of(row)]
            if not compared:
                continue
            found, whole = [means_of(row)[peer] for row in compared], len(compared)
            averages = (ratio_entry(geometric_mean(found)), ratio_entry(median(found)))
            counts = (
                f"{sum(ratio >= 1 for ratio in found)} of {whole}",
                f"{sum(has_all_modes(row, peer) for row in compared)} of {whole}",
                f"{whole} of {len(rows)}",
            )
            lines.append((Entry(half.value), Entry(peer), *averages, *map(Entry, counts)))
    note = (
        "The peer's time over that of tapegrad.function, without spellings. A few extreme ratios "
        f"decide a mean, not a median. '{BEST}' is the fastest mode that ran, which is eager mode "
        f"where nothing else did; '{COMPILED}' leaves such rows out. 'All modes ran' counts the "
        "rows in which each mode of that library that took part has a time."
    )
    columns = (
        *("half", "peer", "geometric mean", "median", "ahead in", "all modes ran"),
        "programs compared",
    )
    return Table(f"Means on {record.device}", note, columns, tuple(lines), names=2)


def worst_table(record: Record) -> Table:
    """Return the rows in which we are slowest in relation to the fastest peer."""
    known = [(_worst(row), row) for half in Half for row in programs_of(record, half)]
    known = [(found, row) for found, row in known if found[1]]
    known.sort(key=lambda pair: pair[0])
    lines = [
        (_name(row), Entry(record.places[row.workload].half.value), Entry(peer), ratio_entry(ratio))
        for (ratio, peer), row in known[:WORST]
    ]
    columns = ("program", "half", "fastest peer", "ratio")
    title = f"The worst {len(lines)} rows on {record.device}"
    return Table(title, "Against the fastest peer of the row.", columns, tuple(lines), names=3)


def spelling_table(record: Record) -> Table:
    """Return for each named function its slowest spelling against its fastest."""
    groups: dict[str, dict[str, Row]] = {}
    for row, place in _placed(record):
        if place.spelling:
            groups.setdefault(place.file, {})[place.spelling] = row
    found = {name: _timed(rows, OURS) for name, rows in groups.items()}
    lines = []
    for name in sorted(groups, key=lambda name: -_gap(found[name])):
        if len(found[name]) < 2:
            continue
        fastest, *_, slowest = found[name]
        jax = _gap(_timed(groups[name], "jax jit"))
        lines.append(
            (
                Entry(name),
                Entry(f"{fastest[0]}, {format_time(fastest[1])}"),
                Entry(f"{slowest[0]}, {format_time(slowest[1])}"),
                Entry(str(len(found[name]))),
                Entry(format_ratio(_gap(found[name]))),
                Entry(format_ratio(jax)) if jax else NOTHING,
            )
        )
    columns = ("function", "fastest", "slowest", "spellings", "slowest / fastest", "in jax jit")
    note = (
        "The same mathematics in other words, by tapegrad.function; 1x means that words are free."
    )
    return Table(f"Spellings on {record.device}", note, columns, tuple(lines), names=3)


def _timed(rows: Mapping[str, Row], contender: str) -> list[tuple[str, float]]:
    """Return the spellings that ran with their times, the fastest first."""
    times = {spelling: row.time(contender) for spelling, row in rows.items()}
    known = [(spelling, time) for spelling, time in times.items() if time is not None]
    return sorted(known, key=lambda pair: pair[1])


def _gap(times: Iterable[tuple[str, float]]) -> float:
    """Return the slowest time over the fastest, 0 of nothing."""
    values = [time for _, time in times]
    return max(values) / min(values) if values else 0.0
