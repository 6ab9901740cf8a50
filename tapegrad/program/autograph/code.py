"""Compile a converted function to a code object that can take the place of the original one."""

from __future__ import annotations
import __future__

import ast
from types import CodeType, ModuleType
from typing import Any

from tapegrad.program.autograph.source import Function, NotConvertible, tree_of
from tapegrad.program.autograph.statements import converted_tree
from tapegrad.program.autograph.syntax import RUNTIME, define, located

_FUTURE = __future__.annotations.compiler_flag
_FACTORY = "ag_factory"


def converted_code(code: CodeType, operators: ModuleType) -> CodeType:
    """Return the code of a function with its control flow converted.

    It has the same parameters and free variables. Its lines are those of the source, so tracebacks
    show the user's file.
    """
    tree, owner = tree_of(code)
    tree = _bare(converted_tree(tree))
    module = ast.Module([_factory(tree, owner, code)], [])
    ast.fix_missing_locations(module)
    try:
        made = compile(module, code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise NotConvertible(f"{code.co_name!r} cannot be converted: {error}") from error
    found = _named(made, code.co_name)
    if found is None or found.co_freevars != code.co_freevars:
        raise NotConvertible(f"{code.co_name!r} has other free variables after its conversion")
    return _with_operators(found, operators).replace(co_qualname=code.co_qualname)


def _bare(tree: Function) -> Function:
    """Remove what belongs to the function object: defaults, decorators and annotations."""
    arguments = tree.args
    arguments.defaults = []
    arguments.kw_defaults = [None for _ in arguments.kwonlyargs]
    for one in ast.walk(arguments):
        if isinstance(one, ast.arg):
            one.annotation = None
    if isinstance(tree, ast.FunctionDef):
        tree.decorator_list, tree.returns = [], None
    return tree


def _factory(tree: Function, owner: str, code: CodeType) -> ast.stmt:
    """Return a function around the tree that has its free variables, and its class if any.

    The names of the class's private attributes depend on the name of the class.
    """
    inner: ast.stmt = ast.Expr(tree) if isinstance(tree, ast.Lambda) else tree
    if owner:
        inner = ast.ClassDef(owner, [], [], [inner], [])
    free: list[ast.stmt] = [
        ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in code.co_freevars
    ]
    # What is global stays global, although the factory defines it.
    name = owner or getattr(tree, "name", "")
    if name and name not in code.co_freevars:
        free.insert(0, ast.Global([name]))
    return located(define(_FACTORY, [*free, inner]), tree)


def _named(code: CodeType, name: str) -> CodeType | None:
    """Return the outermost code with a name among the constants of a code object."""
    found = [one for one in code.co_consts if isinstance(one, CodeType)]
    while found:
        for one in found:
            if one.co_name == name:
                return one
        found = [two for one in found for two in one.co_consts if isinstance(two, CodeType)]
    return None


def _with_operators(code: CodeType, operators: ModuleType) -> CodeType:
    def replaced(constant: Any) -> Any:
        if isinstance(constant, CodeType):
            return _with_operators(constant, operators)
        return operators if isinstance(constant, str) and constant == RUNTIME else constant

    return code.replace(co_consts=tuple([replaced(one) for one in code.co_consts]))


def inner_codes(code: CodeType) -> list[CodeType]:
    """Return a code object and those of the functions inside it."""
    found = [one for one in code.co_consts if isinstance(one, CodeType)]
    return [code, *[two for one in found for two in inner_codes(one)]]
