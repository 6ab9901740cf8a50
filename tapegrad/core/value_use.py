"""How a line of the user's program uses a value: store, show, compare or compute.

Python calls `Tensor.__float__` in the same way for `y = math.sin(x)`, `a[i] = x` and
`print("%f" % x)`. The instruction that runs has a position in the source, and the syntax tree says
what is around it.
"""

from __future__ import annotations

import ast
import linecache
import opcode
from itertools import islice
from types import CodeType, FrameType
from typing import Any, NamedTuple

_SHOWING = {"print", "pprint", "str", "repr", "format", "format_map", "isnan", "isfinite", "isinf"}
_SHOWING |= {"isclose", "allclose", "array_equal", "array2string", "array_repr", "array_str"}
"""Functions whose result is text or a truth value."""
_LOGGING = {"debug", "info", "warning", "warn", "error", "critical", "exception", "log"}
_BINDING = (ast.NamedExpr, ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom)


class Use(NamedTuple):
    """The use of a value at one instruction.

    `reader` is the function that reads it ("math.sin"), empty if unknown. `stores` is true for the
    assignment to an item. `shows` is true if the result is text, a truth value or an index: such a
    use has no derivative to lose.
    """

    reader: str
    stores: bool
    shows: bool


_REMAINDERS = (6, 19)
"""The arguments of the instruction BINARY_OP that stand for `%` and `%=`."""


def use_at(frame: FrameType) -> Use:
    """Return the use of a value that the current instruction of a frame reads."""
    code, at = frame.f_code.co_code, frame.f_lasti
    stores = code[at] == opcode.opmap.get("STORE_SUBSCR")
    # Numbers and arrays leave `%` to the tensor, so only texts read it.
    formats = code[at] == opcode.opmap.get("BINARY_OP") and code[at + 1] in _REMAINDERS
    if stores or formats:
        return Use("", stores, formats)
    return _use_in_source(frame)


def _use_in_source(frame: FrameType) -> Use:
    unknown = Use("", False, False)
    position = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), None)
    if position is None or None in position:
        return unknown
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    tree = _tree_around(frame.f_code, lines, position)
    statement = None if tree is None else _statement_at(tree, position[0], position[2])
    if statement is None:
        return unknown
    parents = {child: node for node in ast.walk(statement) for child in ast.iter_child_nodes(node)}
    for node in parents:
        if isinstance(node, ast.expr) and _span(node) == position:
            reader = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            return Use(reader, False, _shows(node, parents))
    # Older versions of pytest give all parts of an assertion the position of the statement.
    is_assertion = isinstance(statement, ast.Assert) and _span(statement) == position
    return Use("", False, True) if is_assertion else unknown


def _tree_around(code: CodeType, lines: list[str], position: Any) -> ast.AST | None:
    """Return the syntax tree of the function at a position, or of more if that is not enough."""
    first, last = position[:2]
    if not code.co_name.startswith("<") or code.co_name == "<lambda>":
        end = max(last, *[line or 0 for _, _, line in code.co_lines()])
        function = _parsed(_only(lines, code.co_firstlineno, end))  # large files take long
        if function is not None:
            return function
    return _parsed(lines) or _parsed(_only(lines, first, last))  # code in a file of another kind


def _parsed(lines: list[str]) -> ast.AST | None:
    try:
        return ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _only(lines: list[str], first: Any, last: Any) -> list[str]:
    """Return the source with all lines blank but some, which may be indented."""
    part = lines[first - 1 : last]
    if not part:
        return []
    if part[-1].rstrip().endswith(":"):
        part[-1] = f"{part[-1].rstrip()} pass\n"
    blank = ["\n"] * (first - 1)
    if part[0][:1].isspace():
        blank[-1:] = ["if 1:\n"]
    return blank + part


def _span(node: Any) -> tuple[int, int, int, int]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _statement_at(tree: ast.AST, line: Any, column: Any) -> ast.stmt | None:
    """Return the innermost statement at a position."""
    found: ast.stmt | None = None
    waiting: list[ast.AST] = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if isinstance(child, ast.excepthandler | ast.match_case):
                waiting.append(child)
            elif isinstance(child, ast.stmt):
                first, last, left, right = _span(child)
                if (first, left) <= (line, column) < (last, right):
                    found, waiting = child, [child]
                    break
    return found


def _shows(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether the value of an expression ends in text, in a truth value or in an index."""
    while True:
        if isinstance(node, ast.Call) and _is_showing(node.func):
            return True
        parent = parents.get(node)
        if parent is None or isinstance(parent, ast.stmt):
            return parent is not None and getattr(parent, "test", None) is node
        if isinstance(parent, ast.JoinedStr | ast.FormattedValue | ast.Compare):
            return True
        if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            return True
        if isinstance(parent, ast.IfExp) and parent.test is node:
            return True
        if isinstance(parent, ast.Subscript) and parent.slice is node:
            return True
        if isinstance(parent, _BINDING):
            return False
        if _is_format(parent):
            return True
        node = parent


def _is_format(node: ast.AST) -> bool:
    """Whether this is `"text %f" % x`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return False
    left = node.left
    is_text = isinstance(left, ast.Constant) and isinstance(left.value, str | bytes)
    return is_text or isinstance(left, ast.JoinedStr)


def _is_showing(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _SHOWING or function.id.startswith("assert")
    if not isinstance(function, ast.Attribute):
        return False
    name = function.attr
    if name in _LOGGING:
        return "log" in _last_name(function.value)
    return name in _SHOWING or name.startswith("assert")


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    return str(getattr(node, "attr", getattr(node, "id", ""))).lower()
