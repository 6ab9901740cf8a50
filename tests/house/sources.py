"""Reads the source tree as the house tests need it: modules, and what each of them imports.

Everything here takes the folder to look at, so that a test can point it at a made-up tree and
see that it would fail there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = (".", "backends", "benchmarks")


@dataclass(frozen=True)
class Import:
    """One import statement's arrow from a module to a module (or to a foreign library)."""

    source: str
    target: str
    line: int
    is_local: bool
    """Whether it stands inside a function, and so runs only when that is called."""

    def __str__(self) -> str:
        return f"{self.source}:{self.line} imports {self.target}"


def find_modules(root: Path = ROOT) -> dict[str, Path]:
    """Return {dotted name: file} of the package, the backends and the benchmarks under `root`."""
    found: dict[str, Path] = {}
    for source_root in SOURCE_ROOTS:
        base = root / source_root
        for package in sorted(base.glob("tapegrad*")):
            for path in sorted(package.rglob("*.py")):
                found[_dotted_name(path.relative_to(base))] = path
    return found


def _dotted_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_imports(modules: Mapping[str, Path]) -> list[Import]:
    """Return every import in `modules`, wherever in the file it stands."""
    return [found for name, path in modules.items() for found in _imports_of(name, path, modules)]


def _imports_of(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[Import]:
    for node, is_local in _walk(ast.parse(path.read_text(encoding="utf-8")), False):
        for target in _targets(node, modules):
            yield Import(name, target, node.lineno, is_local)


def _walk(node: ast.AST, is_local: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, is_local
        else:
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _walk(child, is_local or is_function)


def _targets(node: ast.Import | ast.ImportFrom, modules: Mapping[str, Path]) -> Iterator[str]:
    """`from a.b import c` reaches module a.b.c if there is one, else module a.b."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    assert node.level == 0, "relative imports are banned by ruff (TID252)"
    for alias in node.names:
        submodule = f"{node.module}.{alias.name}"
        yield submodule if submodule in modules else str(node.module)


def write_tree(folder: Path, files: Mapping[str, str]) -> dict[str, Path]:
    """Write a made-up tree for a meta-test and return its modules."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return find_modules(folder)
