"""Which tests run a mutant: a copy of the tree in which each chosen expression reports itself.

An expression `x + 1` becomes `(__mutation_probe__(7) or (x + 1))`, which has its value. So one run
of the tests finds the tests of all chosen mutants, at next to no cost. A mutant that runs when its
module is imported belongs to the tests that call functions of the module or of its importers.
"""

from __future__ import annotations

import ast
import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutation import hits
from tests.mutation.mutants import Mutant, Text

COPIED = ("tapegrad", "backends", "tests", "benchmarks", "examples", "docs", "ci")
"""What the tests read, beside the files of the root."""


def copy_tree(root: Path, folder: Path) -> None:
    """Copy what the tests need."""
    for name in COPIED:
        shutil.copytree(root / name, folder / name, dirs_exist_ok=True)
    for path in root.iterdir():
        if path.is_file() and path.name != ".git":
            shutil.copy2(path, folder / path.name)


Span = tuple[int, int]


def probed(source: str, places: Iterable[tuple[int, Span]]) -> str:
    """Return a file in which the expressions at some places report numbers.

    >>> probed("x = a + 1", [(7, (4, 9))])
    'x = (__mutation_probe__(7) or (a + 1))'
    """
    inserted: list[tuple[int, int, int, str]] = []
    for number, (start, end) in places:
        # At one place, the ends come before the starts, and outer starts before inner ones.
        inserted.append((start, 1, -end, f"({hits.PROBE}({number}) or ("))
        inserted.append((end, 0, -start, "))"))
    raw = source.encode()
    parts, place = [], 0
    for at, _, _, text in sorted(inserted):
        parts += [raw[place:at], text.encode()]
        place = at
    return b"".join([*parts, raw[place:]]).decode()


def entries(source: str) -> list[Span]:
    """Return the places of expressions that each function of a file runs at its start."""
    text = Text(source)
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Lambda):
            found.append(text.span(node.body))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            expression = _first_expression(node.body)
            if expression is not None:
                found.append(text.span(expression))
    return found


def _first_expression(body: Sequence[ast.stmt]) -> ast.expr | None:
    """Return the expression that runs first, if one is easily found."""
    for statement in body:
        match statement:
            case ast.Expr(ast.Constant()):
                continue  # the docstring
            case ast.Expr(value) | ast.Assign(value=value) | ast.Return(ast.expr() as value):
                return value if not isinstance(value, ast.GeneratorExp | ast.Starred) else None
            case ast.If(test) | ast.While(test):
                return test
            case ast.For(iter=iterable):
                return iterable
            case ast.With(items=[first, *_]):
                return first.context_expr
            case ast.Try(body=inner):
                return _first_expression(inner)
            case _:
                return None
    return None


def importers(files: Iterable[str], root: Path) -> dict[str, list[str]]:
    """Return the files that import each file."""
    found = defaultdict(list)
    modules = {module_of(file): file for file in files}
    for file in files:
        for node in ast.walk(ast.parse((root / file).read_text("utf-8"))):
            names: set[str] = set()
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {node.module, *[f"{node.module}.{alias.name}" for alias in node.names]}
            elif isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            for name in names & modules.keys():
                found[modules[name]].append(file)
    return {file: sorted(set(others)) for file, others in found.items()}


def module_of(file: str) -> str:
    """Return the module of a file.

    >>> module_of("backends/tapegrad_numpy/loops/__init__.py")
    'tapegrad_numpy.loops'
    """
    name = file.removeprefix("backends/").removesuffix(".py").removesuffix("/__init__")
    return name.replace("/", ".")


@dataclass(frozen=True)
class Probes:
    """The numbers of probes: of the mutants, and of the files whose functions are probed."""

    mutants: dict[str, int]
    files: dict[str, int]
    nearby: dict[str, list[str]]
    """The files that import a file with a mutant that an import runs."""

    @classmethod
    def of(cls, mutants: Sequence[Mutant], files: Iterable[str], root: Path) -> Probes:
        """Return the probes of mutants among all files of the product."""
        known = importers(files, root)
        own = sorted({mutant.file for mutant in mutants if mutant.is_imported})
        nearby = {file: known.get(file, []) for file in own}
        wanted = sorted({*own, *[other for others in nearby.values() for other in others]})
        numbers = {mutant.name: number for number, mutant in enumerate(mutants)}
        return cls(numbers, {f: i for i, f in enumerate(wanted, len(numbers))}, nearby)

    def save(self, path: Path) -> None:
        """Write the numbers, for a later run that judges."""
        path.write_text(json.dumps(asdict(self)), "utf-8")

    @classmethod
    def load(cls, path: Path) -> Probes:
        """Read what `save` has written."""
        return cls(**json.loads(path.read_text("utf-8")))

    def write(self, mutants: Sequence[Mutant], root: Path, folder: Path) -> None:
        """Write a copy of the tree with probes, and the module that collects what they report."""
        copy_tree(root, folder)
        places: dict[str, list[tuple[int, Span]]] = defaultdict(list)
        for mutant in mutants:
            number = self.mutants[mutant.name]
            places[mutant.file].append((number, (mutant.start, mutant.end)))
        for file, number in self.files.items():
            source = (root / file).read_text("utf-8")
            places[file] += [(number, span) for span in entries(source)]
        for file, found in places.items():
            source = (root / file).read_text("utf-8")
            (folder / file).write_text(probed(source, found), "utf-8")
        shutil.copy(Path(str(hits.__file__)), folder / "sitecustomize.py")

    def tests_of(self, mutant: Mutant, coverage: Coverage) -> list[str]:
        """Return the tests that run a mutant, in turns; those that run it most directly first."""
        numbers = [self.mutants.get(mutant.name)]
        if mutant.is_imported:
            files = (mutant.file, *self.nearby.get(mutant.file, []))
            numbers += [self.files.get(file) for file in files]
        found: dict[str, None] = {}
        for number in numbers:
            tests = [] if number is None else coverage.lines.get(number, [])
            found |= dict.fromkeys(in_turns(tests, coverage.seconds))
        return list(found)


@dataclass
class Coverage:
    """What a run of the tests has found."""

    lines: dict[int, list[str]]
    """The tests of each probe."""
    seconds: dict[str, float]
    with_processes: frozenset[str] = frozenset()
    """The files whose tests start processes."""

    @classmethod
    def read(cls, folder: Path) -> Coverage:
        """Read the lines that the tests have written; tests that failed are left out."""
        lines: dict[int, list[str]] = defaultdict(list)
        seconds: dict[str, float] = defaultdict(float)
        is_passed: dict[str, bool] = {}
        paths = sorted(folder.glob("*.jsonl"))
        lists = [[json.loads(line) for line in p.read_text("utf-8").splitlines()] for p in paths]
        rows = [row for found in lists for row in found]
        # A process that a test starts writes one line, which has no seconds.
        others = [found[0]["test"] for found in lists if found and found[0]["seconds"] == 0]
        for row in rows:
            is_passed[row["test"]] = is_passed.get(row["test"], True) and row["passed"]
        for row in rows:
            if is_passed[row["test"]]:
                seconds[row["test"]] += row["seconds"]
                for number in row["hits"]:
                    lines[number].append(row["test"])
        unique = {number: sorted(set(tests)) for number, tests in lines.items()}
        return cls(unique, dict(seconds), frozenset(test.partition("::")[0] for test in others))


def in_turns(tests: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    """Order tests: the quickest of each file, then the second of each file, and so on.

    >>> in_turns(["a.py::x", "a.py::y", "b.py::z"], {"a.py::x": 2, "a.py::y": 1, "b.py::z": 3})
    ['a.py::y', 'b.py::z', 'a.py::x']
    """
    files: dict[str, list[str]] = defaultdict(list)
    for test in sorted(tests, key=lambda test: (seconds[test], test)):
        files[test.partition("::")[0]].append(test)
    places = {test: at for ordered in files.values() for at, test in enumerate(ordered)}
    return sorted(places, key=lambda test: (places[test], seconds[test], test))
