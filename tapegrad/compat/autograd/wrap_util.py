"""Conversion of operators on functions of one argument to functions of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.arguments import check_function
from tapegrad.errors import ArgumentError, ArgumentTypeError

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]


def unary_to_nary(unary_operator: Function) -> Function:
    """Decorate `operator(fun, x)` to get `operator(fun, argnum=0)(*args, **kwargs)`.

    `argnum` may be a tuple or list of numbers; `x` is then the tuple of those arguments.

    >>> @unary_to_nary
    ... def doubled_argument(fun, x):
    ...     return fun(2 * x)
    >>> doubled_argument(lambda a, b: a - b, 1)(10, 3)
    4
    """

    @wraps(unary_operator)
    def nary_operator(fun: Function, argnum: Any = 0, *op_args: Any, **op_kwargs: Any) -> Function:
        _check_argnum(argnum)
        check_function(fun, get_name(unary_operator))
        name, words = get_name(fun), get_doc(fun)

        @wrap_nary_f(fun, unary_operator, argnum)
        def nary_f(*args: Any, **kwargs: Any) -> Any:
            _check_count(fun, argnum, args)

            def unary_f(x: Any) -> Any:
                if argnum == 0:
                    return fun(x, *args[1:], **kwargs)
                values = list(args)
                pairs = [(argnum, x)] if isinstance(argnum, int) else zip(argnum, x, strict=True)
                for number, value in pairs:
                    values[number] = value
                return fun(*values, **kwargs)

            unary_f.__name__, unary_f.__doc__ = name, words
            x = args[argnum] if isinstance(argnum, int) else tuple(args[i] for i in argnum)
            return unary_operator(unary_f, x, *op_args, **op_kwargs)

        return nary_f

    return nary_operator


def _check_argnum(argnum: Any) -> None:
    if type(argnum) not in (int, tuple, list):
        raise ArgumentTypeError(
            f"argnum must be an int, or a tuple or list of ints. Got {argnum!r}."
        )


def _check_count(fun: Any, argnum: Any, args: tuple[Any, ...]) -> None:
    for number in (argnum,) if isinstance(argnum, int) else argnum:
        if not -len(args) <= number < len(args):
            raise ArgumentError(
                f"{get_name(fun)} is differentiated with respect to positional argument {number}, "
                f"but was called with {len(args)}."
            )


def wraps(fun: Any, namestr: str = "{fun}", docstr: str = "{doc}", **kwargs: Any) -> Decorator:
    """Decorate a function with the name and docstring of another one, formatted by patterns.

    >>> wraps(len, "my_{fun}")(lambda x: x).__name__
    'my_len'
    """

    def decorate(f: Function) -> Function:
        try:
            f.__name__ = namestr.format(fun=get_name(fun), **kwargs)
            f.__doc__ = docstr.format(fun=get_name(fun), doc=get_doc(fun), **kwargs)
        except (AttributeError, KeyError, ValueError):
            return f  # callables without a name stay without
        return f

    return decorate


def wrap_nary_f(fun: Any, op: Any, argnum: Any) -> Decorator:
    """Decorate the result of an operator, so that its name describes it."""
    return wraps(
        fun,
        "{op}_of_{fun}_wrt_argnum_{argnum}",
        "    {op} of function {fun} with respect to argument number {argnum}.\n",
        op=get_name(op),
        argnum=argnum,
    )


def get_name(f: Any) -> str:
    """Return a function's name, or a placeholder."""
    return str(getattr(f, "__name__", "[unknown name]"))


def get_doc(f: Any) -> str:
    """Return a function's docstring, or an empty string."""
    return str(getattr(f, "__doc__", "") or "")
