"""The names that statements read and assign, without those of functions inside them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Nodes = Iterable[ast.AST]


def own_nodes(nodes: Nodes) -> Iterator[ast.AST]:
    """Yield nodes and what is below them, but not the insides of functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from own_nodes(ast.iter_child_nodes(node))


def has_own(nodes: Nodes, *kinds: type[ast.AST]) -> bool:
    """Whether there is a node of some kinds outside of inner functions."""
    return any(isinstance(node, kinds) for node in own_nodes(nodes))


def assigned_names(nodes: Nodes) -> list[str]:
    """Return the names that statements bind or delete, in order and each once."""
    found: dict[str, None] = {}
    _collect(nodes, found, is_inner=False)
    return [*found]


def _collect(nodes: Nodes, found: dict[str, None], is_inner: bool) -> None:
    for node in nodes:
        for name in _bound_by(node, is_inner):
            found[name] = None
        if not isinstance(node, _SCOPES):
            inner = is_inner or isinstance(node, _COMPREHENSIONS)
            _collect(ast.iter_child_nodes(node), found, inner)


def _bound_by(node: ast.AST, is_inner: bool) -> list[str]:
    """Return the names that a node binds; names inside a comprehension belong to it."""
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            return [] if is_inner else [node.id]
        case ast.NamedExpr():
            return [node.target.id]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar():
            return [node.name] if node.name else []
        case ast.MatchMapping():
            return [node.rest] if node.rest else []
        case ast.Import() | ast.ImportFrom():
            return [one.asname or one.name.partition(".")[0] for one in node.names]
    return []


def reads_of(nodes: Nodes) -> Counter[str]:
    """Count how often each name is read, inner functions included."""
    every = (one for node in nodes for one in ast.walk(node))
    return Counter(n.id for n in every if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def declared(nodes: Nodes, kind: type[ast.Global] | type[ast.Nonlocal]) -> list[str]:
    """Return the names of the `global` or `nonlocal` statements."""
    return [name for node in own_nodes(nodes) if isinstance(node, kind) for name in node.names]


def dotted(node: ast.AST) -> str:
    """Return an expression such as `self.cell.state` as text, "" for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def assigned_attributes(nodes: Nodes) -> list[str]:
    """Return the attributes that statements assign, such as `self.state`."""
    stores = (
        dotted(node)
        for node in own_nodes(nodes)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )
    return [*dict.fromkeys(name for name in stores if name)]


def changed_containers(nodes: Nodes, is_branch: bool) -> list[str]:
    """Return what statements may change in place: by a method, or by an assignment to an item.

    A call in a branch may also change its arguments, and what a local function refers to.
    """
    found: dict[str, None] = {}
    for node in own_nodes(nodes):
        bases: list[ast.AST] = []
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                bases = [node.func.value]
            elif is_branch:
                bases = [node.func]
            if is_branch:
                bases += [*node.args, *[one.value for one in node.keywords]]
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            bases = [node.value]
        elif isinstance(node, ast.AugAssign):
            bases = [node.target]
        for base in bases:
            while isinstance(base, ast.Subscript | ast.Starred):
                base = base.value
            if name := dotted(base):
                found[name] = None
    return [*found]


def renewed_names(target: ast.expr, body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that each round of a `for` statement binds before it reads them."""
    bound = {*assigned_names([target])}
    read: set[str] = set()
    _follow(body, bound, read)
    return bound - read


def _follow(statements: Sequence[ast.stmt], bound: set[str], read: set[str]) -> None:
    """Add the names that statements always bind, and those that they read without that."""
    for node in statements:
        match node:
            case ast.With():
                given = [one.context_expr for one in node.items]
                read |= {*reads_of(given)} - bound
                bound.update(assigned_names([x for one in node.items if (x := one.optional_vars)]))
                _follow(node.body, bound, read)
            case ast.Assign() | ast.AnnAssign(value=ast.expr()):
                read |= {*reads_of([node])} - bound
                bound.update(assigned_names([node]))
            case _:
                # Whether a branch or a loop binds a name is not known.
                changed = [one.target for one in ast.walk(node) if isinstance(one, ast.AugAssign)]
                deleted = [one for one in ast.walk(node) if isinstance(one, ast.Delete)]
                names = {*reads_of([node]), *assigned_names([*changed, *deleted])}
                read |= names - bound
                if isinstance(node, ast.FunctionDef):
                    bound.add(node.name)


def always_returns(statements: Sequence[ast.stmt]) -> bool:
    """Whether the end of the statements is never reached."""
    if not statements:
        return False
    last = statements[-1]
    match last:
        case ast.Return() | ast.Raise():
            return True
        case ast.If():
            return always_returns(last.body) and always_returns(last.orelse)
        case ast.With():
            return always_returns(last.body)
        case ast.While(test=ast.Constant(value=True)):
            return not _breaks(last.body)
        case _:
            return False


def _breaks(statements: Sequence[ast.stmt]) -> bool:
    """Whether a `break` of the loop with these statements is among them."""
    for node in statements:
        if isinstance(node, ast.Break):
            return True
        inner = node.orelse if isinstance(node, ast.For | ast.While) else _statements_in(node)
        if _breaks(inner):
            return True
    return False


def _statements_in(node: ast.stmt) -> list[ast.stmt]:
    if isinstance(node, _SCOPES):
        return []
    blocks: list[ast.AST] = [*ast.iter_child_nodes(node)]
    found = [one for one in blocks if isinstance(one, ast.stmt)]
    for one in blocks:
        if isinstance(one, ast.ExceptHandler | ast.match_case):
            found += one.body
    return found
