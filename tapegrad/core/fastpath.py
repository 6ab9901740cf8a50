"""The path that eager operations take: one or two tensors in, one out, nobody listening.

`one_operand` and `two_operands` return functions that do what `Primitive.__call__` does, spelled
out for this case. Everything else (variables inside vmap, lists, raw arrays, listeners, values
that only some tapes follow) falls through to the general code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tapegrad.core.primitive import (
    Primitive,
    bind_any,
    broadcast_fit,
    dtype_fit,
    execute,
    explain_failure,
    record,
)
from tapegrad.core.recorder import NO_PARAMS, Node, active_stack, next_order
from tapegrad.core.recovery import run_again
from tapegrad.core.rule import source_of
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.core.variable import Variable

Function = Callable[..., Any]

_REAL_NUMBERS = frozenset({float, int, bool})
_new = object.__new__


def one_operand(primitive: Primitive, params: dict[str, Any] = NO_PARAMS) -> Function:
    """Return the function of one tensor that applies `primitive` with fixed params."""
    kernels = _kernels_with(primitive, params)
    save = saver(primitive, (True,))
    fit = None if primitive.broadcasts else dtype_fit

    def call(x: Any, name: str | None = None) -> Any:
        if type(x) is not Tensor:
            x = x.value() if type(x) is Variable else x
            if type(x) is not Tensor:
                return bind_any(primitive, (x,), params)
        array = x.array
        try:
            result = kernels[type(array)](array)
        except KeyError:
            return _first_time(primitive, params, kernels, (array,), (x.node,))
        except (ValueError, TypeError) as error:
            explain_failure(primitive, (array,), error)
        except MemoryError as error:
            again = partial(kernels[type(array)], array)
            result = run_again(primitive.name, (array,), again, error, (x.node,))
        tensor: Tensor = _new(Tensor)
        tensor.array = result
        source = x.node
        if source is None:
            tensor.node = None
            return tensor
        stack = active_stack()
        tokens = source.tokens
        if tokens is stack.tokens and save is not None and not stack.listeners:
            node: Node = _new(Node)
            node.order = next_order()
            node.tokens = tokens
            node.primitive = primitive
            node.params = params
            node.inputs = (source,)
            node.saved = save if type(save) is tuple else save(array, None, result)
            node.fit = None if fit is None else fit((array,), result)
            node.tangents = None
            tensor.node = node
        else:
            tensor.node = record(stack, primitive, params, (array,), (source,), result)
        return tensor

    return call


def two_operands(
    primitive: Primitive, params: dict[str, Any] = NO_PARAMS, bind: Function = bind_any
) -> Function:
    """Return the function of two tensors that applies `primitive` with fixed params.

    The second may be a Python number if the primitive broadcasts. `bind` takes all that is neither
    tensor nor number; the function's `with_bind` returns the same function with another one.
    """
    kernels = _kernels_with(primitive, params)
    broadcasts = primitive.broadcasts
    numbers = _REAL_NUMBERS if broadcasts else frozenset()
    fit = broadcast_fit if broadcasts else dtype_fit
    save1 = saver(primitive, (True, False))
    save2 = saver(primitive, (False, True))
    save12 = saver(primitive, (True, True))

    def with_number_first(x: Any, y: Tensor) -> Any:
        b = y.array
        try:
            result = kernels[type(b)](x, b)
        except KeyError:
            return _first_time(primitive, params, kernels, (x, b), (None, y.node))
        except (ValueError, TypeError) as error:
            explain_failure(primitive, (x, b), error)
        except MemoryError as error:
            again = partial(kernels[type(b)], x, b)
            result = run_again(primitive.name, (b,), again, error, (y.node,))
        node = y.node
        if node is not None:
            node = record(active_stack(), primitive, params, (x, b), (None, node), result)
        return wrap(result, node)

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        if type(x) is not Tensor:
            if type(x) in numbers and type(y) is Tensor:
                return with_number_first(x, y)
            x = x.value() if type(x) is Variable else x
            if type(x) is not Tensor:
                return bind(primitive, (x, y), params)
        a = x.array
        node1 = x.node
        if type(y) is Variable:
            y = y.value()
        if type(y) is Tensor:
            b = y.array
            node2 = y.node
            if type(a) is not type(b):
                return execute(primitive, [a, b], (node1, node2), params)
        elif type(y) in numbers:
            b = y
            node2 = None
        else:
            return bind(primitive, (x, y), params)
        try:
            result = kernels[type(a)](a, b)
        except KeyError:
            return _first_time(primitive, params, kernels, (a, b), (node1, node2))
        except (ValueError, TypeError) as error:
            explain_failure(primitive, (a, b), error)
        except MemoryError as error:
            again = partial(kernels[type(a)], a, b)
            result = run_again(primitive.name, (a,), again, error, (node1, node2))
        tensor: Tensor = _new(Tensor)
        tensor.array = result
        if node1 is None and node2 is None:
            tensor.node = None
            return tensor
        stack = active_stack()
        tokens = stack.tokens
        save = save1 if node2 is None else save2 if node1 is None else save12
        if (
            save is not None
            and (node1 is None or node1.tokens is tokens)
            and (node2 is None or node2.tokens is tokens)
            and not stack.listeners
        ):
            node: Node = _new(Node)
            node.order = next_order()
            node.tokens = tokens
            node.primitive = primitive
            node.params = params
            node.inputs = (node1, node2)
            node.saved = save if type(save) is tuple else save(a, b, result)
            if b is y or (not broadcasts and a.dtype is b.dtype):
                node.fit = None
            elif a.dtype is b.dtype:
                shape1, shape2 = a.shape, b.shape
                node.fit = None if shape1 == shape2 else ((shape1, None), (shape2, None))
            else:
                node.fit = fit((a, b), result)
            node.tangents = None
            tensor.node = node
        else:
            tensor.node = record(stack, primitive, params, (a, b), (node1, node2), result)
        return tensor

    call.with_bind = partial(two_operands, primitive, params)  # type: ignore[attr-defined]
    return call


def _kernels_with(primitive: Primitive, params: dict[str, Any]) -> dict[type, Function]:
    """The primitive's own table, or an empty one for kernels with the params filled in."""
    return {} if params else primitive.kernels


def _first_time(
    primitive: Primitive,
    params: dict[str, Any],
    kernels: dict[type, Function],
    operands: tuple[Any, ...],
    nodes: tuple[Node | None, ...],
) -> Any:
    """Find the kernel for a type of arrays that was not met before."""
    kind = next(type(operand) for operand in operands if type(operand) not in _REAL_NUMBERS)
    kernel = primitive.kernel(kind)
    kernels[kind] = _bound(kernel, params) if params else kernel
    return execute(primitive, list(operands), nodes, params)


def _bound(kernel: Function, params: dict[str, Any]) -> Function:
    """The kernel with its params filled in, in the kernel's own way if it has one."""
    bound: Function | None = getattr(kernel, "bound", None)
    return partial(kernel, **params) if bound is None else bound(params)


def saver(primitive: Primitive, followed: tuple[bool, ...]) -> Any:
    """What a node of this primitive saves when these inputs are followed.

    A tuple if it is the same each time; a function of both operands and the result, compiled
    from what the rules read; None if an input that is followed has no rule.
    """
    rules = primitive.vjp_rules or (None,) * len(followed)
    if any(flag and rule is None for rule, flag in zip(rules, followed, strict=True)):
        return None
    wanted = [rule if flag else None for rule, flag in zip(rules, followed, strict=True)]
    if not any(rule is not None and rule.reads for rule in wanted):
        return tuple(None if rule is None else () for rule in wanted)
    parts = ["None" if rule is None else source_of(rule.reads, "ab", "y") for rule in wanted]
    return eval(f"lambda a, b, y: ({', '.join(parts)},)")


Primitive.make_fast = staticmethod(one_operand)
