"""What a mutant is, which tests run it, and that a test that fails catches it."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mutation import hits, probes, record
from tests.mutation.judge import Judge, stages, verdict_of
from tests.mutation.mutants import chosen, mutants_of
from tests.mutation.probes import Coverage, Probes, entries, in_turns, probed
from tests.mutation.reasons import EQUIVALENT
from tests.mutation.run import RECORD, ROOT
from tests.mutation.suites import KERAS, judges, project

SOURCE = '''\
"""Words 1 + 1 are not changed."""

LIMIT = 3


def double(x: int = 2) -> int:
    """Return twice a number."""
    if x is None or (x + 1) * 2 > LIMIT:
        print(x)
    return max(x, -x) if x else 0


class Box:
    def is_full(self, count):
        return not count < 1
'''


def changes(source: str) -> list[tuple[str, str, str]]:
    return [(mutant.what, mutant.old, mutant.new) for mutant in mutants_of(source, "f.py")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", [("comparison", "a < b", "a <= b")]),
        ("x = a not in b", [("comparison", "a not in b", "a in b")]),
        ("x = (a - b) @ c", [("operator", "(a - b) @ c", "(a - b) * c"),
                             ("operator", "a - b", "a + b")]),
        ("x = a and b", [("and/or", "a and b", "((a) or (b))")]),
        ("x = not a", [("sign", "not a", "(a)")]),
        ("x = True", [("boolean", "True", "False")]),
        ("x = 2.5", [("constant", "2.5", "3.5")]),
        ("if a: b()", [("condition", "a", "(not (a))"), ("call", "b()", "None")]),
        ("x = a if b else c", [("branches", "a if b else c", "((c) if b else (a))")]),
        ("x = f(a, b)", [("arguments", "f(a, b)", "f(b, a)")]),
        ("x = f(a, a)", []),
        ("x = a + 'text'", []),
        ("raise ValueError(1 + 2)", []),
        ("x: Literal[1] = a", []),
    ],
)  # fmt: skip
def test_changes_of_a_statement(source: str, expected: list[tuple[str, str, str]]) -> None:
    assert changes(source) == expected


def test_names_of_mutants_are_distinct_and_the_changed_files_are_python() -> None:
    mutants = mutants_of(SOURCE, "f.py")

    assert len({mutant.name for mutant in mutants}) == len(mutants) > 10
    for mutant in mutants:
        changed = mutant.applied(SOURCE.encode())
        assert changed != SOURCE.encode()
        compile(changed, "f.py", "exec")


def test_an_import_runs_what_is_outside_the_bodies_of_functions() -> None:
    imported = {mutant.old for mutant in mutants_of(SOURCE, "f.py") if mutant.is_imported}

    assert imported == {"3", "2"}


def test_a_mutant_keeps_its_name_when_other_lines_change() -> None:
    before = {mutant.name for mutant in mutants_of(SOURCE, "f.py")}
    after = {mutant.name for mutant in mutants_of("import os\n\n\n" + SOURCE, "f.py")}

    assert before == after


def write_product(root: Path) -> None:
    """Write a product of one module with one test."""
    for folder in (*probes.COPIED, "tapegrad/small", "tests/api"):
        (root / folder).mkdir(exist_ok=True, parents=True)
    for package in ("tapegrad", "tapegrad/small"):
        (root / package / "__init__.py").touch()
    (root / "tapegrad" / "small" / "sums.py").write_text("def total(x, y):\n    return x + y\n")
    shutil.copytree(ROOT / "tests" / "mutation", root / "tests" / "mutation")
    (root / "pytest.ini").write_text("[pytest]\n")
    test = (
        "from tapegrad.small.sums import total\n\ndef test_total():\n    assert total(2, 3) == 5\n"
    )
    (root / "tests" / "api" / "test_sums.py").write_text(test)


PACKAGES = ("tapegrad/large", "tapegrad/small")
TEST = "tests/api/test_sums.py::test_total"


def test_a_fault_is_caught_by_the_test_that_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a shorter start
    root, tree, cache = tmp_path / "root", tmp_path / "tree", tmp_path / "cache"
    cache.mkdir()
    write_product(root)
    ((package, _), *_) = mutants = chosen(root, seed=1)
    found = [mutant for _, mutant in mutants]
    written = Probes.of(found, [found[0].file], root)
    written.write(found, root, tree)
    suite = project()
    environment = {**suite.environment(tree, cache, seed=1), "MUTATION_HITS": str(tmp_path)}
    command = suite.command("-p", "sitecustomize", TEST)
    subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
    coverage = Coverage.read(tmp_path)
    judge = Judge(root, tmp_path / "judged", cache, suite, seed=1)
    sums = next(mutant for mutant in found if mutant.what == "operator")

    tests = written.tests_of(sums, coverage)
    verdict = judge.judge(sums, tests, coverage.seconds)
    quickly = dict(judge.quick([(mutant, tests) for mutant in found], coverage))

    assert package == "tapegrad/small"
    assert tests == [TEST]
    assert (verdict.kind, verdict.by) == ("caught", TEST)
    assert {mutant.what: (v.kind, v.by) for mutant, v in quickly.items()} == {
        "result": ("caught", TEST),
        "operator": ("caught", TEST),
    }
    # The file is as it was, and the next run does not see compiled code of the mutant.
    assert judge.outcome([TEST], 60.0) == ("survived", "")


def test_probes_keep_the_values_and_report_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()
    monkeypatch.setattr("builtins.__mutation_probe__", seen.add, raising=False)
    mutants = mutants_of(SOURCE, "f.py")
    spans = [(number, (mutant.start, mutant.end)) for number, mutant in enumerate(mutants)]
    path = tmp_path / "f.py"
    path.write_text(probed(SOURCE, [*spans, *[(99, span) for span in entries(SOURCE)]]))

    names = runpy.run_path(str(path))
    assert {mutants[number].old for number in seen} == {"3", "2"}
    assert names["double"](1) == 1

    assert 99 in seen
    assert "print(x)" in {mutants[number].old for number in seen if number != 99}
    assert "count < 1" not in {mutants[number].old for number in seen if number != 99}


def test_tests_take_turns_and_are_divided_into_stages() -> None:
    seconds = {"a.py::1": 0.1, "a.py::2": 0.2, "b.py::1": 6.0, "c.py::1": 39.0, "c.py::2": 99.0}

    ordered = in_turns(seconds, seconds)

    assert ordered == ["a.py::1", "b.py::1", "c.py::1", "a.py::2", "c.py::2"]
    divided = stages(ordered, seconds, [(12, 5.0), (2, 90.0)])
    assert divided == [["a.py::1", "b.py::1"], ["c.py::1", "a.py::2"]]


@pytest.mark.parametrize(
    ("code", "output", "expected"),
    [
        (0, "", ("survived", "")),
        (1, "FAILED tests/a.py::b[1] - x == 2\n", ("caught", "tests/a.py::b[1]")),
        (2, "ERROR tests/a.py - ImportError: no\n", ("caught", "tests/a.py")),
        (-11, "Segmentation fault", ("caught", "pytest ended with -11")),
    ],
)
def test_verdicts(code: int, output: str, expected: tuple[str, str]) -> None:
    assert verdict_of(code, output) == expected


def test_a_test_that_failed_without_a_mutant_does_not_judge(tmp_path: Path) -> None:
    lines = [
        '{"test": "a", "seconds": 1.0, "passed": true, "hits": [1, 2]}',
        '{"test": "b", "seconds": 1.0, "passed": false, "hits": [1]}',
        '{"test": "a", "seconds": 0.0, "passed": true, "hits": [3]}',
    ]
    (tmp_path / "1.jsonl").write_text("\n".join(lines))

    coverage = Coverage.read(tmp_path)

    assert coverage.lines == {1: ["a"], 2: ["a"], 3: ["a"]}
    assert coverage.seconds == {"a": 1.0}
    assert not coverage.with_processes


def test_a_line_without_seconds_is_of_a_process_that_a_test_started(tmp_path: Path) -> None:
    line = '{"test": "a.py::b", "seconds": 0.0, "passed": true, "hits": [1]}'
    (tmp_path / "1.jsonl").write_text(line)

    assert Coverage.read(tmp_path).with_processes == {"a.py"}


def row(name: str, verdict: str) -> record.Row:
    return record.Row(name, "tapegrad/core", 1, 1, verdict, "", 1, 1.0)


def test_a_record_is_read_as_it_was_written_and_counted(tmp_path: Path) -> None:
    rows = [row("b", "time"), row("a", "caught"), row("c", "survived"), row("d", "not run")]
    record.write(tmp_path / "m.json", rows)

    assert list(record.read(tmp_path / "m.json").values()) == sorted(rows, key=lambda r: r.name)
    counts = record.counts(rows)
    assert counts["caught"] == counts["survived"] == 2
    assert counts["caught by time"] == counts["run by no test"] == 1
    assert record.notes(rows)[0].startswith("50.0 % of the 4 mutants")
    left = record.notes([*rows, row("e", "left")])[0]
    assert left.startswith("At least 40.0 % of the 5 mutants")


def test_reasons_belong_to_survivors_of_the_record() -> None:
    known = record.read(RECORD)

    assert not [name for name in EQUIVALENT if name not in known]
    assert not [name for name in EQUIVALENT if known[name].standing == "caught"]
    assert all(reason.endswith(".") for reason in EQUIVALENT.values())


def test_the_plug_in_writes_what_a_test_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hits, "FOLDER", str(tmp_path))
    monkeypatch.setattr(hits, "found", {4, 2})

    hits.write("a", 0.5, True)
    hits.write("b", 0.5, True)

    assert Coverage.read(tmp_path).lines == {2: ["a"], 4: ["a"]}


def test_the_first_mutants_are_from_all_packages_and_keep_their_order(tmp_path: Path) -> None:
    write_product(tmp_path)
    large = tmp_path / "tapegrad" / "large"
    large.mkdir()
    (large / "many.py").write_text("".join(f"x{i} = {i}\n" for i in range(200)))
    first = chosen(tmp_path, seed=1)
    (large / "many.py").write_text("".join(f"x{i} = {i}\n" for i in range(1, 200)))
    second = chosen(tmp_path, seed=1)

    counts = [sum(package == name for package, _ in first[:9]) for name in PACKAGES]
    assert counts == [8, 1]
    names = [mutant.name for _, mutant in second]
    kept = [mutant.name for _, mutant in first if mutant.name in names]
    assert kept == [name for name in names if name in kept]
    assert [mutant.name for _, mutant in chosen(tmp_path, seed=2)] != names


def test_keras_own_tests_judge_its_backend_alone() -> None:
    suites = [project()]

    assert judges("tapegrad/core", suites) is suites[0]
    assert judges(KERAS, suites) is None
