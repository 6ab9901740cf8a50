"""The page of a report: one HTML file with its style, its script and its data inside."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tapegrad.core.out_of_memory import readable

HERE = Path(__file__).parent

MOST_SHOWN = 15
"""How many rows of a table are not folded."""

KINDS = {
    "kernel": "operations",
    "program": "compiled functions",
    "record": "recording functions",
    "call": "functions that run eagerly",
    "sweep": "backward passes",
    "data": "waiting for data",
    "compile": "compiling in the background",
}


def page_of(summary: dict[str, Any]) -> str:
    """Return the page of a report."""
    sections = [
        *(_top(summary), _timeline(summary), _lines(summary), _programs(summary)),
        *(_memory(summary), _tapes(summary), _recordings(summary), _lost(summary)),
        *(_data(summary), _losses(summary), _about(summary)),
    ]
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    title = escape(f"Report of {summary['title']}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head><body><main>"
        f"<h1>{title}</h1>{''.join(sections)}</main>"
        f'<script type="application/json" id="report-data">{_json(summary)}</script>'
        f"<script>{script}</script></body></html>\n"
    )


def _json(summary: dict[str, Any]) -> str:
    """Return the data of the drawings; no text in it can end the element that holds it."""
    drawn = {name: summary[name] for name in ("timeline", "memory", "series", "title")}
    text = json.dumps(drawn, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def seconds(time: float) -> str:
    """Return a time in the unit that suits it.

    >>> seconds(0.0123), seconds(0), seconds(75)
    ('12.3 ms', '0 s', '75 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if time >= size:
            return f"{time / size:.3g} {unit}" if time < 1000 * size else f"{time:.0f} s"
    return f"{time * 1e9:.0f} ns" if time else "0 s"


def _section(name: str, title: str, text: str, *parts: str) -> str:
    return f'<section id="{name}"><h2>{title}</h2><p>{text}</p>{"".join(parts)}</section>'


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML; the end of a long one is folded."""
    found = list(rows)
    shown, rest = found[:MOST_SHOWN], found[MOST_SHOWN:]
    folded = ""
    if rest:
        folded = f"<details><summary>{len(rest)} more</summary>{_plain(header, rest)}</details>"
    return _plain(header, shown) + folded


def _plain(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, which scrolls by itself on a narrow screen."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _place(site: str, text: str = "") -> str:
    """Return a line of a file with its text; the whole path is its tooltip."""
    if not site:
        return "<i>in the background</i>"
    file, _, number = site.rpartition(":")
    short = f"{Path(file).name}:{number}" if number.isdigit() else site
    code = f"<code>{escape(text)}</code>" if text else ""
    return f'<span class="site" title="{escape(site)}">{escape(short)}</span> {code}'


def _bar(share: float) -> str:
    return f'<span class="bar"><i style="width:{100 * min(share, 1.0):.1f}%"></i></span>'


def _top(summary: dict[str, Any]) -> str:
    kinds, counts = summary["by_kind"], summary["counts"]
    tiles = [("whole run", seconds(summary["seconds"]), "")]
    for kind, name in KINDS.items():
        if kind in kinds:
            tiles.append((name, seconds(kinds[kind]), f"{counts[kind]:,} times"))
    if summary["memory"]["peak"]:
        tiles.append(("peak of arrays", readable(summary["memory"]["peak"]), "made by operations"))
    shown = "".join(
        f'<div class="tile"><span>{name}</span><b>{value}</b><small>{note}</small></div>'
        for name, value, note in tiles
    )
    failed = ""
    if summary["error"]:
        failed = f'<div class="error">The program ended with: {escape(summary["error"])}</div>'
    return f'{failed}<div class="tiles">{shown}</div>'


def _timeline(summary: dict[str, Any]) -> str:
    drawn, count = len(summary["timeline"]["events"]), summary["timeline"]["all"]
    if not count:
        return _section("timeline", "Timeline", "No operation of tapegrad ran.")
    left = f" The {drawn:,} longest of {count:,} events are drawn." if drawn < count else ""
    return _section(
        "timeline",
        "Timeline",
        "Each colour is a line of the program. Drag to move, use the wheel, two fingers or the "
        f"buttons to zoom, and point at an event for its line.{left}",
        '<div class="buttons"><button data-do="in">Zoom in</button>'
        '<button data-do="out">Zoom out</button><button data-do="left" title="Earlier">←</button>'
        '<button data-do="right" title="Later">→</button><button data-do="all">All</button>'
        '<button data-do="trace">Save Perfetto trace</button></div>'
        '<canvas id="chart-timeline" role="img" aria-label="Timeline"></canvas>'
        '<div id="detail" aria-live="polite">&nbsp;</div>',
    )


def _lines(summary: dict[str, Any]) -> str:
    total = summary["seconds"] or 1.0
    rows = [
        (
            _place(line["site"], line["text"]),
            f"{KINDS.get(line['kind'], line['kind'])}: {escape(line['name'])}",
            f"{line['calls']:,}",
            seconds(line["own"] / 1e9),
            seconds(line["before"] / 1e9),
            _bar((line["own"] + line["before"]) / 1e9 / total),
        )
        for line in summary["lines"]
    ]
    return _section(
        "lines",
        "Time by line",
        "Own time is that of the operation without others inside of it. The time before it is "
        "spent in Python since the operation before: in your code, and in tapegrad's.",
        _table(("line", "operation", "calls", "own time", "before it", "share"), rows),
    )


def _programs(summary: dict[str, Any]) -> str:
    if not summary["counts"].get("program"):
        return ""
    rows = [
        (
            _place(row["site"], row["text"]),
            escape(row["function"]),
            seconds(row["seconds"]),
            _bar(row["share"]),
        )
        for row in summary["in_programs"]
    ]
    text = (
        "A compiled function runs as a whole. The steps of its program were timed once, on copies "
        "of its arrays, and its time is divided in proportion. Lines of one fused loop share it."
    )
    if not rows:
        text = (
            "The steps of compiled functions have no times here: they are measured on the CPU, "
            "after the program is compiled."
        )
        return _section("programs", "Inside compiled functions", text)
    steps = [
        (
            escape(function["name"]),
            escape(step["name"]),
            escape(step["what"]),
            seconds(step["nanoseconds"] / 1e9),
            "<br>".join(map(_place, step["sites"])),
        )
        for function in summary["functions"]
        for program in function["programs"]
        for step in sorted(program["steps"], key=lambda step: -step["nanoseconds"])[:20]
    ]
    table = _table(("function", "step", "what it does", "one call", "lines"), steps)
    return _section(
        "programs",
        "Inside compiled functions",
        text,
        _table(("line", "function", "time", "share"), rows),
        f"<details><summary>The slowest steps of each program</summary>{table}</details>",
    )


def _memory(summary: dict[str, Any]) -> str:
    rows = [
        (_place(h["where"]), escape(h["what"]), f"{h['count']:,}", readable(h["bytes"]))
        for h in summary["held"]
    ]
    cut = " The curve ends where too many arrays were made." if summary["memory"]["is_cut"] else ""
    drawing = '<canvas id="chart-memory" role="img" aria-label="Memory over time"></canvas>'
    legend = '<div class="legend" id="legend-memory"></div>'
    return _section(
        "memory",
        "Memory",
        "Arrays that operations and functions made, by line, and the blocks that compiled programs "
        f"keep for their intermediate values.{cut}",
        drawing + legend if summary["memory"]["bands"] else "",
        f"<h3>At the end, on {escape(summary['device'])}</h3>",
        _table(("line or name", "what", "arrays", "size"), rows),
    )


def _tapes(summary: dict[str, Any]) -> str:
    if not summary["tapes"]:
        return ""
    parts = []
    for tape in summary["tapes"]:
        rows = [
            (_place(row["site"], row["text"]), f"{row['arrays']:,}", readable(row["bytes"]))
            for row in tape["rows"]
        ]
        head = f"{_place(tape['site'], tape['text'])}: {readable(tape['bytes'])}"
        parts.append(f"<h3>{head}</h3>{_table(('line', 'arrays', 'size'), rows)}")
    return _section(
        "tapes",
        "What the tapes held",
        "The arrays that were kept for the backward pass, by the line that made them, for the "
        "largest tape that each line swept. Compiled functions have no tapes.",
        *parts,
    )


def _recordings(summary: dict[str, Any]) -> str:
    if not summary["functions"]:
        return ""
    parts = []
    for function in summary["functions"]:
        rows = [
            (
                escape(note["reason"]),
                seconds(note["seconds"]),
                escape(note["state"]),
                "" if note["build_seconds"] is None else seconds(note["build_seconds"]),
                "" if note["calls"] is None else f"{note['calls']:,}",
                "" if note["steps"] is None else f"{note['steps']:,}",
            )
            for note in (*function["recordings"], *function["made"])
        ]
        header = ("because", "recorded in", "state", "built in", "operations", "steps")
        parts.append(f"<h3>{escape(function['name'])}</h3>")
        parts.append(_table(header, rows) if rows else "<p>It was not recorded.</p>")
        if function["eager"]:
            eager = [(f"{count:,}", escape(why)) for why, count in function["eager"].items()]
            parts.append(_table(("eager calls", "because"), eager))
    return _section(
        "recordings",
        "Why functions were recorded",
        "A function is recorded and compiled once for each kind of arguments.",
        *parts,
    )


def _lost(summary: dict[str, Any]) -> str:
    if not summary["lost"]:
        return ""
    rows = [
        (escape(row["source"]), escape(row["reason"]), _place(row["site"]), f"{row['count']:,}")
        for row in summary["lost"]
    ]
    header = ("source", "why its gradient is None", "line", "times")
    return _section("lost", "Gradients that are None", "", _table(header, rows))


def _data(summary: dict[str, Any]) -> str:
    if not summary["data"]:
        return ""
    total = summary["seconds"] or 1.0
    rows = [
        (
            _place(line["site"], line["text"]),
            f"{line['calls']:,}",
            seconds(line["own"] / 1e9),
            seconds(line["own"] / 1e9 / max(1, line["calls"])),
            _bar(line["own"] / 1e9 / total),
        )
        for line in summary["data"]
    ]
    return _section(
        "data",
        "Waiting for data",
        "The time until a dataset gave its next element. If the share is large, let "
        "<code>prefetch</code> or <code>map(num_parallel_calls=...)</code> work ahead.",
        _table(("line", "elements", "time", "each", "share of the run"), rows),
    )


def _losses(summary: dict[str, Any]) -> str:
    if not summary["series"]:
        return ""
    return _section(
        "losses",
        "Losses and metrics",
        "Scalars that were differentiated, returned by functions, or reported by <code>fit</code>.",
        '<div class="cards" id="charts-series"></div>',
    )


def _about(summary: dict[str, Any]) -> str:
    overhead = summary["overhead"]
    share = 100 * overhead["seconds"] / (summary["seconds"] or 1.0)
    device = ""
    if summary["device"].startswith("cuda"):
        device = " Operations on the GPU are queued, and these are the times of the host."
    return _section(
        "about",
        "About these figures",
        f"Python {summary['python']}, NumPy {summary['numpy']}, device {escape(summary['device'])}."
        f"{device} Noting one operation took {overhead['microseconds']:.1f} µs, measured after the "
        f"run, and {seconds(overhead['seconds'])} in all: {share:.0f}% of the run. The time of an "
        "operation does not include it, and the time before the next one does.",
    )
