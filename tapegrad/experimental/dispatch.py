"""Functions of tapegrad on extension types: handlers that users register.

A function that fails on such a value asks for a handler, so calls on tensors cost nothing more.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError

_ELEMENTWISE = ("tapegrad.ops.elementwise", "tapegrad.ops.casting")
_ALSO_ELEMENTWISE = ("identity", "ones_like", "stop_gradient", "zeros_like")


class _Handler(NamedTuple):
    """A function of a user, and the types of the arguments for which it is called."""

    function: Callable[..., Any]
    kinds: Any


_of_apis: dict[tuple[str, str], list[_Handler]] = {}
_unary: list[_Handler] = []
_binary: list[_Handler] = []


def dispatch_for_api(
    api: Callable[..., Any], *signatures: Mapping[str, Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that is called in place of `api` if its arguments have certain types.

    The types are those of its annotations, or of `signatures`, by the names of the parameters.

    >>> import tapegrad
    >>> class Pair(tapegrad.experimental.ExtensionType):
    ...     first: tapegrad.Tensor
    ...     second: tapegrad.Tensor
    >>> @dispatch_for_api(tapegrad.reduce_sum)
    ... def sum_of_pair(input_tensor: Pair, axis=None):
    ...     return tapegrad.reduce_sum(input_tensor.first + input_tensor.second, axis)
    >>> float(tapegrad.reduce_sum(Pair([1.0], [2.0])))
    3.0
    >>> unregister_dispatch_for(sum_of_pair)
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        chosen = [dict(one) for one in signatures] or [_annotations(function)]
        if not all(chosen):
            raise ArgumentError(
                f"{function.__name__} must annotate at least one parameter, which says for which "
                "types it is called."
            )
        handlers = _of_apis.setdefault(_identity(api), [])
        handlers.extend(_Handler(function, kinds) for kinds in chosen)
        return function

    return register


def dispatch_for_unary_elementwise_apis(
    x_type: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function `(api, x)` that is called for functions of the elements of one value.

    >>> import tapegrad
    >>> class Boxed(tapegrad.experimental.ExtensionType):
    ...     x: tapegrad.Tensor
    >>> @dispatch_for_unary_elementwise_apis(Boxed)
    ... def of_box(api, value):
    ...     return Boxed(api(value.x))
    >>> tapegrad.abs(Boxed([-1.0])).x.tolist()
    [1.0]
    >>> unregister_dispatch_for(of_box)
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _unary.append(_Handler(function, (x_type,)))
        return function

    return register


def dispatch_for_binary_elementwise_apis(
    x_type: Any, y_type: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function `(api, x, y)` that is called for functions of two values' elements.

    >>> import tapegrad
    >>> class Boxed(tapegrad.experimental.ExtensionType):
    ...     x: tapegrad.Tensor
    >>> @dispatch_for_binary_elementwise_apis(Boxed, Boxed)
    ... def of_boxes(api, a, b):
    ...     return Boxed(api(a.x, b.x))
    >>> tapegrad.add(Boxed([1.0]), Boxed([2.0])).x.tolist()
    [3.0]
    >>> unregister_dispatch_for(of_boxes)
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _binary.append(_Handler(function, (x_type, y_type)))
        return function

    return register


def unregister_dispatch_for(dispatch_target: Callable[..., Any]) -> None:
    """Let no function of tapegrad call a handler any longer.

    >>> unregister_dispatch_for(print)
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: print was not registered for any function.
    """
    found = False
    for handlers in (*_of_apis.values(), _unary, _binary):
        kept = [one for one in handlers if one.function is not dispatch_target]
        found |= len(kept) < len(handlers)
        handlers[:] = kept
    if not found:
        name = getattr(dispatch_target, "__name__", repr(dispatch_target))
        raise ArgumentError(f"{name} was not registered for any function.")


def dispatched(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of the first handler whose types fit the arguments."""
    for handler in reversed(_of_apis.get(_identity(function), [])):
        given = _named(function, args, kwargs)
        if all(name in given and _fits(given[name], kind) for name, kind in handler.kinds.items()):
            return handler.function(**given)
    if _is_elementwise(function):
        for handlers, count in ((_binary, 2), (_unary, 1)):
            for handler in reversed(handlers):
                operands, rest = args[:count], args[count:]
                if len(operands) == count and all(map(_fits, operands, handler.kinds)):
                    return handler.function(_with_options(function, rest, kwargs), *operands)
    kinds = ", ".join(sorted({type(one).__name__ for one in _entries([*args, *kwargs.values()])}))
    raise ArgumentTypeError(
        f"{function.__name__} does not take {kinds}. Register a function for these types with "
        "tapegrad.experimental.dispatch_for_api."
    )


def _with_options(function: Any, rest: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return lambda *operands: function(*operands, *rest, **kwargs)


def _entries(values: Iterable[Any]) -> list[Any]:
    return [
        one
        for value in values
        for one in (value if isinstance(value, list | tuple) else [value])
        if hasattr(type(one), "called_later")
    ]


def _identity(function: Any) -> tuple[str, str]:
    plain = inspect.unwrap(function)
    return str(getattr(plain, "__module__", "")), str(getattr(plain, "__name__", plain))


def _is_elementwise(function: Any) -> bool:
    primitive = getattr(function, "primitive", None)
    if primitive is not None and primitive.by_element:
        return True
    module, name = _identity(function)
    return name in _ALSO_ELEMENTWISE or module.startswith(_ELEMENTWISE)


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    found = get_type_hints(function)
    return {name: kind for name, kind in found.items() if name != "return"}


def _named(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, without those that have their default."""
    signature = inspect.signature(inspect.unwrap(function))
    given = signature.bind(*args, **kwargs).arguments
    return {
        name: value
        for name, value in given.items()
        if value is not signature.parameters[name].default
    }


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type: a class, a union, or a list or tuple of types."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin in (list, tuple):
        of = inner[0] if inner else Any
        return isinstance(value, list | tuple) and all(_fits(one, of) for one in value)
    if kind is Tensor:
        return hasattr(value, "shape") and not hasattr(type(value), "called_later")
    return isinstance(value, kind) if isinstance(kind, type) else True
