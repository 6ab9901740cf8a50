"""Fast path of eager operations: one or two tensors in, one tensor out, no listeners.

`one_operand` and `two_operands` return specialised versions of `Primitive.__call__`. All other
cases (variables inside vmap, lists, raw arrays, listeners, values that only some tapes track) fall
through to the general code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from tapegrad.core.backend.capabilities import BindableKernel
from tapegrad.core.out_of_memory import recover
from tapegrad.core.primitive.checked_kernel import eager_kernel
from tapegrad.core.primitive.kernel_errors import EXPLAINED, explain_failure
from tapegrad.core.primitive.primitive import (
    Primitive,
    bind_any,
    broadcast_specs,
    dtype_specs,
    execute,
    record,
)
from tapegrad.core.primitive.rule import source_of
from tapegrad.core.recorder import NO_PARAMS, Node, active_stack, next_order
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable

Function = Callable[..., Any]

_REAL_NUMBERS = frozenset({float, int, bool})
_UNKNOWN = object()
_FOLLOWED = ((True, False), (False, True), (True, True))
_new = object.__new__


def one_operand(primitive: Primitive, params: dict[str, Any] = NO_PARAMS) -> Function:
    """Return the function of one tensor that applies `primitive` with fixed params."""
    kernels = _kernels_with(primitive, params)
    save: Any = _UNKNOWN
    specs_of = None if primitive.broadcasts else dtype_specs

    def call(x: Any, name: str | None = None) -> Any:
        nonlocal save
        if type(x) is not Tensor:
            x = x.shared_value() if type(x) is Variable else x
            if type(x) is not Tensor:
                return bind_any(primitive, (x,), params)
        array = x.array
        try:
            result = kernels[type(array)](array)
        except KeyError:
            return _first_time(primitive, params, kernels, (array,), (x.node,))
        except EXPLAINED as error:
            explain_failure(primitive.name, (array,), error)
        except MemoryError as error:
            again = partial(kernels[type(array)], array)
            result = recover(primitive.name, (array,), again, error, (x.node,))
        tensor: Tensor = _new(Tensor)
        tensor.array = result
        source = x.node
        if source is None:
            tensor.node = None
            return tensor
        stack = active_stack()
        tokens = source.tokens
        if save is _UNKNOWN:
            save = saver(primitive, (True,))
        if tokens is stack.tokens and save is not None and not stack.listeners:
            node: Node = _new(Node)
            node.order = next_order()
            node.tokens = tokens
            node.primitive = primitive
            node.params = params
            node.inputs = (source,)
            node.saved = save if type(save) is tuple else save(array, None, result)
            node.specs = None if specs_of is None else specs_of((array,), result)
            node.tangents = None
            tensor.node = node
        else:
            tensor.node = record(stack, primitive, params, (array,), (source,), result)
        return tensor

    if params:
        primitive.bound_kernels[call] = kernels
    return call


def two_operands(
    primitive: Primitive, params: dict[str, Any] = NO_PARAMS, bind: Function = bind_any
) -> Function:
    """Return the function of two tensors that applies `primitive` with fixed params.

    Either may be a Python number if the primitive broadcasts. All other operands go to `bind`.
    The `with_bind` attribute of the result returns the same function with another `bind`.
    """
    kernels = _kernels_with(primitive, params)
    broadcasts = primitive.broadcasts
    numbers = _REAL_NUMBERS if broadcasts else frozenset()
    specs_of = broadcast_specs if broadcasts else dtype_specs
    savers: list[Any] = []

    def with_number_first(x: Any, y: Tensor) -> Any:
        b = y.array
        try:
            result = kernels[type(b)](x, b)
        except KeyError:
            return _first_time(primitive, params, kernels, (x, b), (None, y.node))
        except EXPLAINED as error:
            explain_failure(primitive.name, (x, b), error)
        except MemoryError as error:
            again = partial(kernels[type(b)], x, b)
            result = recover(primitive.name, (b,), again, error, (y.node,))
        node = y.node
        if node is not None:
            node = record(active_stack(), primitive, params, (x, b), (None, node), result)
        return wrap(result, node)

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        if type(x) is not Tensor:
            if type(x) in numbers and type(y) is Tensor:
                return with_number_first(x, y)
            x = x.shared_value() if type(x) is Variable else x
            if type(x) is not Tensor:
                return bind(primitive, (x, y), params)
        a = x.array
        node1 = x.node
        if type(y) is Variable:
            y = y.shared_value()
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
        except EXPLAINED as error:
            explain_failure(primitive.name, (a, b), error)
        except MemoryError as error:
            again = partial(kernels[type(a)], a, b)
            result = recover(primitive.name, (a,), again, error, (node1, node2))
        tensor: Tensor = _new(Tensor)
        tensor.array = result
        if node1 is None and node2 is None:
            tensor.node = None
            return tensor
        stack = active_stack()
        tokens = stack.tokens
        if not savers:
            savers.extend([saver(primitive, followed) for followed in _FOLLOWED])
        save = savers[0 if node2 is None else 1 if node1 is None else 2]
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
                node.specs = None
            elif a.dtype is b.dtype:
                shape1, shape2 = a.shape, b.shape
                node.specs = None if shape1 == shape2 else ((shape1, None), (shape2, None))
            else:
                node.specs = specs_of((a, b), result)
            node.tangents = None
            tensor.node = node
        else:
            tensor.node = record(stack, primitive, params, (a, b), (node1, node2), result)
        return tensor

    if params:
        primitive.bound_kernels[call] = kernels
    call.with_bind = partial(two_operands, primitive, params)  # type: ignore[attr-defined]
    return call


def _kernels_with(primitive: Primitive, params: dict[str, Any]) -> dict[type, Function]:
    """The primitive's kernel table, or a new one for kernels with bound params."""
    return {} if params else primitive.kernels


def _first_time(
    primitive: Primitive,
    params: dict[str, Any],
    kernels: dict[type, Function],
    operands: tuple[Any, ...],
    nodes: tuple[Node | None, ...],
) -> Any:
    """Look up the kernel for an array type that is not in the table, and run it."""
    array_type = next(type(operand) for operand in operands if type(operand) not in _REAL_NUMBERS)
    kernel = primitive.kernel(array_type)
    if params:
        bound = _bound(kernel, params)
        kernels[array_type] = eager_kernel(primitive.name, array_type, bound)
    return execute(primitive, list(operands), nodes, params)


def _bound(kernel: Function, params: dict[str, Any]) -> Function:
    """Bind params to a kernel, by the kernel's `bound` method if it has one."""
    if isinstance(kernel, BindableKernel):
        return kernel.bound(params)
    return partial(kernel, **params)


def saver(primitive: Primitive, followed: tuple[bool, ...]) -> Any:
    """Return what a node of this primitive saves if the inputs in `followed` are tracked.

    The result is a tuple if no rule reads a value, otherwise a compiled function of both operands
    and the result. It is None if a tracked input has no rule.
    """
    rules = primitive.vjp_rules or (None,) * len(followed)
    if any(flag and rule is None for rule, flag in zip(rules, followed, strict=True)):
        return None
    wanted = [rule if flag else None for rule, flag in zip(rules, followed, strict=True)]
    if not any(rule is not None and rule.reads for rule in wanted):
        return tuple(None if rule is None else () for rule in wanted)
    parts = ["None" if rule is None else source_of(rule.reads, "ab", "y") for rule in wanted]
    return _compiled(f"lambda a, b, y: ({', '.join(parts)},)")


@cache
def _compiled(text: str) -> Any:
    """Return a function; most primitives save the same values."""
    return eval(text)


Primitive.make_fast = staticmethod(one_operand)
