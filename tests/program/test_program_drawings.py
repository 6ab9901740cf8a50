"""Drawings of programs: boxes for steps, arrows for values, no overlaps."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.inspect.graph_layout import laid_out
from tests.program.inspected_programs import mlp_step, program_of, use_loops, variable
from tests.program.reference_loops import Reference

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _loops(monkeypatch: pytest.MonkeyPatch) -> None:
    use_loops(monkeypatch, Reference())


def test_the_drawing_is_xml_with_a_box_for_each_step() -> None:
    program = mlp_step()

    root = ET.fromstring(program.draw())

    boxes = [g for g in root.iter(f"{SVG}g") if "step" in g.get("class", "").split()]
    assert [box.get("id") for box in boxes] == [f"step{k}" for k in range(len(program.steps))]
    kinds = [box.get("class", "").split()[1] for box in boxes]
    assert kinds.count("product") == 5
    assert kinds.count("loop") == 4
    assert "keep(%15:float32[3, 7], %17:bool[3, 7])" in (boxes[6].findtext(f"{SVG}title") or "")


def test_a_box_names_its_calls_its_results_its_cost_and_its_variables() -> None:
    root = ET.fromstring(mlp_step().draw())

    texts = {
        box.get("id"): [text.text for text in box.findall(f"{SVG}text")]
        for box in root.iter(f"{SVG}g")
    }
    assert texts["input0"] == ["input float32[3, 5]"]
    # 2 * 3 * 5 * 7 operations; 15 + 35 + 21 numbers of 4 bytes are moved.
    assert texts["step0"] == ["matmul", "float32[3, 7]", "210 FLOP, 284 bytes", "reads variable 1"]
    assert texts["step3"][0] == "subtract, square, mean, 2 m…"
    assert texts["step6"][:2] == ["keep, sum", "float32[3, 7] +1"]
    # One loop moves 35 + 7 + 14 numbers: weights and gradients are read, weights are written.
    assert texts["step8"] == [
        "3 x multiply, subtract",
        "float32[5, 7] +2",
        "112 FLOP, 672 bytes",
        "changes variables 1-3",
    ]
    assert texts["output0"] == ["output float32[]"]


def test_texts_fit_into_boxes_and_boxes_into_the_page() -> None:
    root = ET.fromstring(mlp_step().draw())
    page = numbers(root, "width", "height")
    corners = []
    for box in [g for g in root.iter(f"{SVG}g") if g.get("id")]:
        rect = box.find(f"{SVG}rect")
        assert rect is not None
        x, y, width, height = numbers(rect, "x", "y", "width", "height")
        corners.append((x, y, x + width, y + height))
        for text in box.findall(f"{SVG}text"):
            left, base = numbers(text, "x", "y")
            # A character of a monospaced font is 0.6 times as wide as it is high.
            assert x + 4 < left < left + 0.6 * 12 * len(text.text or "") < x + width - 4
            assert y + 12 <= base <= y + height - 4

    for x1, y1, x2, y2 in corners:
        assert 0 <= x1 <= x2 <= page[0]
        assert 0 <= y1 <= y2 <= page[1]
    for one, other in combinations(corners, 2):
        is_apart_across = one[2] < other[0] or other[2] < one[0]
        is_apart_down = one[3] < other[1] or other[3] < one[1]
        assert is_apart_across or is_apart_down


def numbers(element: ET.Element, *names: str) -> list[float]:
    return [float(element.get(name, "nan")) for name in names]


def test_texts_with_signs_that_xml_knows_are_escaped() -> None:
    w = variable(3, name="a<b&c")

    text = program_of(lambda x: tf.sort(x * w), tf.ones([3])).draw()

    ET.fromstring(text)


def test_the_drawing_is_written_where_it_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "program.svg"

    text = mlp_step().draw(path)

    assert path.read_text("utf-8") == text


def test_the_dot_text_has_an_edge_for_each_pair_of_steps() -> None:
    lines = mlp_step().dot().split("\n")

    edges = {tuple(line.split(" [")[0].split(" -> ")) for line in lines if "->" in line}
    assert {(a.strip(), b) for a, b in edges} == {
        ("input0", "step0"), ("step0", "step1"), ("step1", "step2"), ("input1", "step3"),
        ("step2", "step3"), ("step3", "step4"), ("step1", "step5"), ("step3", "step5"),
        ("step1", "step6"), ("step4", "step6"), ("input0", "step7"), ("step6", "step7"),
        ("step7", "step8"), ("step6", "step8"), ("step5", "step8"), ("step3", "output0"),
    }  # fmt: skip


def test_boxes_do_not_overlap_and_arrows_point_down() -> None:
    rng = np.random.default_rng(3)
    widths = rng.uniform(20, 200, 60).tolist()
    pairs = {tuple(sorted(rng.choice(60, 2, replace=False).tolist())) for _ in range(90)}

    layout = laid_out(widths, sorted(pairs), most_in_a_row=5)

    for a, b in pairs:
        path = layout.paths[a, b]
        assert [spot.row for spot in path] == list(range(path[0].row, path[-1].row + 1))
        assert path[0] is layout.spots[a]
        assert path[-1] is layout.spots[b]
        assert len(path) >= 2
    every = {id(s): s for path in layout.paths.values() for s in path}
    every |= {id(spot): spot for spot in layout.spots}
    for row in range(layout.rows):
        spots = sorted((s for s in every.values() if s.row == row), key=lambda s: s.x)
        assert sum(spot in layout.spots for spot in spots) <= 5
        for left, right in pairwise(spots):
            assert left.x + left.width / 2 < right.x - right.width / 2
        assert spots[0].x - spots[0].width / 2 >= -1e-9
        assert spots[-1].x + spots[-1].width / 2 <= layout.width + 1e-9
