"""Some hundred steps of the soak, and whether it notices what it looks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tapegrad as tf
from tests.seeds import LONG, SEED
from tests.soak.measures import Measures, growth, measured, traced_growth
from tests.soak.run import Soak
from tests.soak.trainer import Trainer


@pytest.mark.usefixtures("quick_compiler")
def test_a_short_soak_repeats_its_results(tmp_path: Path) -> None:
    soak = Soak(SEED, tmp_path, length=40)

    # Too short to measure growth of memory, which needs the caches to be full.
    for first in range(0, 4800 if LONG else 160, soak.length):
        soak.one_segment(first)
        soak.measures.append(measured())

    assert not soak.faults
    assert soak.counts["exceptions"] > 0
    assert soak.counts["dropped references"] > 0
    assert soak.counts["segments repeated"] > 0
    assert soak.measures[-1].files <= soak.measures[0].files
    assert soak.measures[-1].threads <= soak.measures[0].threads


def test_a_result_that_does_not_repeat_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    soak = Soak(3, tmp_path, length=2)
    real = Trainer.loaded

    def changed(name: str, seed: int) -> Trainer:
        trainer = real(name, seed)
        trainer.mean.assign_add(tf.ones_like(trainer.mean))
        return trainer

    monkeypatch.setattr(Trainer, "loaded", changed)
    soak.one_segment(2)

    assert soak.faults == [
        "steps from 2 on gave other weights the second time",
        "the checkpoint after step 4 lost something",
    ]


def measures(**changes: Any) -> Measures:
    return Measures(**{"resident": 1000, "blocks": 100, "files": 5, "threads": 2, **changes})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resident": 1011}, "resident grew from 1,000 to 1,011"),
        ({"blocks": 102}, "blocks grew from 100 to 102"),
        ({"files": 6}, "the number of files grew from 5 to 6"),
        ({"threads": 3}, "the number of threads grew from 2 to 3"),
    ],
)
def test_growth_is_named(change: dict[str, int], message: str) -> None:
    early, late = [measures(resident=1)] * 3 + [measures()] * 3, [measures(**change)] * 3

    assert growth(early + late, most=0.01) == [message]
    assert growth(early + [measures(resident=1010, blocks=101)] * 3, most=0.01) == []


def test_growth_of_traced_memory_is_named() -> None:
    found = traced_growth([500_000, 510_000, 500_000, 700_000, 9])

    assert found == ["traced memory grew from 500,000 to 700,000 bytes"]
