"""Parse the source tree for the house tests: modules and their imports.

All functions take the root folder, so that tests can run them on a made-up tree and see them fail.
"""

from __future__ import annotations

import ast
import functools
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


@functools.cache
def imports_of_this_tree() -> tuple[Import, ...]:
    """Return every import of this repository's packages; parsing them takes seconds."""
    return tuple(find_imports(find_modules()))


def _imports_of(name: str, path: Path, modules: Mapping[str, Path]) -> Iterator[Import]:
    text = path.read_text(encoding="utf-8")
    lines = ["", *text.splitlines()]
    for node, is_local in _import_nodes(ast.parse(text)):
        has_comment = "#" in lines[node.lineno] or lines[node.lineno - 1].lstrip().startswith("#")
        for target in _targets(node, name, modules):
            yield Import(name, target, node.lineno, is_local, has_comment)


ImportNode = ast.Import | ast.ImportFrom | ast.Call


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.alias)
"""Most nodes of a tree, and none of them holds an import."""


def _import_nodes(tree: ast.AST) -> list[tuple[ImportNode, bool]]:
    """Return the imports of a file from top to bottom, and whether each is inside a function."""
    found: list[tuple[ImportNode, bool]] = []

    def visit(node: ast.AST, is_local: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _LEAVES):
                continue
            if isinstance(child, ast.Import | ast.ImportFrom) or _is_import_module(child):
                found.append((child, is_local))
            visit(child, is_local or isinstance(child, _FUNCTIONS))

    visit(tree, False)
    return found


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
