"""TensorFlow's `tf.autograph`: the conversion of Python control flow on tensors, to look at.

`tapegrad.function` converts functions by itself, when a recording needs it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence as _absence
from tapegrad.autograph import experimental
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.errors import ArgumentTypeError
from tapegrad.program.autograph.source import NotConvertible, tree_of
from tapegrad.program.autograph.statements import converted_tree
from tapegrad.program.autograph.syntax import RUNTIME

__all__ = ["experimental", "set_verbosity", "to_code", "to_graph"]


def to_code(entity: Callable[..., Any], recursive: bool = True, **unused: Any) -> str:
    """Return the source of a function as `tapegrad.function` converts it, to read it.

    The functions that it calls are converted when they are called. Arguments by other names are
    accepted and ignored.

    >>> to_code(abs)
    Traceback (most recent call last):
    tapegrad.errors.ArgumentTypeError: to_code takes a Python function with source code. Got abs.
    """
    function = getattr(entity, "python_function", entity)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        name = getattr(entity, "__name__", repr(entity))
        raise ArgumentTypeError(f"to_code takes a Python function with source code. Got {name}.")
    try:
        tree = converted_tree(tree_of(code)[0])
    except NotConvertible as error:
        raise ArgumentTypeError(f"to_code cannot convert this function: {error}.") from error
    return ast.unparse(ast.fix_missing_locations(tree)).replace(repr(RUNTIME), "ag__")


def to_graph(entity: Callable[..., Any], recursive: bool = True, **unused: Any) -> Any:
    """Return the function itself: it is converted inside functions that are recorded.

    >>> to_graph(abs)(-2)
    2
    """
    return entity


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Accept TensorFlow's level of messages and change nothing: there are no such messages.

    >>> set_verbosity(3)
    """


_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absence("autograph", name)
