"""Parse the source tree for the house tests: modules and their imports.

All functions take the root folder, so that tests can run them on a made-up tree and see them fail.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = (".", "backends", "benchmarks")


@dataclass(frozen=True)
class Import:
    """An import from one module to another (or to a foreign library)."""

    source: str
    target: str
    """The imported module; `a.b.*` if the code computes the last part of the name."""
    line: int
    is_local: bool
    """Whether it stands inside a function, and so runs only when that is called."""
    has_comment: bool = False
    """Whether a comment stands on its line or on the line before."""

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
    text = path.read_text(encoding="utf-8")
    lines = ["", *text.splitlines()]
    for node, is_local in _walk(ast.parse(text), False):
        has_comment = "#" in lines[node.lineno] or lines[node.lineno - 1].lstrip().startswith("#")
        for target in _targets(node, name, modules):
            yield Import(name, target, node.lineno, is_local, has_comment)


ImportNode = ast.Import | ast.ImportFrom | ast.Call


def _walk(node: ast.AST, is_local: bool) -> Iterator[tuple[ImportNode, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom) or _is_import_module(child):
            yield child, is_local
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _walk(child, is_local or is_function)


def _is_import_module(node: ast.AST) -> TypeGuard[ast.Call]:
    if not (isinstance(node, ast.Call) and node.args):
        return False
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"import_module", "__import__"}


def _targets(node: ImportNode, source: str, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yield the imported modules.

    `from a.b import c` imports the module a.b.c if there is one, else the module a.b.
    `import_module(f"a.{name}")` imports a.*, and `import_module(variable)` cannot be read.
    """
    if isinstance(node, ast.Call):
        yield from _literal_name(node.args[0], source)
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    assert node.level == 0, "relative imports are banned by ruff (TID252)"
    for alias in node.names:
        submodule = f"{node.module}.{alias.name}"
        yield submodule if submodule in modules else str(node.module)


def _literal_name(argument: ast.expr, source: str) -> Iterator[str]:
    if isinstance(argument, ast.Constant):
        yield str(argument.value)
    elif isinstance(argument, ast.JoinedStr):
        prefix = ""
        for part in argument.values:
            if isinstance(part, ast.Constant):
                prefix += str(part.value)
            elif isinstance(part, ast.FormattedValue) and ast.unparse(part.value) == "__name__":
                prefix += source
            else:
                prefix += "*"
                break
        if "." in prefix:
            yield f"{prefix.rpartition('.')[0]}.*" if prefix.endswith("*") else prefix


def write_tree(folder: Path, files: Mapping[str, str]) -> dict[str, Path]:
    """Write a made-up tree for a meta-test and return its modules."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return find_modules(folder)
