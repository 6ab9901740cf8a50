"""Small pieces of syntax trees."""

from __future__ import annotations

import ast
from typing import TypeVar

RUNTIME = "<the operators of tapegrad.program.autograph>"
"""A constant that stands for the operators until the code is compiled; see code.py."""

RETURNED, RETURN_VALUE = "ag_returned", "ag_return_value"

Node = TypeVar("Node", bound=ast.AST)


def read(name: str) -> ast.expr:
    """Return the expression that reads a name such as `x` or `self.state`."""
    first, *rest = name.split(".")
    found: ast.expr = ast.Name(first, ast.Load())
    for attribute in rest:
        found = ast.Attribute(found, attribute, ast.Load())
    return found


def operator_of(name: str) -> ast.expr:
    """Return the expression for an operator, such as `if_`."""
    return ast.Attribute(ast.Constant(RUNTIME), name, ast.Load())


def operator_call(name: str, *arguments: ast.expr) -> ast.expr:
    """Return the call of an operator."""
    return ast.Call(operator_of(name), [*arguments], [])


def thunk(expression: ast.expr) -> ast.expr:
    """Return a lambda without parameters."""
    return ast.Lambda(parameters(), expression)


def parameters(*names: str) -> ast.arguments:
    """Return the positional parameters of a function."""
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def assign(name: str, value: ast.expr, like: ast.AST) -> ast.stmt:
    """Return an assignment, at the place of another node."""
    return located(ast.Assign([ast.Name(name, ast.Store())], value), like)


def define(name: str, body: list[ast.stmt], *names: str) -> ast.stmt:
    """Return the definition of a function."""
    made = ast.FunctionDef(name, parameters(*names), body or [ast.Pass()], [], None, None)
    made.lineno, made.col_offset = 1, 0  # replaced by `located`
    return made


def located(node: Node, like: ast.AST) -> Node:
    """Give a new node, and the new nodes below it, the place of another one."""
    place = {
        name: getattr(like, name)
        for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")
        if hasattr(like, name)
    }
    for one in _new_nodes(node):
        for name, value in place.items():
            setattr(one, name, value)
        if isinstance(one, ast.expr) and "lineno" in place:
            # Errors in a call of an operator show the first line of a statement, not its last.
            one.end_lineno, one.end_col_offset = one.lineno, one.col_offset
    return node


def _new_nodes(node: ast.AST) -> list[ast.AST]:
    """Return the nodes from the top that have no place, or the one of `define`."""
    found: list[ast.AST] = []
    is_new = not hasattr(node, "end_lineno") or node.end_lineno is None
    if isinstance(node, ast.stmt | ast.expr | ast.arg | ast.keyword) and is_new:
        found.append(node)
    for child in ast.iter_child_nodes(node):
        found += _new_nodes(child)
    return found
