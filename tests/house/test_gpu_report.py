"""The record of GPU runs: what counts as verified, what is stale, and what must run again.

The scripts run on a made-up tree that needs no GPU.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.sources import ROOT

MODULES = ("evidence", "run_tests", "gpu_parts", "gpu_report")
PASSING = "def test_one():\n    pass\n"
FAILING = "def test_one():\n    assert False\n"
TREE = {
    "library/__init__.py": "",
    "library/late.py": "",
    "library/popped.py": "",
    "library/unused.py": "",
    "examples/train.py": "import library\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = []\n[tool.ruff]\nline-length = 100\n",
    "tests/conftest.py": "",
    "tests/first/data.json": "{}",
    "tests/first/shared.py": "",
    "tests/first/test_a.py": """
import json, subprocess, sys
from pathlib import Path
from tests.first import shared

def test_one():
    json.loads((Path(__file__).parent / "data.json").read_text())

def test_two():
    subprocess.run([sys.executable, "examples/train.py"], check=True)
""",
    "tests/first/test_b.py": """
import sys

def test_one():
    import library.late

def test_two():
    import library.popped
    del sys.modules["library.popped"]
""",
    "tests/second/test_c.py": PASSING,
}


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    put(tmp_path, TREE)
    # Plugins that are installed beside pytest make each of these runs take twice as long.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("TAPEGRAD_COMMIT", "abc123")
    return tmp_path


@pytest.fixture
def report(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script, about that tree."""
    monkeypatch.syspath_prepend(str(ROOT / "ci"))
    *_, parts, script = [importlib.import_module(name) for name in MODULES]
    two = {
        "first": parts.Part(("tests/first",), {"TAPEGRAD_DEVICE": "cuda"}),
        "second": parts.Part(("tests/second/test_c.py",), {}),
    }
    for module in (parts, script):
        monkeypatch.setattr(module, "ROOT", tree)
        monkeypatch.setattr(module, "PARTS", two)
        monkeypatch.setattr(module, "ON_THE_HOST", ())
    monkeypatch.setattr(script, "REPORT", tree / "report.json")
    monkeypatch.setattr(script, "LOGS", tree / ".cache" / "logs")
    monkeypatch.setattr(script, "versions", lambda: {"cupy": "14.2", "python": "3.12"})
    yield script
    for name in MODULES:
        sys.modules.pop(name, None)


_REPORTS: list[str] = []


@pytest.fixture
def proven(report: ModuleType) -> ModuleType:
    """The script, after a run of all: paths in a report are relative, so one run is enough."""
    if not _REPORTS:
        assert report.main(["--run"]) == 0
        _REPORTS.append(report.REPORT.read_text())
    report.REPORT.write_text(_REPORTS[0])
    return report


def rest(script: ModuleType) -> list[str]:
    """Return the names of the files that have to run."""
    reasons = script.unproven(script.load(), script.jobs(script.ROOT), script.versions())
    return [Path(file).name for file in reasons]


def test_what_passed_is_not_run_again(report, capsys):
    assert rest(report) == ["test_a.py", "test_b.py", "test_c.py"]

    assert report.main(["--run"]) == 0

    assert rest(report) == []
    assert report.main(["--check"]) == 0
    assert "first: 2 of 2 files are proven on a GPU, 4 tests\n" in capsys.readouterr().out
    assert report.main(["--rest"]) == 0
    assert "0 files in" in capsys.readouterr().out


def test_an_entry_says_what_ran_when_on_what_and_where_its_log_is(report, tree):
    report.main(["--run"])

    plain = json.loads((tree / "report.json").read_text())
    found = plain["files"]["tests/first/test_a.py"]
    log = tree / ".cache" / "logs" / found["log"]
    run = plain["runs"][found["run"]]
    assert (found["collected"], found["executed"]) == (2, 2)
    assert found["environment"] == {"TAPEGRAD_DEVICE": "cuda"}
    assert found["log_sha256"] == hashlib.sha256(log.read_bytes()).hexdigest()
    assert "2 passed" in log.read_text()
    assert run["commit"] == "abc123"
    assert run["date"].startswith("20")
    assert run["versions"] == {"cupy": "14.2", "python": "3.12"}
    assert plain["left_out"] == {"files": [], "tests": []}


def test_what_failed_is_run_again_alone_after_it_was_mended(proven, tree, capsys):
    report = proven
    put(tree, {"tests/first/test_b.py": FAILING})
    assert report.main(["--run", "tests/first/test_b.py"]) == 1
    assert rest(report) == ["test_b.py"]
    assert "failed: tests/first/test_b.py::test_one" in capsys.readouterr().out

    put(tree, {"tests/first/test_b.py": PASSING})

    assert report.main(["--rest"]) == 0
    assert "1 files in" in capsys.readouterr().out
    assert rest(report) == []


CHANGES = {
    "tests/first/test_a.py": ["test_a.py"],
    "tests/first/shared.py": ["test_a.py"],
    "tests/first/data.json": ["test_a.py"],
    "examples/train.py": ["test_a.py"],
    "library/__init__.py": ["test_a.py", "test_b.py"],
    "library/late.py": ["test_b.py"],
    "library/popped.py": ["test_b.py"],
    "library/unused.py": [],
    "tests/conftest.py": ["test_a.py", "test_b.py", "test_c.py"],
}


def test_a_change_makes_stale_what_reads_it(proven, tree):
    assert rest(proven) == []
    found = {}

    for name in CHANGES:
        before = (tree / name).read_text()
        (tree / name).write_text(before + " ")
        found[name] = rest(proven)
        (tree / name).write_text(before)

    assert found == CHANGES


def test_a_source_that_moved_or_settings_of_pytest_make_stale_but_those_of_others_do_not(
    proven, tree
):
    settings = (tree / "pyproject.toml").read_text()

    (tree / "pyproject.toml").write_text(settings.replace("100", "90"))
    assert rest(proven) == []

    (tree / "pyproject.toml").write_text(settings.replace("[]", '["-v"]'))
    assert rest(proven) == ["test_a.py", "test_b.py", "test_c.py"]

    (tree / "pyproject.toml").write_text(settings)
    (tree / "library" / "late.py").rename(tree / "library" / "later.py")
    assert rest(proven) == ["test_b.py"]


def test_another_version_makes_stale_where_there_is_a_gpu(proven, monkeypatch, capsys):
    monkeypatch.setattr(proven, "versions", lambda: {"cupy": "15.0", "python": "3.12"})
    assert proven.main(["--check"]) == 1
    assert "cupy 14.2 became 15.0" in capsys.readouterr().out

    monkeypatch.setattr(proven, "versions", dict)
    assert proven.main(["--check"]) == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no test was executed"),
        ("import pytest\n\n@pytest.mark.skip\n" + PASSING, "no test was executed"),
        ("import pytest\npytest.skip('no GPU', allow_module_level=True)\n", "no test was executed"),
        ("import missing\n", "1 failed"),
        ("import pytest\n\n@pytest.fixture\ndef x():\n    1 / 0\n\ndef test_one(x): pass\n",
         "1 failed"),
        ("import os\n\ndef test_one():\n    os._exit(0)\n", "no test was executed"),
    ],
    ids=["empty", "skipped", "skipped as a whole", "not importable", "fixture", "killed"],
)  # fmt: skip
def test_a_file_without_a_passing_test_is_no_proof(report, tree, text, reason, capsys):
    put(tree, {"tests/second/test_c.py": text})

    assert report.main(["--run", "tests/second"]) == 1

    assert "test_c.py" in rest(report)
    assert f"tests/second/test_c.py: {reason}" in capsys.readouterr().out


def test_tests_that_a_conftest_drops_are_missed(report, tree, capsys):
    put(
        tree,
        {"tests/conftest.py": "def pytest_collection_modifyitems(items):\n    del items[1:]\n"},
    )

    assert report.main(["--run", "tests/first/test_a.py"]) == 1

    assert "test_a.py: 1 of 2 collected tests have no result" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["-k", "one"], ["-kone"], ["-m", "slow"], ["--collect-only"], ["--co"], ["--lf"], ["--ff"],
     ["--deselect=tests/first/test_a.py::test_one"], ["--ignore=tests/first"], ["-x"], ["-n", "2"],
     ["--maxfail=1"], ["--sw"], ["-p", "no:python"], ["--exitfirst"], ["-qk", "one"],
     ["-W", "ignore"], ["-o", "python_functions=none"], ["-c", "other.ini"], ["--noconftest"],
     ["@arguments.txt"],
     ["tests/first/test_a.py::test_one"], ["tests/house"], ["--last-failed"], ["--pyargs"]],
    ids=" ".join,
)  # fmt: skip
def test_an_argument_that_changes_which_tests_run_is_refused(report, arguments, capsys):
    assert report.main(["--run", *arguments]) == 2
    assert report.main(["--rest", *arguments]) == 2

    assert "gpu_report: '" in capsys.readouterr().err
    assert not report.REPORT.exists()


def test_variables_of_the_caller_choose_no_tests_and_switch_nothing_off(report, tree, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k test_two")
    monkeypatch.setenv("TAPEGRAD_PLAIN", "1")
    check = "import os\n\ndef test_zero(): assert 'TAPEGRAD_PLAIN' not in os.environ\n"
    put(tree, {"tests/first/test_b.py": check + PASSING})

    assert report.main(["--run", "tests/first", "-q", "--tb=short"]) == 1

    assert rest(report) == ["test_c.py"]
    assert {entry.executed for entry in report.load().values()} == {2}


def test_tests_that_cannot_hold_on_a_gpu_are_left_out_and_listed(report, tree, monkeypatch):
    left_out = ("tests/first/test_b.py::test_two",)
    for module in (report, sys.modules["gpu_parts"]):
        monkeypatch.setattr(module, "ON_THE_HOST", left_out)
    put(tree, {"tests/third/test_d.py": PASSING})

    assert report.main(["--run"]) == 0

    plain = json.loads((tree / "report.json").read_text())
    assert plain["left_out"] == {"files": ["tests/third/test_d.py"], "tests": list(left_out)}
    found = plain["files"]["tests/first/test_b.py"]
    assert (found["collected"], found["executed"], found["left_out"]) == (2, 1, list(left_out))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("test_three", "test_b.py::test_three is to be left out, but does not exist"),
        # pytest leaves out everything that begins with the name.
        ("test_t", "test_b.py::test_two is not on the list of tests to leave out"),
    ],
)
def test_a_wrong_name_on_the_list_is_a_failure(report, monkeypatch, capsys, name, sentence):
    for module in (report, sys.modules["gpu_parts"]):
        monkeypatch.setattr(module, "ON_THE_HOST", (f"tests/first/test_b.py::{name}",))

    assert report.main(["--run", "tests/first/test_b.py"]) == 1

    assert sentence in capsys.readouterr().out


def test_a_source_that_is_edited_while_its_tests_run_is_a_failure(report, tree, capsys):
    edit = "import library\n\ndef test_one():\n    open(library.__file__, 'a').write('x = 1')\n"
    put(tree, {"tests/second/test_c.py": edit})

    assert report.main(["--run", "tests/second"]) == 1

    assert "failed: library/__init__.py changed while the tests ran" in capsys.readouterr().out


def test_a_report_that_was_changed_by_hand_is_noticed(proven, tree, capsys):
    report = proven
    put(tree, {"library/late.py": "x = 1\n"})
    plain = json.loads(report.REPORT.read_text())
    now = report.evidence.read_tree(tree)["library/late.py"]

    plain["sources"] = [f"library/late.py {now}" if row.startswith("library/late.py") else row
                        for row in plain["sources"]]  # fmt: skip
    report.REPORT.write_text(json.dumps(plain))

    assert rest(report) == ["test_b.py"]
    report.main(["--check"])
    assert "the record was changed by hand" in capsys.readouterr().out


def test_the_budget_ends_a_run_and_the_rest_continues(report, capsys):
    assert report.main(["--run", "--budget", "0"]) == 1
    assert "0 files in 0 s" in capsys.readouterr().out

    assert report.main(["--rest", "--jobs", "2"]) == 0
    assert "3 files in" in capsys.readouterr().out


def test_a_run_that_is_stopped_keeps_what_it_had(report, monkeypatch):
    save: Callable[..., None] = report.evidence.save

    def save_and_stop(*arguments):
        save(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(report.evidence, "save", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        report.main(["--run", "--jobs", "1"])

    assert len(report.load()) == 1
    assert len(rest(report)) == 2


def test_the_longest_file_starts_first(proven, capsys):
    report = proven
    lengths = {"tests/first/test_b.py": 2.0, "tests/second/test_c.py": 50.0}
    entries = {file: replace(report.load()[file], seconds=s) for file, s in lengths.items()}
    report.write(entries)

    report.main(["--run", "tests/second", "tests/first/test_b.py", "--jobs", "1"])

    assert capsys.readouterr().out.startswith("passed: tests/second/test_c.py, 1 tests\n")


def test_workers_of_xdist_read_and_count_the_same(proven, tree, monkeypatch):
    report = proven
    alone = report.load()["tests/first/test_a.py"]
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setattr(report, "workers_for", lambda seconds: 2)

    report.main(["--run", "tests/first/test_a.py"])

    together = report.load()["tests/first/test_a.py"]
    assert "2 workers" in (tree / ".cache" / "logs" / together.log).read_text()
    assert together.sources == alone.sources
    assert (together.collected, together.executed) == (2, 2)


def test_numbers_are_packed_and_read_back(report):
    assert report.evidence.ranges([5, 0, 1, 2, 7, 8]) == "0-2,5,7-8"
    assert report.evidence.numbers("0-2,5,7-8") == [0, 1, 2, 5, 7, 8]
    assert report.evidence.numbers("") == []


def test_the_lists_of_this_tree_name_tests_that_exist():
    sys.path.insert(0, str(ROOT / "ci"))
    try:
        parts = importlib.import_module("gpu_parts")
    finally:
        sys.path.remove(str(ROOT / "ci"))

    jobs = parts.jobs(ROOT)  # a name of a file that does not exist is an error

    assert len(jobs) > 150
    for test in parts.ON_THE_HOST:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")
        assert file in jobs
