"""Files that earlier revisions wrote load, and what was loaded goes on as it did there."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tapegrad import keras
from tests.compatibility.cases import EXPECTED, Case, Outcome, check, load_outcome, save_outcome
from tests.compatibility.loop_cache import put_old_entries_under_new_names, run_program
from tests.compatibility.write_files import MODULES

DATA = Path(__file__).parent / "data"
LARGEST = 300_000
CASES: dict[str, Case] = {
    name: case
    for module in MODULES
    for name, case in importlib.import_module(f"tests.compatibility.{module}").CASES.items()
}
WRITTEN = [f"{path.parent.parent.name}/{path.parent.name}" for path in DATA.glob(f"*/*/{EXPECTED}")]


@pytest.fixture(autouse=True)
def float32() -> Iterator[None]:
    """Leave the global dtype policy and the global random generator as other tests expect them."""
    yield
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(0)


@pytest.fixture
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of old files: readers may continue them or delete them."""
    folder = tmp_path / "old"
    shutil.copytree(DATA / request.param, folder)
    return folder


@pytest.mark.parametrize(("copied", "name"), [(p, p.split("/")[1]) for p in sorted(WRITTEN)],
                         indirect=["copied"], ids=sorted(WRITTEN))  # fmt: skip
def test_old_files_load(copied: Path, name: str) -> None:
    expected = load_outcome(copied)

    found = CASES[name].read(copied)

    # Programs round fewer of the values in between to half precision than they did.
    roundings = {"mixed_bfloat16": 2.0**-7, "mixed_float16": 2.0**-10}
    check(found, expected, max([roundings[one] for one in roundings if one in name], default=0.0))


def test_every_case_has_files_and_all_files_have_a_case() -> None:
    assert {path.split("/")[1] for path in WRITTEN} == set(CASES)


@pytest.mark.parametrize("copied", ["8db3a38/loop-cache"], indirect=True)
def test_an_old_library_under_the_key_of_a_new_one_changes_no_result(
    copied: Path, tmp_path: Path
) -> None:
    cache = copied / "cache"
    put_old_entries_under_new_names(cache, tmp_path / "scratch")

    found = run_program(cache)

    check(found, load_outcome(copied))


def test_the_files_are_small() -> None:
    size = sum(path.stat().st_size for path in DATA.glob("8db3a38/**/*") if path.is_file())

    assert size < LARGEST


# The comparison itself


def compared(expected: Outcome, found: Outcome, folder: Path) -> None:
    save_outcome(expected, folder)
    check(found, load_outcome(folder))


def test_a_value_that_is_off_by_more_than_rounding_is_noticed(tmp_path: Path) -> None:
    array = np.linspace(0.5, 4.0, 20, dtype="float32")
    off = array.copy()
    off[3] += 4.0 * 2.0**-23 * 100

    compared(Outcome({}, {"y": [array]}), Outcome({}, {"y": [array * (1 + 2.0**-20)]}), tmp_path)
    with pytest.raises(AssertionError, match=r"y\[0\]"):
        compared(Outcome({}, {"y": [array]}), Outcome({}, {"y": [off]}), tmp_path)


@pytest.mark.parametrize(
    "found",
    [
        {"w": np.arange(20.0) + 1e-15},
        {"w": np.arange(20.0).astype("float32")},
        {"w": np.arange(20.0).reshape(4, 5)},
        {"w": np.arange(20.0), "b": 1},
        {},
    ],
    ids=["one bit", "dtype", "shape", "one more", "none"],
)
def test_a_stored_array_is_compared_exactly(found: dict[str, object], tmp_path: Path) -> None:
    compared(Outcome({"w": np.arange(20.0)}), Outcome({"w": np.arange(20.0)}), tmp_path)
    with pytest.raises(AssertionError):
        compared(Outcome({"w": np.arange(20.0)}), Outcome(found), tmp_path)
