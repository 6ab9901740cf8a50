"""Replace `break`, `continue` and `return` by flags, so that every statement runs to its end.

The statements after a possible jump become the body of an `if` on the flags. A loop tests the
flags of `break` and `return` before each round.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from tapegrad.program.autograph.symbols import always_returns, has_own, own_nodes
from tapegrad.program.autograph.syntax import (
    RETURN_VALUE,
    RETURNED,
    assign,
    located,
    operator_call,
    read,
)

_LOOPS = (ast.For, ast.While)
_DECISIONS = (ast.If, ast.For, ast.While)
Statements = list[ast.stmt]


@dataclass(frozen=True)
class _Flags:
    """The names of the flags at some place; "" where the statement keeps its meaning."""

    broken: str = ""
    continued: str = ""
    returned: str = ""


def without_jumps(function: ast.FunctionDef) -> None:
    """Replace the jumps of a function."""
    inside = [one for one in own_nodes(function.body) if isinstance(one, _DECISIONS)]
    returns = any(has_own([node], ast.Return) for node in inside)
    lowering = _Jumps()
    if not returns:
        function.body = lowering.block(function.body, _Flags())
        return
    falls_through = not always_returns(function.body)
    flags = _Flags(returned=RETURNED)
    body = lowering.block(function.body, flags)
    last = function.body[-1]
    start = [assign(RETURNED, ast.Constant(False), function.body[0])]
    if falls_through:
        none = [assign(RETURN_VALUE, ast.Constant(None), last)]
        body.append(_guarded(none, [RETURNED], last))
    end = located(ast.Return(read(RETURN_VALUE)), last)
    function.body = [*start, *body, end]


class _Jumps:
    """Replaces jumps, and numbers the flags of the loops."""

    def __init__(self) -> None:
        self._count = 0

    def block(self, statements: Sequence[ast.stmt], flags: _Flags) -> Statements:
        """Return the statements of a block without jumps."""
        done: Statements = []
        for place, statement in enumerate(statements):
            asked = _set_by(statement, flags)
            is_jump = isinstance(statement, ast.Break | ast.Continue | ast.Return)
            done += self._statement(statement, flags)
            if is_jump and asked:
                break  # nothing after it runs
            rest = statements[place + 1 :]
            if asked and rest:
                done.append(_guarded(self.block(rest, flags), asked, rest[0]))
                break
        return done

    def _statement(self, node: ast.stmt, flags: _Flags) -> Statements:
        match node:
            case ast.Break() if flags.broken:
                return [assign(flags.broken, ast.Constant(True), node)]
            case ast.Continue() if flags.continued:
                return [assign(flags.continued, ast.Constant(True), node)]
            case ast.Return() if flags.returned:
                value = node.value or ast.Constant(None)
                first = assign(RETURN_VALUE, value, node)
                return [first, assign(flags.returned, ast.Constant(True), node)]
            case ast.For() | ast.While():
                return self._loop(node, flags)
            case ast.Try():
                return [self._try(node, flags)]
            case ast.If() | ast.With() | ast.Match():
                for owner in node.cases if isinstance(node, ast.Match) else [node]:
                    owner.body = self.block(owner.body, flags)
                if isinstance(node, ast.If):
                    node.orelse = self.block(node.orelse, flags)
        return [node]

    def _loop(self, node: ast.For | ast.While, flags: _Flags) -> Statements:
        self._count += 1
        broken = f"ag_broken_{self._count}" if _jumps(node.body, ast.Break) else ""
        continued = f"ag_continued_{self._count}" if _jumps(node.body, ast.Continue) else ""
        inner = _Flags(broken, continued, flags.returned)
        returned = flags.returned if has_own(node.body, ast.Return) else ""
        ending = [name for name in (broken, returned) if name]
        body = self.block(node.body, inner)
        if continued:
            body.insert(0, assign(continued, ast.Constant(False), node))
        otherwise = self.block(node.orelse, flags)
        node.body, node.orelse = body, []
        node.ag_ending = ending  # type: ignore[union-attr]
        start = [assign(broken, ast.Constant(False), node)] if broken else []
        # Python does not run the `else` of a loop that was left.
        end = [_guarded(otherwise, ending, otherwise[0])] if otherwise and ending else otherwise
        return [*start, node, *end]

    def _try(self, node: ast.Try, flags: _Flags) -> ast.stmt:
        asked = [name for one in node.body for name in _set_by(one, flags)]
        node.body = self.block(node.body, flags)
        for handler in node.handlers:
            handler.body = self.block(handler.body, flags)
        if node.orelse:
            orelse = self.block(node.orelse, flags)
            names = [*dict.fromkeys(asked)]
            node.orelse = [_guarded(orelse, names, orelse[0])] if names else orelse
        node.finalbody = self.block(node.finalbody, flags)
        return node


def _jumps(statements: Sequence[ast.AST], kind: type[ast.stmt]) -> bool:
    """Whether a `break` or `continue` belongs to the loop with these statements."""
    for node in statements:
        if isinstance(node, kind):
            return True
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        below = node.orelse if isinstance(node, _LOOPS) else [*ast.iter_child_nodes(node)]
        if _jumps(below, kind):
            return True
    return False


def _set_by(node: ast.stmt, flags: _Flags) -> list[str]:
    """Return the flags that a statement may set."""
    found = []
    if flags.broken and _jumps([node], ast.Break):
        found.append(flags.broken)
    if flags.continued and _jumps([node], ast.Continue):
        found.append(flags.continued)
    if flags.returned and has_own([node], ast.Return):
        found.append(flags.returned)
    return found


def _guarded(statements: Statements, flags: Sequence[str], like: ast.AST) -> ast.stmt:
    """Return an `if` that runs the statements unless a flag is set."""
    test = operator_call("goes_on", *[read(name) for name in flags])
    return located(ast.If(test, statements, []), like)
