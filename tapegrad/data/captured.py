"""The values that a function of a pipeline reads from the code around it.

TensorFlow records such a function when the step is made, so that it keeps the values of that
moment: in a loop, each dataset keeps its own loop variable. Here functions run when the dataset is
read. They get copies of the variables that they read, unless they also assign to them.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Callable, Iterator
from functools import update_wrapper
from types import CellType, CodeType, FunctionType
from typing import Any

_STORES = ("STORE_DEREF", "DELETE_DEREF")
_GLOBAL_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL")
_READERS = {"globals", "eval", "exec"}
"""Functions that may read any global variable."""


def with_current_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose free and global variables keep their present values.

    >>> functions = [with_current_values(lambda x: x + n) for n in range(3)]
    >>> [function(10) for function in functions]
    [10, 11, 12]
    """
    if type(function) is not FunctionType:
        return function
    codes = list(_codes(function.__code__))
    steps = [step for code in codes for step in dis.get_instructions(code)]
    stored = {step.argval for step in steps if step.opname in _STORES}
    pairs = zip(function.__code__.co_freevars, function.__closure__ or ())
    cells = tuple([cell if name in stored else _copied(cell) for name, cell in pairs])
    loaded = {step.argval for step in steps if step.opname == "LOAD_GLOBAL"}
    are_global = any([step.opname in _GLOBAL_STORES for step in steps])
    made = FunctionType(
        function.__code__,
        function.__globals__ if are_global else _copied_globals(function, codes, loaded),
        function.__name__,
        function.__defaults__,
        cells or None,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return update_wrapper(made, function)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _copied(cell: CellType) -> CellType:
    try:
        return CellType(cell.cell_contents)
    except ValueError:  # nothing is assigned to it yet
        return cell


def _copied_globals(
    function: FunctionType, codes: list[CodeType], loaded: set[str]
) -> dict[str, Any]:
    """Return the global variables that a function names, or all if one is not defined yet."""
    names = function.__globals__
    unknown = [name for name in loaded if name not in names and not hasattr(builtins, name)]
    if unknown or loaded & _READERS:
        return names
    wanted = {name for code in codes for name in code.co_names} | {"__builtins__", "__name__"}
    return {name: names[name] for name in wanted if name in names}
