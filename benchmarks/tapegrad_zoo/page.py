"""The page of a record: charts of the ratios, sorted, and all tables in one HTML file."""

from __future__ import annotations

from html import escape
from pathlib import Path

from tapegrad_bench.charts import draw_ranking, draw_shares
from tapegrad_bench.report_html import card, document, draw_table, legend, section
from tapegrad_bench.svg import tag
from tapegrad_zoo.record import Half, Record
from tapegrad_zoo.report import BEST, OURS, programs_of, ratios_of, tables_of

PEERS = ("jax jit", BEST)


def write_page(record: Record, path: Path) -> None:
    """Write the page of a record to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(record), encoding="utf-8")


def page(record: Record) -> str:
    """Return the page of a record as one HTML document."""
    run = record.run
    where = run.machine.gpu or f"{run.machine.cpu}, {run.machine.cores} cores"
    words = f"{run.started[:10]} on {where}, revision {run.commit}. {record.remark}"
    return document(
        "tapegrad zoo",
        tag("header", tag("h1", "tapegrad zoo"), tag("p", escape(words))),
        legend([OURS, *PEERS]),
        _ratio_section(record),
        _limit_section(record),
        *[draw_table(table, 2) for table in tables_of(record)],
    )


def _ratio_section(record: Record) -> str:
    cards = []
    for half in Half:
        found = {row.workload: ratios_of(row) for row in programs_of(record, half)}
        chosen = {
            name: {peer: ratios[peer] for peer in PEERS if peer in ratios}
            for name, ratios in found.items()
        }
        chosen = {name: ratios for name, ratios in chosen.items() if ratios}
        if chosen:
            cards.append(card(f"{half} on {record.device}", draw_ranking(half.value, chosen)))
    note = (
        "How many times our time a peer takes, sorted: dots to the right of 1x mean that "
        "tapegrad.function is faster. The scale is logarithmic."
    )
    if not cards:
        note = "No program has been measured beside a peer."
    return section("Ratio to jax.jit and to the best of torch", note, cards, "cards large")


def _limit_section(record: Record) -> str:
    cards = []
    for half in Half:
        shares = {}
        for row in programs_of(record, half):
            cells = {name: row.cells[name] for name in (OURS, "jax jit") if name in row.cells}
            found = {name: record.run.percent_of_ceiling(cell) for name, cell in cells.items()}
            shares[row.workload] = {name: share for name, share in found.items() if share}
        shares = {name: found for name, found in shares.items() if found}
        if shares:
            cards.append(card(f"{half} on {record.device}", draw_shares(shares)))
    note = (
        "The least time that the device needs for the bytes and operations of a step, in percent "
        "of the time that the step takes. What fits into caches can exceed 100 %."
    )
    return section(
        "Distance to the limit", note if cards else "It is not known.", cards, "cards large"
    )
