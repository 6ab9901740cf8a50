"""The small faults that a line of code can have, and a choice of them by a seed."""

from __future__ import annotations

import ast
import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
OPERATORS: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"), ast.Pow: ("**", "*"), ast.MatMult: ("@", "*"),
}  # fmt: skip
"""The sign of each operation, and the one that replaces it."""

ONLY_FOR_TYPES = {"TypeVar", "ParamSpec", "cast", "overload"}
"""Functions whose arguments are for the type checker."""


@dataclass(frozen=True)
class Mutant:
    """A change of one expression of a file."""

    file: str
    scope: str
    """The function or class around it, "" for the module."""
    what: str
    old: str
    new: str
    nth: int
    """Its number among the same changes of the scope."""
    line: int
    start: int
    """The first byte of the expression in the file."""
    end: int
    is_imported: bool
    """Whether it runs when the module is imported and not when a function is called."""

    @property
    def name(self) -> str:
        """What identifies it while other lines of the file change."""
        return f"{self.file} | {self.scope} | {self.what} {self.nth} | {self.old} -> {self.new}"

    def applied(self, source: bytes) -> bytes:
        """Return the file with the change."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants_of(source: str, file: str) -> list[Mutant]:
    """Return the faults that a file can have.

    >>> [(mutant.what, mutant.new) for mutant in mutants_of("def f(x): return x < 1", "f.py")]
    [('result', 'None'), ('comparison', 'x <= 1'), ('constant', '2')]
    """
    text = Text(source)
    counts: Counter[tuple[str, ...]] = Counter()
    found = []
    for node, scope, is_imported in _nodes(ast.parse(source), "", True):
        for what, part, new in _changes(node, text):
            old = text.of(part)
            key = (scope, what, old, new)
            counts[key] += 1
            place = (part.lineno, *text.span(part))
            found.append(Mutant(file, scope, what, old, new, counts[key], *place, is_imported))
    return found


class Text:
    """The text of syntax nodes: their places are counted in bytes."""

    def __init__(self, source: str) -> None:
        self.raw = source.encode()
        lengths = [len(line) for line in self.raw.split(b"\n")]
        self.starts = [0, *itertools.accumulate(length + 1 for length in lengths)]

    def span(self, node: Any) -> tuple[int, int]:
        """Return the first byte of a node and the first one after it."""
        first = self.starts[node.lineno - 1] + node.col_offset
        return first, self.starts[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: Any) -> str:
        """Return the text of a node."""
        first, end = self.span(node)
        return self.raw[first:end].decode()

    def with_sign(self, node: Any, left: Any, right: Any, old: str, new: str) -> str:
        """Return the text of an operation with another sign between its operands."""
        (start, end), (_, first), (last, _) = map(self.span, (node, left, right))
        between = self.raw[first:last].decode().replace(old, new, 1)
        return self.raw[start:first].decode() + between + self.raw[last:end].decode()


def _nodes(node: ast.AST, scope: str, is_imported: bool) -> Iterator[tuple[ast.AST, str, bool]]:
    """Yield the nodes that run, with the scope of each and whether an import runs it."""
    for name, value in ast.iter_fields(node):
        inside, runs_now = scope, is_imported
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            runs_now = is_imported and name != "body"
        if name in ("annotation", "returns") or (name == "body" and _is_for_types(node)):
            continue
        if name == "body" and isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = f"{scope}.{node.name}".lstrip(".")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_out(child):
                yield child, inside, runs_now
                yield from _nodes(child, inside, runs_now)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _is_left_out(node: ast.AST) -> bool:
    """Whether a change of a node would be a change of words, of types or of a pattern."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True  # a docstring
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ONLY_FOR_TYPES
    return isinstance(node, ast.Raise | ast.JoinedStr | ast.pattern)


Changes = Iterable[tuple[str, ast.expr, str]]


def _changes(node: ast.AST, text: Text) -> Changes:
    """Yield the kind, the expression and the new text of each change of a node."""
    if isinstance(node, ast.expr):
        yield from _changes_of_expression(node, text)
    elif isinstance(node, ast.If | ast.While):
        if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
            yield "condition", node.test, f"(not ({text.of(node.test)}))"
    elif isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Call):
            yield "call", node.value, "None"
    elif isinstance(node, ast.Return):
        value = node.value
        if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
            yield "result", value, "None"


def _changes_of_expression(node: ast.expr, text: Text) -> Changes:
    of = text.of
    match node:
        case ast.Compare(left, [op], [right]):
            yield "comparison", node, text.with_sign(node, left, right, *COMPARISONS[type(op)])
        case ast.BinOp(left, op, right) if type(op) in OPERATORS and not _is_text(left, right):
            yield "operator", node, text.with_sign(node, left, right, *OPERATORS[type(op)])
        case ast.BoolOp(op, values):
            other = " or " if isinstance(op, ast.And) else " and "
            yield "and/or", node, "(" + other.join(f"({of(value)})" for value in values) + ")"
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield "sign", node, f"({of(operand)})"
        case ast.Constant(bool() as value):
            yield "boolean", node, str(not value)
        case ast.Constant(int() | float() as value) if math.isfinite(value):
            yield "constant", node, repr(value + 1)
        case ast.IfExp(test, body, orelse):
            yield "branches", node, f"(({of(orelse)}) if {of(test)} else ({of(body)}))"
        case ast.Call(func, [first, second], []) if of(first) != of(second):
            if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
                yield "arguments", node, f"{of(func)}({of(second)}, {of(first)})"


def _is_text(*nodes: ast.expr) -> bool:
    return any(
        isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in nodes
    )


# The choice

LEFT_OUT = ("backends/tapegrad_cupy", "tapegrad/testing/samples")
"""What other tests judge, because it needs a GPU; and the table of samples, which are tests."""


def packages(root: Path) -> dict[str, list[Path]]:
    """Return the files of each package: folders of the product, and the modules beside them."""
    found = {"tapegrad": sorted((root / "tapegrad").glob("*.py"))}
    for top in ("tapegrad", "backends"):
        for folder in sorted((root / top).iterdir()):
            name = f"{top}/{folder.name}"
            files = [
                path
                for path in sorted(folder.rglob("*.py") if folder.is_dir() else [])
                if not str(path.relative_to(root)).startswith(LEFT_OUT)
            ]
            if files:
                found[name] = files
    return found


def chosen(root: Path, seed: int) -> list[tuple[str, Mutant]]:
    """Return all mutants with their packages, in the order in which a seed takes them.

    The first ones are from all packages, from one with four times as many places twice as often.
    Changes of other lines do not change the order of two mutants of a package.
    """
    ranked = []
    for package, files in packages(root).items():
        mutants = [
            mutant
            for path in files
            for mutant in mutants_of(path.read_text("utf-8"), str(path.relative_to(root)))
        ]
        mutants.sort(key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())
        share = math.sqrt(len(mutants))
        ranked += [((i + 0.5) / share, package, mutant) for i, mutant in enumerate(mutants)]
    ranked.sort(key=lambda row: row[:2])
    return [(package, mutant) for _, package, mutant in ranked]
