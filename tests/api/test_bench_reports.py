"""Reports of a benchmark run, in a terminal and as a page."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from tapegrad_bench import report_terminal
from tapegrad_bench.adapters import CONTENDERS
from tapegrad_bench.headline import headline
from tapegrad_bench.report_html import page, write_page
from tapegrad_bench.report_terminal import write_report
from tapegrad_bench.results import HANDWRITTEN, Run, Size, Status, save
from tapegrad_bench.rows import rows_of
from tapegrad_bench.tables import best_table, machine_table
from tests.bench_runs import make_cell, make_full_run, make_run


@pytest.fixture
def run() -> Run:
    return make_full_run()


# The terminal.


def report_of(run: Run) -> str:
    stream = io.StringIO()
    write_report(run, stream)
    return stream.getvalue()


def test_the_plain_report_has_times_ratios_and_reasons(run):
    shown = report_of(run)

    assert "\x1b" not in shown
    assert "Time on cpu" in shown
    assert "0.500x" in shown  # hand-written NumPy over tapegrad eager
    assert "2.50 MB" in shown
    for cell in run.cells:
        assert cell.reason in shown


def test_the_report_has_the_limit_of_each_row_beside_its_times():
    # 24 MB at 20 GB/s take 1.2 ms, 8 M operations at 40 G/s take 0.2 ms.
    cell = make_cell(time=6e-3, bytes_needed=24 * 10**6, flops_needed=8 * 10**6)
    lines = report_of(make_run(cell)).splitlines()

    start = lines.index("Limit on cpu")

    assert lines[start + 3].split()[-6:] == ["22.9", "MiB", "8.00M", "1.20", "ms", "5.00x"]


def test_the_best_mode_of_each_library_is_named():
    failed = {"status": Status.FAILED, "times": (), "reason": "out of memory"}
    cells = [
        make_cell(time=4e-3),
        make_cell(mode="function", time=2e-3),
        make_cell("torch", "eager", 5e-3),
        make_cell("torch", "graph", 1e-3),
        make_cell("torch", "max-autotune", **failed),
        make_cell("jax", "jit", 3e-3),
        make_cell("numpy", "handwritten", 6e-3),
        make_cell("tensorflow", "eager", **failed),
    ]

    table = best_table(rows_of(make_run(*cells)), "cpu")

    (line,) = table.rows
    assert dict(zip(table.columns, [entry.text for entry in line])) == {
        "workload": "elementwise",
        "size": "2^20, float32",
        "tapegrad": "2.00 ms, function",
        "hand-written": "6.00 ms, 3.00x",
        "torch": "1.00 ms, graph, 0.500x",
        "jax": "3.00 ms, jit, 1.50x",
        "tensorflow": "-",
    }


def test_every_contender_has_a_colour():
    style = files("tapegrad_bench").joinpath("page.css").read_text()
    colours = dict(
        re.findall(r'\*="c-([a-z-]+)"\]\[data-c\] \{ --c: var\(--([a-z-]+)\); \}', style)
    )

    for contender in CONTENDERS:
        name = f"{contender.library}-{contender.mode}"
        rules = [slug for slug in colours if name.startswith(slug)]
        assert rules or contender.mode == HANDWRITTEN, name
        for slug in rules:
            assert style.count(f"--{colours[slug]}: #") == 2, slug  # in light and in dark


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_the_same_figures_in_colour(run):
    stream = Terminal()
    write_report(run, stream)

    assert "Time on cpu" in stream.getvalue()
    assert "─" in stream.getvalue()
    assert "0.500x" in stream.getvalue()


def test_a_narrow_terminal_gets_all_columns_in_parts(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    names = ["torch", "jax", "tensorflow", "autograd", "mxnet", "theano", "chainer", "dynet"]
    failed = {"status": Status.FAILED, "times": (), "reason": "at " + "/very/long" * 9}
    stream = Terminal()

    write_report(make_run(*map(make_cell, names), make_cell(**failed)), stream)

    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in stream.getvalue().splitlines()]
    assert max(map(len, lines)) <= 60
    assert [name for name in names if not any(f"{name} " in line for line in lines)] == []


def test_a_terminal_without_rich_gets_text(run, monkeypatch):
    monkeypatch.setattr(report_terminal.importlib.util, "find_spec", lambda name: None)
    stream = Terminal()
    write_report(run, stream)

    assert stream.getvalue() == report_of(run)


def test_the_headline_compares_like_with_like(run):
    facts = {(fact.name, fact.value): fact.note for fact in headline(run, "cpu")}

    assert facts == {
        ("eager on cpu", "2.00x faster"): (
            "than the fastest eager peer, geometric mean; median ratio 2.00x; "
            "ahead in 1 of 1 workloads"
        ),
        ("function on cpu", "2.00x faster"): (
            "than the fastest compiled peer, geometric mean; median ratio 2.00x; "
            "ahead in 1 of 1 workloads"
        ),
        ("eager on cpu", "2.00x slower"): (
            "than a step written by hand, geometric mean; median ratio 0.500x; "
            "ahead in 0 of 1 workloads"
        ),
    }


# The page.


class Page(HTMLParser):
    """Checks that every element is closed in order, and keeps texts and attributes."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.counts: dict[str, int] = {}
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_is_well_formed_and_has_every_cell(run):
    parsed = Page(page(run))

    shown = set(parsed.texts)
    hints = {value for name, value in parsed.attributes if name == "title"}
    for cell in run.cells:
        assert {cell.workload, cell.size.label, cell.contender, cell.status.value} <= shown
        assert not cell.reason or cell.reason in hints & shown
    assert parsed.texts.count("elementwise") >= 12
    assert {"Some CPU, 2 cores", "1 on the CPU", "Some GPU", "3.12.1", "2.11"} <= shown


def test_the_page_has_every_chart(run):
    labels = {value for name, value in Page(page(run)).attributes if name == "aria-label"}

    assert {
        "elementwise: time by elements",
        "elementwise, 2^20, float32: ratio to each peer",
        "elementwise, 2^20, float32: peak memory",
        "Roofline on cpu, float32",
        "Roofline on cuda, float32",
        "Percent of the ceiling by workload",
    } <= labels


def test_the_page_needs_no_other_file(run):
    markup = page(run)

    names = {name for name, _ in Page(markup).attributes}
    assert not names & {"src", "href", "srcset", "xlink:href", "action"}
    assert not [word for word in ("http:", "https:", "@import", "url(") if word in markup]


@pytest.mark.parametrize(
    "cells",
    [
        (),
        (make_cell(),),
        (make_cell("torch", "eager"),),
        (make_cell(status=Status.FAILED, times=(), reason="ValueError: no"),),
        (make_cell(time=0.0),),
        (make_cell(bytes_needed=None, flops_needed=None, peak_host_bytes=None),),
    ],
    ids=["empty", "ours alone", "a peer alone", "failed", "no time at all", "nothing known"],
)
def test_a_run_with_little_in_it_still_gives_all_reports(cells, tmp_path):
    run = make_run(*cells, complete=False)

    write_page(run, tmp_path / "new" / "page.html")
    save(run, tmp_path / "run.json")

    assert "stopped before its end" in (tmp_path / "new" / "page.html").read_text("utf-8")
    assert "stopped before its end" in report_of(run)
    assert Page(page(run)).counts["h1"] == 1
    assert json.loads((tmp_path / "run.json").read_text("utf-8"))["complete"] is False


def test_a_compiled_peer_is_held_against_our_only_mode_where_there_is_one(run):
    only = make_run(make_cell(time=1e-3), make_cell("jax", "jit", 3e-3))

    assert "jax jit takes 3.00x the time of tapegrad eager on elementwise" in page(only)
    assert "torch compile takes 2.00x the time of tapegrad function on elementwise" in page(run)


@pytest.mark.parametrize("label", ["", "-", "beyond NumPy"])
def test_footprints_are_beyond_numpy_and_not_among_the_compared_steps(label):
    """Files from before the size was written measured the same."""
    footprint = {"workload": "import", "dtype": "-", "size": Size(label, 0)}
    steps = [make_cell(time=2e-3), make_cell("torch", "eager", 1e-3)]
    imports = [make_cell(time=0.01, **footprint), make_cell("torch", "eager", 1.0, **footprint)]
    found = make_run(*steps, *imports)

    assert [row.label for row in rows_of(found)][1] == "import, beyond NumPy"
    assert [row[0].text for row in best_table(rows_of(found), "cpu").rows] == ["elementwise"]
    (fact,) = headline(found, "cpu")
    assert (fact.value, "0 of 1 workloads" in fact.note) == ("2.00x slower", True)


@pytest.mark.parametrize(("device", "threads"), [("cpu", "1 on the CPU"), ("cuda", "not limited")])
def test_threads_are_limited_on_the_cpu_only(device, threads):
    found = make_run(make_cell(device=device))

    facts = {row[0].text: row[1].text for row in machine_table(found).rows}

    assert facts["threads per library"] == threads
