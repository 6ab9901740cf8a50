"""Find the syntax tree of the function that a code object was compiled from."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from types import CodeType

Function = ast.FunctionDef | ast.Lambda


class NotConvertible(Exception):  # noqa: N818  # it never leaves the package
    """A function cannot be converted, or a decision cannot be recorded; the argument says why."""


def tree_of(code: CodeType) -> tuple[Function, str]:
    """Return the tree of a function, and the name of the class around it, "" if there is none."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        raise NotConvertible(f"the source of {code.co_name!r} is not available")
    try:
        module = ast.parse("".join(lines))
    except SyntaxError as error:
        raise NotConvertible(f"{code.co_filename} is not Python source") from error
    found = [pair for pair in _functions(module) if _is_of(pair[0], code)]
    if not found:
        raise NotConvertible(f"{code.co_name!r} is not in {code.co_filename}")
    return min(found, key=lambda pair: _length(pair[0]))


def _functions(node: ast.AST, owner: str = "") -> Iterator[tuple[Function, str]]:
    """Yield all functions below a node, with the names of the innermost classes around them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child, owner
        yield from _functions(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _is_of(node: Function, code: CodeType) -> bool:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    count = code.co_argcount + code.co_kwonlyargcount
    # A private name of a class is stored with the name of the class before it.
    names = zip(named, code.co_varnames, strict=False)
    if len(named) != count or not all(known.endswith(one.arg) for one, known in names):
        return False
    if isinstance(node, ast.FunctionDef):
        first = min([node.lineno, *[one.lineno for one in node.decorator_list]])
        return node.name == code.co_name and first == code.co_firstlineno
    return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno and _has(node, code)


def _has(node: ast.Lambda, code: CodeType) -> bool:
    """Whether the instructions of a code object come from the body of a lambda."""
    body = node.body
    start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    places = [p for p in code.co_positions() if None not in p and p[2:] != (0, 0)]
    return bool(places) and all(
        start <= (line, column) and (last, last_column) <= end
        for line, last, column, last_column in places
    )


def _length(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))
