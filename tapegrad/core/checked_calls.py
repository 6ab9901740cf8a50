"""Public functions refuse wrong arguments in one way: `check_calls` adds the checks to a face.

A parameter's annotation says what it accepts (`int`, `bool`, `float`, `str`, None), and so does its
name where the annotation is `Any` (`axis`, `shape`, ...). These arguments are checked before the
function runs, so that a fraction is never cut and text is never read as digits. If an argument of
another kind makes an inner line fail, its error is raised again with the name of the argument.
Errors of the caller's own code, such as a function that was passed in, are left alone.

The function object stays the same, with new code. A wrapper would be another object, and tables
that look functions up by identity (activations, recorded operations, pickles) would miss it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import count, islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tapegrad.core.argument_checks import (
    FLAG,
    INTEGER,
    INTEGERS,
    INTEGRAL,
    LARGEST,
    NOTHING,
    NUMBER,
    TEXT,
    Kind,
    check_whole,
    refuse,
)
from tapegrad.core.exports import list_exports
from tapegrad.core.symbolic_calls import Answer, symbolic_answer

_BY_ANNOTATION = {
    "int": INTEGER,
    "bool": FLAG,
    "float": NUMBER,
    "str": TEXT,
    "None": NOTHING,
    "Sequence[int]": INTEGERS,
    "Sequence[int | None]": INTEGERS,
    "tuple[int, ...]": INTEGERS,
}

# Parameters annotated `Any` that are of one kind, or None, in every function.
_NAMES = {
    "whole": "axis axes num_segments repeats",
    "sizes": (
        "shape newshape dims size output_shape strides dilations dilation_rate ksize kernel_size "
        "pool_size block_shape reps noise_shape"
    ),
    "float": "q rtol atol rcond tol xtol ftol gtol epsilon l2_regularizer weight_decay",
    "bool": "training stable density has_aux derivative",
}
_BY_NAME = {
    name: (kind,) if kind in ("whole", "sizes") else (kind, "None")
    for kind, names in _NAMES.items()
    for name in names.split()
}

_WITH_BOUNDS = ("tapegrad.data", "tapegrad.keras.layers", "tapegrad.keras.models")
"""Modules that compare sizes with bounds, and say what is allowed."""

_WITH_INTEGRAL_FLOATS = ("tapegrad.scipy", "tapegrad.special_functions")
"""Modules whose models take a float such as 2.0 as an order or a degree."""

# What the generated code tests first: the usual values of a kind, without a call. The items of
# a tuple or a list are checked where they are used, by `check_wholes` or `normalize_axis`.
_USUAL = {
    ("int",): f"type({{0}}) is not int or {{0}} > {LARGEST} or {{0}} < -{LARGEST}",
    ("int", "None"): (
        f"{{0}} is not None and (type({{0}}) is not int or {{0}} > {LARGEST} or {{0}} < -{LARGEST})"
    ),
    ("bool",): "{0} is not False and {0} is not True",
    ("bool", "None"): "{0} is not None and {0} is not False and {0} is not True",
    ("str",): "type({0}) is not str",
    ("str", "None"): "{0} is not None and type({0}) is not str",
    ("float",): "type({0}) is not float",
    ("float", "None"): "{0} is not None and type({0}) is not float",
    ("whole",): (
        "{0} is not None and type({0}) is not int"
        " and type({0}) is not tuple and type({0}) is not list"
    ),
    ("sizes",): (
        "type({0}) is not tuple and type({0}) is not list"
        " and type({0}) is not int and {0} is not None"
    ),
}

_numbers = count()


def check_calls(
    names: dict[str, Any], exported: Iterable[str], methods: Collection[str] | None = None
) -> None:
    """Add the checks to the functions of a module and to the methods of its classes and objects.

    A module that exports public names calls this at its end: `check_calls(globals(), __all__)`.
    `methods` limits the checks of classes to these methods. Such a module lists only its exports
    in `dir()`.
    """
    list_exports(names)
    for name in exported:
        value = names.get(name)
        if isinstance(value, MethodType):
            value = value.__func__
        if isinstance(value, FunctionType):
            check_function(value)
        elif isinstance(value, type):
            check_class(value, methods)
        elif not isinstance(value, ModuleType):
            check_class(type(value), methods)


def check_class(cls: type, methods: Collection[str] | None = None) -> None:
    """Add the checks to the methods of a class that it or its bases in this package define."""
    for base in cls.__mro__:
        if not base.__module__.startswith("tapegrad") or issubclass(base, BaseException | tuple):
            continue
        for name, method in vars(base).items():
            if name in methods if methods else name in _CALLS or not name.startswith("_"):
                function = getattr(method, "__func__", method)  # of a class method
                if isinstance(function, FunctionType):
                    check_function(function)


_CALLS = ("__init__", "__call__")


def check_function(function: Any) -> Any:
    """Give a function code that checks its arguments; return the same function.

    >>> def double(x, times: int = 1):
    ...     return x * 2 ** times
    >>> check_function(double)(3, times=2)
    12
    >>> double(3, times=1.5)
    Traceback (most recent call last):
    tapegrad.errors.ArgumentKindError: double needs an integer for the argument times. Got 1.5.
    """
    if not can_be_checked(function):
        return function
    number = next(_numbers)
    _FUNCTIONS[number], _CODES[number] = function, function.__code__
    function.__globals__["_with_checks"] = _with_checks
    function.__code__ = _waiting_code(function.__code__, number)
    _checked.add(function)
    return function


_FUNCTIONS: dict[int, FunctionType] = {}
_CODES: dict[int, CodeType] = {}
"""The code of each function without its checks."""
_checked: set[Callable[..., Any]] = set()


def leave_unchecked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let `check_function` leave a function as it is: one that calls a checked one itself."""
    _checked.add(function)
    return function


def can_be_checked(function: Any) -> bool:
    """Return whether a function has no checks yet, and `check_function` can add them."""
    if not isinstance(function, FunctionType) or function in _checked:
        return False
    # The fast path of elementwise primitives names the primitive and its operands itself.
    if function.__globals__["__name__"] == "tapegrad.core.primitive.fastpath":
        return False
    generates = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    return not function.__code__.co_flags & generates


def check_kind(number: int, name: str, value: Any) -> None:
    """Raise an error if an argument is not of the kind of its parameter."""
    function = _FUNCTIONS[number]
    kinds, words, default = _accepted(number, name)
    is_size = "int" in _kinds_of(function, _CODES[number], name) and "seed" not in name
    if is_size and type(value) is int and abs(value) > LARGEST:
        check_whole(name, value, _title(function))
    if value is default or any([kind.accepts(value) for kind in kinds]):
        return
    if hasattr(type(value), "called_later") and function.__module__.startswith(_OF_TENSORS):
        return  # the value's class computes the result, or refuses the call
    refuse(_title(function), name, value, words)


def _answered_later(number: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Answer | None:
    """Return the result of a function of tensors that got symbolic values, or None."""
    function = _FUNCTIONS[number]
    is_of_tensors = function.__module__.startswith(_OF_TENSORS) and "." not in function.__qualname__
    return symbolic_answer(function, args, kwargs) if is_of_tensors else None


_OF_TENSORS = (
    "tapegrad.ops",
    "tapegrad.numpy",
    "tapegrad.keras.activations",
    "tapegrad.keras.backend",
    "tapegrad.special_functions",
)
"""Modules whose functions compute tensors, so that a call on symbolic values can be made later."""


def _title(function: Any) -> str:
    owner, _, name = function.__qualname__.rpartition(".")
    if name in ("__init__", "__call__"):
        return str(owner.rpartition(".")[2])
    return str(function.__name__)


@cache
def _accepted(number: int, name: str) -> tuple[list[Kind], str, Any]:
    function = _FUNCTIONS[number]
    parts = _kinds_of(function, _CODES[number], name)
    kinds = [_BY_ANNOTATION.get(part, INTEGERS) for part in parts]
    if function.__module__.startswith(_WITH_INTEGRAL_FLOATS):
        kinds = [INTEGRAL if kind is INTEGER else kind for kind in kinds]
    parameter = inspect.signature(function, follow_wrapped=False).parameters[name]
    return kinds, " or ".join(kind.words for kind in kinds), parameter.default


def _kinds_of(function: FunctionType, code: CodeType, name: str) -> tuple[str, ...]:
    """Return the annotation's alternatives if all are known, the kind of its name, or ()."""
    text = str(function.__annotations__.get(name, ""))
    is_bounded = "int" in text or text == "Any" or name in ("rate", "validation_split")
    if name == "name" or (is_bounded and function.__module__.startswith(_WITH_BOUNDS)):
        return ()
    if text in ("Any", ""):
        # The shape of a distribution is a parameter; its `size` is the shape of the draws.
        is_parameter = name == "shape" and not {"size", "loc"}.isdisjoint(code.co_varnames)
        return () if is_parameter else _BY_NAME.get(name, ())
    parts = tuple(text.split(" | ")) if "[" not in text else (text,)
    if parts == ("None",):  # a parameter that is not supported; the function says so
        return ()
    return parts if all(part in _BY_ANNOTATION for part in parts) else ()


def _waiting_code(code: CodeType, number: int) -> CodeType:
    """Return code with the same parameters that adds the checks when it is called first.

    Compiling the checks takes most of the time of `check_function`, and a program calls few of the
    functions that it imports. This code only passes its parameters on, so no compiler is needed.
    """
    count = sum(_parameters_of(code))
    stars = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    template = _waiting_template(len(code.co_freevars))
    return template.replace(
        co_argcount=code.co_argcount,
        co_posonlyargcount=code.co_posonlyargcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
        co_flags=template.co_flags | stars,
        co_nlocals=count,
        co_varnames=code.co_varnames[:count],
        co_freevars=code.co_freevars,
        co_consts=tuple([number if value == _PLACE else value for value in template.co_consts]),
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )


def _parameters_of(code: CodeType) -> tuple[int, int, bool, bool]:
    """Return how many parameters are positional, by keyword only, `*args`, and `**kwargs`."""
    flags = code.co_flags
    stars = bool(flags & inspect.CO_VARARGS), bool(flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount, code.co_kwonlyargcount, *stars


def _with_checks(number: int, values: dict[str, Any]) -> Callable[[], Any]:
    """Add the checks to a function that is called for the first time; return its call."""
    function, code = _FUNCTIONS[number], _CODES[number]
    _add_checks(function, code, number)
    positional, by_name, star, stars = _parameters_of(code)
    names = iter(code.co_varnames)
    args = [values[next(names)] for _ in range(positional)]
    kwargs = {name: values[name] for name in islice(names, by_name)}
    if star:
        args += values[next(names)]
    if stars:
        kwargs |= values[next(names)]
    return partial(function, *args, **kwargs)


def _add_checks(function: FunctionType, code: CodeType, number: int) -> None:
    """Give a function the code that checks its arguments and then runs `code`."""
    inner = FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)
    inner.__qualname__ = function.__qualname__
    inner.__defaults__, inner.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    inner.__dict__.update(function.__dict__)
    names = {f"_unchecked_{number}": inner, "_explained": _explained, "_check_kind": check_kind}
    function.__globals__.update(names, _answered_later=_answered_later)
    function.__code__ = _checking_code(function, code, number)


def _explained(*failed_call: Any) -> Exception | None:
    """Return the error of a failed call in the user's words; see `failed_calls`."""
    from tapegrad.core.failed_calls import explained  # slow to import

    return explained(*failed_call)


def _checking_code(function: FunctionType, code: CodeType, number: int) -> CodeType:
    """Return code with the parameters of a function that checks them and calls the inner one."""
    positional, by_name, star, stars = _parameters_of(code)
    own = code.co_varnames[: positional + by_name]
    names = code.co_varnames[: len(own) + star + stars]
    template = _template(
        positional,
        code.co_posonlyargcount,
        (star, stars),
        tuple([_test_of(function, code, name) for name in own]),
        code.co_freevars,
    )
    new_names: dict[Any, Any] = {f"p{i}": name for i, name in enumerate(names)}
    new_names |= {"_unchecked": f"_unchecked_{number}", _PLACE: number}

    def renamed(value: Any) -> Any:
        if type(value) is tuple:
            return tuple([renamed(item) for item in value])
        return new_names.get(value, value) if type(value) in (str, int) else value

    return template.replace(
        co_varnames=renamed(template.co_varnames),
        co_names=renamed(template.co_names),
        co_consts=renamed(template.co_consts),
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )


_PLACE = 815_000_000
"""Stands for the number of a function in a template."""


@cache
def _template(
    positional: int,
    positional_only: int,
    has_stars: tuple[bool, bool],
    tests: tuple[str | None, ...],
    cells: tuple[str, ...],
) -> CodeType:
    """Compile the code for all functions with such parameters, which are named p0, p1, ... here.

    Compiling is the expensive part of `check_function`, and many functions are alike.
    """
    names = [f"p{i}" for i in range(len(tests) + sum(has_stars))]
    plain, by_name = names[:positional], names[positional : len(tests)]
    star = [f"*{names[len(tests)]}"] if has_stars[0] else []
    stars = [f"**{names[-1]}"] if has_stars[1] else []
    before = [*plain[:positional_only], "/"] if positional_only else []
    parameters = [*before, *plain[positional_only:], *(star or (["*"] if by_name else []))]
    parameters += [*by_name, *stars]
    given = [*plain, *star, *[f"{name}={name}" for name in by_name], *stars]
    args = ", ".join([*plain, *star])
    kwargs = ", ".join([*[f"{name!r}: {name}" for name in by_name], *stars])
    lines = [
        f"def checked({', '.join(parameters)}):",
        *[
            f"  if {test.format(name)}: _check_kind({_PLACE}, {name!r}, {name})"
            for name, test in zip(names, tests, strict=False)
            if test
        ],
        "  try:",
        f"    return _unchecked({', '.join(given)})",
        "  except Exception as _error:",
        f"    _args, _kwargs = ({args}{',' if args else ''}), {{{kwargs}}}",
        f"    _answer = _answered_later({_PLACE}, _args, _kwargs)",
        "    if _answer is not None: return _answer.value",
        "    _other = _explained(_unchecked, _args, _kwargs, _error)",
        "    if _other is None: raise",
        "    raise _other from _other.__cause__",
    ]
    return _compiled(lines, ", ".join(cells))


@cache
def _waiting_template(cells: int) -> CodeType:
    """Compile the code of a function without parameters, to which `_waiting_code` adds them."""
    names = ", ".join([f"c{i}" for i in range(cells)])
    lines = ["def waiting():", f"  return _with_checks({_PLACE}, locals())()"]
    return _compiled(lines, names)


def _compiled(lines: Sequence[str], cells: str) -> CodeType:
    """Compile the lines of a function that names these variables of an outer function."""
    if cells:
        head, *body = lines
        lines = [head, f"  if 0: {cells}", *body]  # code must name the cells of its closure
        lines = [f"def outer({cells}):", *[f"  {line}" for line in lines]]
    found = compile("\n".join(lines), "<checks>", "exec", dont_inherit=True)
    for _ in range(2 if cells else 1):
        found = next(constant for constant in found.co_consts if isinstance(constant, CodeType))
    return found.replace(co_linetable=_on_one_line(len(found.co_code) // 2))


def _on_one_line(units: int) -> bytes:
    """Return a table of locations in which all instructions are on the line of the definition.

    An entry covers up to 8 code units. Its first byte has the kind 13, a line without columns, and
    the number of units less 1; its second is the difference to the line before. Tracebacks read it.
    """
    full, rest = divmod(units, 8)
    return b"\xef\x00" * full + (bytes((0xE8 + rest - 1, 0)) if rest else b"")


def _test_of(function: FunctionType, code: CodeType, name: str) -> str | None:
    """Return the condition under which an argument needs a closer look."""
    kinds = _kinds_of(function, code, name)
    return _USUAL.get(kinds, "True") if kinds else None
