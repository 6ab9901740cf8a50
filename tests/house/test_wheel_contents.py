"""The rules that ci/wheel.sh applies to a wheel; the wheel itself is built only there."""

from __future__ import annotations

import runpy

from tests.house.sources import ROOT

problems = runpy.run_path(str(ROOT / "ci" / "wheel_contents.py"))["problems"]
GOOD = [
    "keras_tapegrad/__init__.py",
    "keras_tapegrad/py.typed",
    "keras_tapegrad.pth",
    "tapegrad/__init__.py",
    "tapegrad/py.typed",
    "tapegrad/debug/reports/page.css",
    "tapegrad/debug/reports/page.js",
    "tapegrad/demo/digits.npz",
    "tapegrad/demo/DIGITS.md",
    "tapegrad_bench/__init__.py",
    "tapegrad_bench/page.css",
    "tapegrad_bench/page.js",
    "tapegrad_bench/py.typed",
    "tapegrad_cupy/__init__.py",
    "tapegrad_cupy/py.typed",
    "tapegrad_numpy/__init__.py",
    "tapegrad_numpy/py.typed",
    "tapegrad-2026.11.0.dist-info/METADATA",
]


def test_a_wheel_with_the_expected_names_has_no_problems():
    assert problems(GOOD) == []


def test_a_stray_top_level_name_is_named():
    assert problems([*GOOD, "backends/__init__.py"]) == [
        "'backends' lies at the top level and should not."
    ]


def test_missing_packages_data_and_metadata_are_named():
    without = [name for name in GOOD if not name.startswith(("tapegrad_numpy", "tapegrad-"))]

    assert problems(without) == [
        "One .dist-info folder is expected, not 0.",
        "The data file 'tapegrad_numpy/py.typed' is missing.",
        "The package 'tapegrad_numpy' is missing.",
    ]
