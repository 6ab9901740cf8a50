"""One page with everything that a run found; it needs no other file and no network."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path

from tapegrad_bench.charts import draw_memory, draw_ratios, draw_shares, draw_sizes, ratios_of, slug
from tapegrad_bench.headline import Fact, count_cells, headline
from tapegrad_bench.results import Run
from tapegrad_bench.roofline import draw_roofline, find_spots
from tapegrad_bench.rows import contenders_of, devices_of, is_ours, standard_rows
from tapegrad_bench.scaling import Fixed, Series, crossovers_of, find_series
from tapegrad_bench.svg import decades_around, tag
from tapegrad_bench.tables import Entry, Table, detail_table, machine_table, summary_tables


def write_page(run: Run, path: Path) -> None:
    """Write the page of `run` to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(run), encoding="utf-8")


def page(run: Run) -> str:
    """Return the page of `run` as one HTML document."""
    return document(
        "tapegrad benchmark",
        _header(run),
        legend(contenders_of(run.cells)),
        _size_section(run),
        *[_ratio_section(run, device) for device in devices_of(run)],
        _roofline_section(run),
        *[_memory_section(run, device) for device in devices_of(run)],
        *[draw_table(table, 2) for table in (*summary_tables(run), machine_table(run))],
        tag("details", tag("summary", "Every cell"), draw_table(detail_table(run), 0)),
    )


def document(title: str, *parts: str) -> str:
    """Return a page with its style and script inside."""
    resources = files("tapegrad_bench")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", escape(title)),
        tag("style", resources.joinpath("page.css").read_text(encoding="utf-8")),
    )
    body = tag(
        "body",
        *parts,
        '<div id="tip" role="status" hidden></div>',
        tag("script", resources.joinpath("page.js").read_text(encoding="utf-8")),
    )
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


def _header(run: Run) -> str:
    machine = run.machine
    place = f"{machine.cpu}, {machine.cores} cores" + (f"; {machine.gpu}" if machine.gpu else "")
    started = datetime.fromisoformat(run.started)
    state = "" if run.complete else " The run was stopped before its end."
    tiles = [_tile(fact) for device in devices_of(run) for fact in headline(run, device)]
    return tag(
        "header",
        tag("h1", "tapegrad benchmark"),
        tag("p", escape(f"{started:%Y-%m-%d %H:%M} {started.tzname() or ''} on {place}.{state}")),
        tag("div", *tiles, _tile(count_cells(run)), class_="tiles"),
    )


def _tile(fact: Fact) -> str:
    name = tag("span", escape(fact.name))
    return tag(
        "div", name, tag("b", escape(fact.value)), tag("small", escape(fact.note)), class_="tile"
    )


def legend(contenders: Sequence[str]) -> str:
    """Return the buttons that show and hide contenders."""
    buttons = [
        tag(
            "button",
            escape(name),
            type="button",
            class_=f"c-{slug(name)}",
            data_c=slug(name),
            aria_pressed="true",
        )
        for name in contenders
    ]
    return tag("nav", *buttons, class_="legend", aria_label="Show or hide a library")


def section(title: str, note: str, cards: Sequence[str], kind: str = "cards") -> str:
    """Return a part of the page with a heading, a sentence and cards."""
    inside = tag("div", *cards, class_=kind) if cards else ""
    return tag("section", tag("h2", escape(title)), tag("p", escape(note)), inside)


def card(title: str, drawing: str, *notes: str) -> str:
    """Return a drawing under a title."""
    written = [tag("p", escape(note)) for note in notes]
    heading = tag("h3", escape(title))
    return tag("div", heading, drawing, *written, class_="card")


def _size_section(run: Run) -> str:
    groups: dict[tuple[str, str, str, Fixed], list[Series]] = {}
    for one in find_series(run):
        groups.setdefault((one.workload, one.dtype, one.axis, one.fixed), []).append(one)
    cards = []
    for (workload, dtype, axis, _), series in groups.items():
        crossovers = [c for c in crossovers_of(series) if is_ours(c.contender)]
        notes = [f"{crossover.contender}: {crossover.sentence}." for crossover in crossovers]
        cards.append(card(f"{workload} {dtype}, {axis}", draw_sizes(series, crossovers), *notes))
    note = (
        "Median time of one step; both axes are logarithmic. Solid lines with rings: CPU. Dashed "
        "lines with squares: GPU. A dotted upright line marks where our GPU overtakes our CPU."
    )
    if not cards:
        note = "No workload was measured at more than one size in this run."
    return section("Time by size", note, cards, "cards large")


def _ratio_section(run: Run, device: str) -> str:
    pairs = [(row, ratios_of(row)) for row in standard_rows(run, device)]
    pairs = [(row, ratios) for row, ratios in pairs if ratios]
    values = [ratio for _, ratios in pairs for ratio in ratios.values()]
    cards = []
    if values:
        limits = decades_around([0.9, 1.1, *values], 1.1)
        cards = [card(row.label, draw_ratios(row, ratios, limits)) for row, ratios in pairs]
    note = (
        "How many times our time the peer takes: bars to the right of 1x mean that tapegrad is "
        "faster. Eager peers and hand-written steps against tapegrad eager, compiled ones "
        "against tapegrad.function. One logarithmic scale for all."
    )
    if not cards:
        note = "No peer was measured beside tapegrad in this run."
    return section(f"Ratio to each peer on {device}", note, cards)


def _roofline_section(run: Run) -> str:
    cards = []
    for device in devices_of(run):
        shares = _shares(run, device)
        if shares:
            cards.append(card(f"{device}, percent of the ceiling", draw_shares(shares)))
    for ceiling in run.ceilings:
        rows = [row for row in standard_rows(run, ceiling.device) if row.dtype == ceiling.dtype]
        spots = find_spots(rows)
        if ceiling.copy_tb_per_s and ceiling.matmul_tflop_per_s and spots:
            drawn = draw_roofline(ceiling, spots)
            cards.append(card(f"{ceiling.device}, {ceiling.dtype}", drawn))
    note = (
        "What each step achieved of the bytes and operations it needs at least, against the "
        "ceilings measured in this run: a plain copy, a large matrix product. Larger dots are ours."
    )
    if not cards:
        note = "No ceiling was measured for what ran."
    return section("Roofline", note, cards, "cards large")


def _shares(run: Run, device: str) -> dict[str, dict[str, float]]:
    """Return {workload: {contender: percent of the ceiling}}."""
    known: dict[str, dict[str, float]] = {}
    for row in standard_rows(run, device):
        shares = {name: run.percent_of_ceiling(cell) for name, cell in row.cells.items()}
        known[f"{row.workload} {row.dtype}"] = {n: share for n, share in shares.items() if share}
    return {label: shares for label, shares in known.items() if shares}


def _memory_section(run: Run, device: str) -> str:
    name = "peak_host_bytes" if device == "cpu" else "peak_device_bytes"
    cards = []
    for row in standard_rows(run, device):
        found = {c: getattr(cell, name) for c, cell in row.cells.items() if cell.median is not None}
        peaks = {contender: peak for contender, peak in found.items() if peak}
        if peaks:
            cards.append(card(row.label, draw_memory(row, peaks)))
    where = "host" if device == "cpu" else "device"
    note = f"Most {where} memory held during a step."
    return section(f"Memory on {device}", note if cards else "It was not measured.", cards)


def draw_table(table: Table, level: int) -> str:
    """Return a table under a heading of a level; level 0 leaves the heading out."""
    kinds = ["name" if place < table.names else "number" for place in range(len(table.columns))]
    heads = [tag("th", escape(name), class_=kind) for name, kind in zip(table.columns, kinds)]
    rows = [
        tag("tr", *[_entry(entry, kind) for entry, kind in zip(row, kinds)]) for row in table.rows
    ]
    head = tag("thead", tag("tr", *heads)) if any(table.columns) else ""
    drawn = tag("div", tag("table", head, tag("tbody", *rows)), class_="scroll")
    if not level:
        return drawn
    note = tag("p", escape(table.note)) if table.note else ""
    return tag("section", tag(f"h{level}", escape(table.title)), note, drawn)


def _entry(entry: Entry, kind: str) -> str:
    is_long = "long" if len(entry.text) > 48 else ""
    classes = " ".join(word for word in (kind, entry.tone, is_long) if word)
    attributes = {"title": entry.hint} if entry.hint else {}
    if classes:
        attributes["class_"] = classes
    return tag("td", escape(entry.text), **attributes)
