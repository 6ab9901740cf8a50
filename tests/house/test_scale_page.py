"""docs/scale.md is generated; its model of costs agrees with recorded runs and closed forms."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from tests.house.scripts import imported


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return imported("ci/scale_page.py")


@pytest.fixture(scope="module")
def model() -> Any:
    return imported("ci/scale_model.py")


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0


def test_the_sizes_are_those_of_gpt2(model: Any) -> None:
    assert model.MODELS[0].weights == 124_439_808
    assert [round(one.weights / 1e9, 2) for one in model.MODELS] == [
        0.12, 0.35, 0.77, 1.56, 6.65, 12.85,
    ]  # fmt: skip


def test_memory_and_bytes_of_runs_are_as_predicted(script: ModuleType, model: Any) -> None:
    for run in json.loads(script.RECORD.read_text(encoding="utf-8"))["runs"]:
        kernel = run["width"] ** 2
        weights = run["layers"] * (kernel + run["width"])
        own = run["mode"], weights
        memory = model.state_bytes(*own, kernel, run["size"], bucket=4 * kernel)
        assert run["peak"] == pytest.approx(memory, rel=0.06), run["mode"]
        expected = sum(model.sent(*own, run["size"]).values())
        # The first layer of a sharded model gathers its weights once.
        assert sum(n for _, n in run.get("calls", ())) == pytest.approx(expected, rel=0.03)


def test_sums_on_two_nodes_take_as_long_as_their_stages(model: Any) -> None:
    cluster = model.Cluster(4, model.Link(1.0, 100.0), model.Link(10.0, 10.0), 1.0, 1.0, 1.0)

    # 800 bytes on 8 processes: within a node 600 bytes, then 100 of 200 bytes to the other node.
    assert cluster.summed(800.0, 8) == 2 * ((2.0 + 600 / 100) + (10.0 + 100 / 10))
    assert cluster.summed(800.0, 1) == 0.0


def test_more_processes_need_less_memory_where_it_is_divided(model: Any) -> None:
    for mode in ("states", "weights"):
        found = [model.state_bytes(mode, 1e9, 1e6, count) for count in (2, 8, 64, 4096)]
        assert found == sorted(found, reverse=True)
        assert found[-1] < {"states": 8.1e9, "weights": 0.02e9}[mode]
