"""Replace statements and expressions that decide by calls of operators.

The blocks of a statement become functions that share the variables of the function around them, so
that an operator can run them once, several times, or not at all:

    if test:            def get(): return (value_of(lambda: y),)
        y = f(x)        def set(values): nonlocal y; (y,) = values
    else:         ->    def body(): nonlocal y; y = f(x)
        y = x           def orelse(): nonlocal y; y = x
                        if_(test, body, orelse, State(get, set, ...))
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence

from tapegrad.program.autograph.jumps import without_jumps
from tapegrad.program.autograph.source import Function, NotConvertible
from tapegrad.program.autograph.symbols import (
    assigned_attributes,
    assigned_names,
    changed_containers,
    declared,
    dotted,
    has_own,
    reads_of,
    renewed_names,
)
from tapegrad.program.autograph.syntax import (
    define,
    located,
    operator_call,
    operator_of,
    read,
    thunk,
)

_SUSPENDS = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
_NOT_IN_THUNKS = (*_SUSPENDS, ast.NamedExpr)
_FRAME_READERS = {"locals", "vars", "dir", "eval", "exec", "breakpoint"}
"""Builtins that see the names of the function that calls them."""

_BUILTINS = {"all", "any", "max", "min"}


def converted_tree(function: Function) -> Function:
    """Return the tree of a function with operators in place of its control flow."""
    nodes = function.body if isinstance(function, ast.FunctionDef) else [function.body]
    if has_own(nodes, *_SUSPENDS):
        raise NotConvertible("it is a generator or a coroutine")
    readers = _FRAME_READERS & {*reads_of(nodes)}
    if readers:
        raise NotConvertible(f"it calls {min(readers)}()")
    if isinstance(function, ast.FunctionDef):
        _convert(function)
        return function
    found = _Converter([function.body], _first(function.args)).visit(function)
    assert isinstance(found, ast.Lambda)
    return found


def _convert(function: ast.FunctionDef) -> None:
    """Convert a function in place."""
    like = function.body[0]
    outer: list[ast.stmt] = []
    shared: set[str] = set()
    for kind in (ast.Global, ast.Nonlocal):
        names = [*dict.fromkeys(declared(function.body, kind))]
        shared.update(names)
        outer += [located(kind(names), like)] if names else []
    without_jumps(function)
    converter = _Converter(function.body, _first(function.args))
    converter.globals = {name for one in outer if isinstance(one, ast.Global) for name in one.names}
    local = [name for name in assigned_names(function.body) if name not in shared]
    body = converter.block(function.body)
    # It never runs, but makes the names local: the blocks of statements only refer to them.
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in local]
    binding = ast.If(ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], [])
    start = [located(binding, like)] if local else []
    docstring = function.body[:1] if ast.get_docstring(function, clean=False) is not None else []
    function.body = [*docstring, *outer, *start, *body[len(docstring) :]]


def _first(arguments: ast.arguments) -> str:
    named = [*arguments.posonlyargs, *arguments.args]
    return named[0].arg if named else ""


class _Converter(ast.NodeTransformer):
    """Converts the statements of one function; functions inside it have their own."""

    def __init__(self, body: Sequence[ast.AST], first: str) -> None:
        self.globals: set[str] = set()
        self._first = first
        self._reads: Counter[str] = reads_of(body)
        self._count = 0
        self._caught = 0
        """How many `try` statements are around the current one."""

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of a block, converted."""
        found: list[ast.stmt] = []
        for statement in statements:
            made = self.visit(statement)
            found += made if isinstance(made, list) else [made]
        return found

    # Statements

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        parts = self._parts([node])
        test, body, orelse = self.visit(node.test), self.block(node.body), self.block(node.orelse)
        blocks = [parts.function("body", body), parts.function("orelse", orelse)]
        names = [read(one.name) for one in blocks]
        return parts.statement(node, blocks, operator_call("if_", test, *names, parts.state))

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        parts = self._parts([node])
        test = self.visit(node.test)
        ending = getattr(node, "ag_ending", [])
        if ending:
            flags = operator_call("goes_on", *map(read, ending))
            test = operator_call("and_", thunk(flags), thunk(test))
        blocks = [
            parts.function("test", [ast.Return(test)]),
            parts.function("body", self.block(node.body)),
        ]
        names = [read(one.name) for one in blocks]
        call = operator_call("while_", *names, parts.state)
        return parts.statement(node, blocks, call) + self.block(node.orelse)

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        parts = self._parts([node])
        parts.renewed = renewed_names(node.target, node.body)
        ending = getattr(node, "ag_ending", [])
        first = located(ast.Assign([node.target], read("ag_item")), node.target)
        body = [first, *self.block(node.body)]
        blocks = [parts.function("body", body, "ag_item")]
        names = [read(blocks[0].name)]
        if ending:
            flags = operator_call("goes_on", *map(read, ending))
            blocks.append(parts.function("test", [ast.Return(flags)]))
            names.append(read(blocks[1].name))
        else:
            names.append(ast.Constant(None))
        iterable = self._iterable(node.iter)
        call = operator_call("for_", iterable, *names, parts.state)
        return parts.statement(node, blocks, call) + self.block(node.orelse)

    def _iterable(self, node: ast.expr) -> ast.expr:
        """Let an operator make the call in `for i in range(n)`, where `n` may be a tensor."""
        if not isinstance(node, ast.Call) or not dotted(node.func):
            return self.visit(node)  # type: ignore[no-any-return]
        made = self.generic_visit(node)
        assert isinstance(made, ast.Call)
        call = ast.Call(operator_of("iterable"), [made.func, *made.args], made.keywords)
        return located(call, node)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        if has_own([node], *_NOT_IN_THUNKS):
            return node
        self.generic_visit(node)
        message = ast.Constant(None) if node.msg is None else thunk(node.msg)
        return located(ast.Expr(operator_call("assert_", thunk(node.test), message)), node)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        self.generic_visit(node)
        if node.exc is None or node.cause is not None or self._caught:
            return node
        return located(ast.Raise(operator_call("raised", node.exc), None), node)

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        self._caught += 1
        node.body = self.block(node.body)
        self._caught -= 1
        for handler in node.handlers:
            handler.body = self.block(handler.body)
        node.orelse, node.finalbody = self.block(node.orelse), self.block(node.finalbody)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        if node.value is None:
            return located(ast.Pass(), node)
        return located(ast.Assign([node.target], self.visit(node.value)), node)

    def visit_Global(self, node: ast.Global) -> ast.stmt:
        return located(ast.Pass(), node)  # moved to the beginning of the function

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.stmt:
        return located(ast.Pass(), node)

    # Inner functions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        if not has_own(node.body, *_SUSPENDS) and not _FRAME_READERS & {*reads_of(node.body)}:
            _convert(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        if not has_own([node.body], *_SUSPENDS):
            self.generic_visit(node)
        return node

    # Expressions

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        if has_own([node], *_NOT_IN_THUNKS):
            return node
        self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return located(operator_call(name, *map(thunk, node.values)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return located(operator_call("not_", node.operand), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if has_own([node.body, node.orelse], *_NOT_IN_THUNKS):
            return node
        self.generic_visit(node)
        branches = thunk(node.body), thunk(node.orelse)
        return located(operator_call("if_expression", node.test, *branches), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1 or has_own([node], *_NOT_IN_THUNKS):
            self.generic_visit(node)
            return node
        self.generic_visit(node)
        pairs: list[ast.expr] = []
        for operation, operand in zip(node.ops, node.comparators, strict=True):
            pairs += [ast.Constant(type(operation).__name__), thunk(operand)]
        return located(operator_call("compare", node.left, *pairs), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name):
            return node
        if node.func.id == "super" and not node.args and self._first:
            node.args = [located(read("__class__"), node), located(read(self._first), node)]
        elif node.func.id in _BUILTINS:
            node.args.insert(0, node.func)
            node.func = located(operator_of("builtin"), node)
        return node

    def _parts(self, nodes: Sequence[ast.stmt]) -> _Parts:
        self._count += 1
        inside = reads_of(nodes)
        return _Parts(nodes, self.globals, self._reads - inside, self._count)


class _Parts:
    """The functions that a converted statement consists of."""

    def __init__(
        self, nodes: Sequence[ast.stmt], shared: set[str], reads: Counter[str], number: int
    ) -> None:
        self._number, self._like = number, nodes[0]
        self.renewed: set[str] = set()
        """The names that each round of a loop binds before it reads them."""
        self._names = assigned_names(nodes)
        owners = {*self._names}
        attributes = assigned_attributes(nodes)
        self._attributes = [one for one in attributes if one.partition(".")[0] not in owners]
        is_branch = isinstance(nodes[0], ast.If)
        self._kind = "BranchState" if is_branch else "State"
        self._containers = changed_containers(nodes, is_branch)
        self._globals = [name for name in self._names if name in shared]
        self._locals = [name for name in self._names if name not in shared]
        self._is_read = [
            *[reads[name] > 0 or name in shared for name in self._names],
            *[True] * len(self._attributes),
        ]

    def function(self, name: str, body: list[ast.stmt], *parameters: str) -> ast.FunctionDef:
        """Return a function that assigns to the variables of the function around it."""
        body = [*self._declarations(), *body]
        made = define(f"ag_{name}_{self._number}", body, *parameters)
        assert isinstance(made, ast.FunctionDef)
        return made

    def _declarations(self) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        if self._locals:
            found.append(ast.Nonlocal(self._locals))
        if self._globals:
            found.append(ast.Global(self._globals))
        return found

    @property
    def state(self) -> ast.expr:
        """The call that makes the state of the statement; see state.py."""
        names: list[ast.expr] = [ast.Constant(name) for name in self._symbols]
        is_read: list[ast.expr] = [ast.Constant(one) for one in self._is_read]
        renewed: list[ast.expr] = [ast.Constant(name in self.renewed) for name in self._symbols]
        functions = [read(f"ag_{what}_{self._number}") for what in ("get", "set", "containers")]
        tuples = [ast.Tuple(entries, ast.Load()) for entries in (names, is_read, renewed)]
        return operator_call(self._kind, *functions, *tuples)

    @property
    def _symbols(self) -> list[str]:
        return [*self._names, *self._attributes]

    def statement(
        self, node: ast.stmt, blocks: Sequence[ast.FunctionDef], call: ast.expr
    ) -> list[ast.stmt]:
        """Return the definitions of all functions, and the call of the operator."""
        get = define(f"ag_get_{self._number}", [ast.Return(_values(self._symbols))])
        containers = define(
            f"ag_containers_{self._number}", [ast.Return(_values(self._containers))]
        )
        made = [*blocks, get, self._set(), containers, ast.Expr(call)]
        return [located(one, node) for one in made]

    def _set(self) -> ast.stmt:
        body = self._declarations()
        for place, name in enumerate(self._symbols):
            value = ast.Subscript(read("ag_values"), ast.Constant(place), ast.Load())
            body += _set_name(name, value) if name in self._names else _set_attribute(name, value)
        return define(f"ag_set_{self._number}", body, "ag_values")


def _values(names: Sequence[str]) -> ast.expr:
    entries = [operator_call("value_of", thunk(read(name))) for name in names]
    return ast.Tuple(entries, ast.Load())


def _set_name(name: str, value: ast.expr) -> list[ast.stmt]:
    """Assign to a name, or make it unbound."""
    undefined = ast.Compare(read(name), [ast.Is()], [operator_of("UNDEFINED")])
    delete = ast.Delete([ast.Name(name, ast.Del())])
    return [
        ast.Assign([ast.Name(name, ast.Store())], value),
        ast.If(undefined, [delete], []),
    ]


def _set_attribute(name: str, value: ast.expr) -> list[ast.stmt]:
    """Assign to an attribute, or delete it, if it has another value."""
    found = read(name)
    assert isinstance(found, ast.Attribute)
    store = ast.Attribute(found.value, found.attr, ast.Store())
    delete = ast.Attribute(found.value, found.attr, ast.Del())
    return [
        ast.If(
            operator_call("is_set_to_other", thunk(found), value),
            [ast.Assign([store], value)],
            [ast.If(operator_call("is_deleted", thunk(found), value), [ast.Delete([delete])], [])],
        )
    ]
