"""Primitives: the operations on tensors, with their kernels and derivative rules.

    exp      = unary("exp", lambda t, y: t * y)
    multiply = binary("multiply", lambda t, x2: t * x2, lambda t, x1: t * x1)
    where    = elementwise("where", None, rule, rule)
    reshape  = linear("reshape", transpose=..., batch=...)
    matmul   = Primitive("matmul", forward); matmul.vjps(...); matmul.jvps(...); matmul.batch(...)
    argmax   = nondifferentiable("argmax", batch=...)

An elementwise rule is the VJP and, because an elementwise map is its own transpose, also the JVP.
`bind` does three things: run the backend's kernel, wrap the result, notify the recorders.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from tapegrad.core import memory_holders  # noqa: F401  # lets errors say what holds memory
from tapegrad.core.argument_checks import check_elements
from tapegrad.core.backend.registry import backend_of, capabilities_of, find_backend
from tapegrad.core.eager_hooks import on_hooks
from tapegrad.core.exact_key import exact_key
from tapegrad.core.out_of_memory import recover
from tapegrad.core.primitive.checked_kernel import CheckedKernel, eager_kernel
from tapegrad.core.primitive.kernel_errors import EXPLAINED, explain_failure
from tapegrad.core.primitive.real_operands import real_kernel
from tapegrad.core.primitive.rule import PICK, Rule, shape_of, share_tangents
from tapegrad.core.recorder import (
    RAW,
    Node,
    Operation,
    Stack,
    Token,
    active_stack,
    common_tokens,
    make_leaf,
    make_node,
    note_cut,
    notify,
)
from tapegrad.core.symbolic_calls import symbolic_answer
from tapegrad.core.values.convert import NUMBERS, adapted, refuse_mixed_devices, to_tensor
from tapegrad.core.values.shared import mark_views
from tapegrad.core.values.sizes import pinned_size
from tapegrad.core.values.tensor import SharedTensor, Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import (
    ArgumentTypeError,
    MissingRuleError,
)

RuleFunction = Callable[..., Any] | None

PRIMITIVES: dict[str, Primitive] = {}
"""Every primitive by name."""

INTERPRETERS: dict[type, Callable[..., Any]] = {}
"""Value types that handle every call in which they are an operand, e.g. batched tensors."""


MOST_FAST = 1024
"""The most combinations of params for which a primitive caches a fast path."""


class Primitive:
    """One operation: its kernels and rules. Call it with tensors and keyword params.

    `forward(xp, *arrays, **params)` is the generic kernel in Array API terms. Without it, the
    namespace's function of the same name is used. A backend may replace it by name.
    """

    make_fast: Callable[[Primitive, dict[str, Any]], Callable[..., Any]]
    """Makes the fast path for one tensor; fastpath.py sets it."""
    effects = False
    """Whether programs keep all calls, in their order."""
    communicates = False
    """Whether other processes take part in calls."""
    needs_host = True
    """Whether calls with effects need the host, so that they cannot be part of a CUDA graph."""
    parts: tuple[Primitive, Primitive] | None = None
    """One that starts a call and one that waits for its result, which programs use instead."""
    part_of: Primitive | None = None
    """The primitive that this one starts."""

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any] | None = None,
        *,
        differentiable: bool = True,
        many: bool = False,
        selects: bool = True,
    ) -> None:
        if type(name) is not str:
            raise ArgumentTypeError(f"The name of a primitive must be text. Got {name!r:.80}.")
        self.declared_in = _declaring_module()
        before = PRIMITIVES.get(name)
        if before is not None and not self.declared_in == before.declared_in == "__main__":
            raise KeyError(
                f"There is already a primitive called {name!r}, declared in "
                f"{before.declared_in}. Choose another name. Only a script or a notebook "
                "may declare its own primitives again."
            )
        self.name = name
        self.forward = forward
        self.differentiable = differentiable
        self.many = many
        self.broadcasts = False
        self.conjugates = False
        self.needs_tensors = False
        self.takes_none = False
        self.by_element = False
        self.shapes_vary = False
        """Whether the shapes of the results depend on the values of the operands."""
        self.result_shape: Callable[..., tuple[int, ...]] | None = None
        """Returns the shape of the result if a param other than `shape` can make it huge."""
        self.real_only = False
        self.selects = selects
        """Whether results may not depend on some values of the operands, such as infinities."""
        self.poles = False
        """Whether slopes are infinite at some finite points: all sweeps guard the rules."""
        self.joins_results = False
        """Whether several results may share memory, so that none may be overwritten."""
        self.overwriting: Callable[..., Any] | None = None
        """Like `forward`, but may write results over the operands at `overwritten`."""
        self.overwritten: tuple[int, ...] = (0,)
        """Per result, the operand over which kernels may write it if it is not needed."""
        self.kernels: dict[type, Callable[..., Any]] = {}
        """What eager code calls, by array type."""
        self.bound_kernels: WeakKeyDictionary[Any, dict[type, Callable[..., Any]]]
        self.bound_kernels = WeakKeyDictionary()
        """Kernels with bound params, by the fast path that has them."""
        self.vjp_kernels: dict[type, Callable[..., Any] | None] = {}
        self.fast: Callable[..., Any] | None = None
        self._fast_by_params: dict[Any, Callable[..., Any] | None] = {}
        self.plain_rules: tuple[Callable[..., Any] | None, ...] | None = None
        self._guarded_rules: tuple[Callable[..., Any] | None, ...] | None = None
        self.rule_wants: tuple[tuple[str, ...], ...] | None = None
        self.vjp_rules: tuple[Rule | None, ...] | None = None
        self.has_own_rules = False
        """Whether the rules of `vjps` are functions of this package, which call no user's code."""
        self.joint_vjp: Rule | None = None
        self.jvp_rules: tuple[Rule | None, ...] | None = None
        self.joint_jvp: Rule | None = None
        self.sparse_vjp: Rule | None = None
        self.add_part: Callable[..., None] | None = None
        self.batch_rule: Callable[..., Any] | None = None
        PRIMITIVES[name] = self

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Run the primitive, wrap the result and notify the recorders."""
        if len(args) == 1 and type(args[0]) is Tensor:
            fast = self._fast_with(params)
            if fast is not None:
                return fast(args[0])
        operands, nodes = [], []
        for arg in args:
            if type(arg) is not Tensor:
                if type(arg) is not Variable:
                    kernel = self.kernels.get(type(arg)) if active_stack() is RAW else None
                    if kernel is not None:
                        return kernel(*args, **params)
                    return bind_any(self, args, params)
                arg = arg.shared_value()
                if type(arg) is not Tensor:
                    return bind_any(self, args, params)
            operands.append(arg.array)
            nodes.append(arg.node)
        return execute(self, operands, tuple(nodes), params)

    def _fast_with(self, params: dict[str, Any]) -> Callable[..., Any] | None:
        """The cached fast path for one tensor and these params."""
        values = tuple(params.values())
        kinds = tuple([type(value) for value in values])
        if float in kinds and 0.0 in values:  # which equals -0.0
            values = tuple([exact_key(value) for value in values])
        key = (values, kinds)
        try:
            return self._fast_by_params[key]
        except KeyError:
            pass  # an error below shall not mention this one
        except TypeError:  # a param is not hashable
            return None
        if len(self._fast_by_params) >= MOST_FAST:
            self._fast_by_params.clear()
        if "shape" in params:
            check_elements(self.name, params["shape"])
        is_general = self.many or self.joint_vjp or self.result_shape
        fast = None if is_general else self.make_fast(self, dict(params))
        self._fast_by_params[key] = fast
        return fast

    def vjps(self, *rules: RuleFunction) -> Primitive:
        """Set one VJP rule per input, from the output's cotangent to that input's."""
        self.vjp_rules = tuple(Rule(rule) if rule else None for rule in rules)
        self.plain_rules = tuple(rules)
        modules = [getattr(rule, "__module__", None) or "" for rule in rules if rule]
        self.has_own_rules = all([module.startswith("tapegrad.") for module in modules])
        if any(rule is not None and rule.wants for rule in self.vjp_rules):
            self.rule_wants = tuple(() if rule is None else rule.wants for rule in self.vjp_rules)
        return self

    def guarded_rules(self) -> tuple[Callable[..., Any] | None, ...] | None:
        """Return `plain_rules` in a form in which zero cotangents stay zero, if elementwise."""
        if self.plain_rules is None or self.vjp_rules is None or not self.broadcasts:
            return self.plain_rules
        if self._guarded_rules is None:
            pairs = zip(self.vjp_rules, self.plain_rules, strict=True)
            self._guarded_rules = tuple([
                plain if rule is None or rule.keeps_zero else rule.guarded_function()
                for rule, plain in pairs
            ])  # fmt: skip
        return self._guarded_rules

    def vjp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate the rule that returns the cotangents of all inputs as a tuple.

        It may take a keyword `needs`: one bool per input, true if its cotangent is needed.
        """
        self.joint_vjp = Rule(rule)
        return rule

    def sparse(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule that replaces the first VJP rule if the input is a variable.

        It reads the same values and returns the touched rows as `IndexedSlices`.
        """
        self.sparse_vjp = Rule(rule)
        self.plain_rules = None
        return rule

    def adds_in_place(self, add_part: Callable[..., None]) -> Callable[..., None]:
        """Set the function that adds the cotangent of a slice to that of the whole, in place."""
        self.add_part = add_part
        self.plain_rules = None
        return add_part

    def jvps(self, *rules: RuleFunction) -> Primitive:
        """Set one JVP rule per input, from its tangent to a term of the output's tangent."""
        self.jvp_rules = tuple(Rule(rule) if rule else None for rule in rules)
        return self

    def jvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate the rule from the tuple of input tangents (None: zero) to the output tangent."""
        self.joint_jvp = Rule(rule)
        return rule

    def batch(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate the batching rule `(size, batched, *args, **params)`.

        If `batched[i]` is true, `args[i]` has an extra leading axis of length `size`. All results
        must have it.
        """
        self.batch_rule = rule
        return rule

    def kernel(self, array_type: type) -> Callable[..., Any]:
        """Return the backend's kernel for arrays of this type, or else the generic one."""
        found = self.kernels.get(array_type)
        if found is None:
            backend = find_backend(array_type)
            if backend is None:
                raise ArgumentTypeError(f"{self.name} cannot compute with {array_type.__name__}.")
            found = backend.kernels.get(self.name) or self.generic_kernel(backend.xp)
            self.kernels[array_type] = eager_kernel(self.name, array_type, found)
            return found
        return found.kernel if type(found) is CheckedKernel else found

    def switch_checks(self) -> None:
        """Let eager code call other kernels, after a switch of `eager_hooks` has changed."""
        self._fast_by_params.clear()
        for table in self.bound_kernels.values():
            table.clear()
        for array_type in list(self.kernels):
            kernel = self.kernel(array_type)
            self.kernels[array_type] = eager_kernel(self.name, array_type, kernel)

    def vjp_kernel(self, array_type: type) -> Callable[..., Any] | None:
        """Return the backend's kernel that computes all VJP rules, if it has one."""
        try:
            return self.vjp_kernels[array_type]
        except KeyError:
            pullbacks = capabilities_of(array_type).pullbacks
            found = None if pullbacks is None else pullbacks.pullback(self.name)
            self.vjp_kernels[array_type] = found
            return found

    def generic_kernel(self, xp: Any) -> Callable[..., Any]:
        """Return the kernel in terms of an Array API namespace."""
        if self.forward is not None:
            generic = partial(self.forward, xp)
            # Kernels of a backend raise by themselves, so that this check costs them nothing.
            return real_kernel(self.name, generic) if self.real_only else generic
        kernel = getattr(xp, self.name, None)
        if kernel is None:
            raise MissingRuleError(
                f"The backend with namespace {getattr(xp, '__name__', xp)} has no kernel for "
                f"{self.name!r}: declare the primitive with forward=lambda xp, x: ..., or add a "
                "kernel to the backend's `kernels` table."
            )
        return kernel  # type: ignore[no-any-return]


def _declaring_module() -> str:
    """Return the module that declares a primitive, directly or through a family."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OWN_PACKAGE):
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


_OWN_PACKAGE = "tapegrad.core.primitive."


def _switch_checks() -> None:
    for primitive in [*PRIMITIVES.values()]:
        primitive.switch_checks()


on_hooks(_switch_checks)

bind = Primitive.__call__


def bind_any(primitive: Primitive, args: Any, params: dict[str, Any]) -> Any:
    """Bind operands of any type: batched values, variables, lists, raw arrays, numbers."""
    if active_stack() is RAW:
        kernel = primitive.kernels.get(type(args[0]))
        if kernel is not None:
            return kernel(*args, **params)
        if _all_raw(args):
            return _kernel_for(primitive, args)(*args, **params)
    args = [_adapted(arg) for arg in args]
    for arg in args:
        if type(arg) in INTERPRETERS:
            return INTERPRETERS[type(arg)](primitive, args, params)
    try:
        tensors = _as_operands(primitive, args)
    except ArgumentTypeError as error:
        answer = symbolic_answer(_with_params(primitive, params), args, {})
        if answer is not None:
            return answer.value
        raise ArgumentTypeError(f"{primitive.name} cannot take this operand. {error}") from error
    operands = [arg.array if isinstance(arg, Tensor) else arg for arg in tensors]
    nodes = tuple([arg.node if isinstance(arg, Tensor) else None for arg in tensors])
    result = execute(primitive, operands, nodes, params)
    shared = [arg for arg in tensors if type(arg) is SharedTensor]
    if shared:
        mark_views(result, shared)
    return result


def _with_params(primitive: Primitive, params: dict[str, Any]) -> Callable[..., Any]:
    """Return the function of operands that applies a primitive with these params."""

    def call(*args: Any) -> Any:
        return bind_any(primitive, args, params)

    call.__name__ = primitive.name
    call.primitive = primitive  # type: ignore[attr-defined]  # as functions of primitives have it
    return call


def _all_raw(args: Sequence[Any]) -> bool:
    return all(type(a) in NUMBERS or find_backend(type(a)) is not None for a in args)


def _kernel_for(primitive: Primitive, operands: Sequence[Any]) -> Callable[..., Any]:
    for operand in operands:
        if type(operand) not in NUMBERS:
            return primitive.kernel(type(operand))
    return primitive.kernel(type(to_tensor(operands[0]).array))


def _adapted(arg: Any) -> Any:
    """Read variables and convert values of registered types to tensors; return others as is."""
    found = type(arg)
    return arg if found is Tensor or found in NUMBERS or found in INTERPRETERS else adapted(arg)


def _as_operands(primitive: Primitive, values: list[Any]) -> list[Any]:
    """Convert operands to tensors; Python numbers stay as they are if the primitive broadcasts."""
    like = next((arg for arg in values if isinstance(arg, Tensor)), None)
    if like is None:
        arrays = [arg for arg in values if type(arg) not in NUMBERS]
        like = to_tensor(arrays[0] if arrays else values[0])
        position = next(i for i, arg in enumerate(values) if not arrays or arg is arrays[0])
        values[position] = like
    stay = NUMBERS if primitive.broadcasts else ()
    return [arg if type(arg) in stay else to_tensor(arg, like=like) for arg in values]


def execute(
    primitive: Primitive,
    operands: list[Any],
    nodes: tuple[Node | None, ...],
    params: dict[str, Any],
) -> Any:
    """Run the kernel on raw operands; wrap and record the result."""
    array_type = type(operands[0])
    if len(operands) > 1:
        for operand in operands:
            if type(operand) is not array_type:
                array_type = _dispatch_type(primitive, operands)
                break
    if primitive.result_shape is not None:
        check_elements(primitive.name, primitive.result_shape(*operands, **params))
    kernel = primitive.kernels.get(array_type) or primitive.kernel(array_type)
    try:
        result = kernel(*operands, **params)
    except EXPLAINED as error:
        explain_failure(primitive.name, operands, error)
    except MemoryError as error:
        again = partial(kernel, *operands, **params)
        result = recover(primitive.name, operands, again, error, nodes)
    if primitive.many:
        tensors = tuple([wrap(array) for array in result])
        if any([node is not None for node in nodes]):
            record_many(active_stack(), primitive, params, operands, nodes, result, tensors)
        return tensors
    tensor = wrap(result)
    for node in nodes:
        if node is not None:
            tensor.node = record(active_stack(), primitive, params, operands, nodes, result)
            break
    return tensor


def _dispatch_type(primitive: Primitive, operands: list[Any]) -> type:
    """Check operands of several Python types and return the array type to dispatch on.

    If one of them is a recorded array, the others are recorded as constants. Otherwise the result
    is a constant, and a size becomes the plain number that array libraries know.
    """
    arrays = [operand for operand in operands if type(operand) not in NUMBERS]
    for array in arrays:
        adoption = capabilities_of(type(array)).adoption
        if adoption is not None:
            operands[:] = adoption.adopt(array, operands)
            return type(array)
    first = type(arrays[0])
    for array in arrays:
        if type(array) is not first and find_backend(type(array)) is not find_backend(first):
            refuse_mixed_devices(primitive.name, arrays)
    operands[:] = map(pinned_size, operands)
    return first


def record(
    stack: Stack,
    primitive: Primitive,
    params: dict[str, Any],
    operands: Sequence[Any],
    nodes: tuple[Node | None, ...],
    result: Any,
) -> Node | None:
    """Return the node of a result, or None if no active recorder tracks its inputs."""
    tokens = stack.tokens
    if not tokens:
        return None
    if not primitive.differentiable:
        note_cut(f"{primitive.name} has no derivative", nodes)
        return None
    for source in nodes:
        if source is not None and source.tokens is not tokens:
            tokens = common_tokens(stack, nodes)
            if not tokens:
                return None
            break
    if not stack.listeners:
        saved = saved_values(primitive, operands, nodes, result)
        return make_node(
            tokens, primitive, params, nodes, saved, _specs(primitive, operands, result)
        )
    node = _node_of(tokens, primitive, params, operands, nodes, result)
    notify(stack, tokens, Operation(primitive, params, operands, nodes, result, (node,)))
    return node


def record_many(
    stack: Stack,
    primitive: Primitive,
    params: dict[str, Any],
    operands: Sequence[Any],
    nodes: tuple[Node | None, ...],
    results: Sequence[Any],
    tensors: tuple[Tensor, ...],
) -> None:
    """Attach a node to each differentiable result of a primitive with several results."""
    tokens = common_tokens(stack, nodes)
    if not tokens:
        return
    if not primitive.differentiable:
        note_cut(f"{primitive.name} has no derivative", nodes)
        return
    whole = _node_of(tokens, primitive, params, operands, nodes, results)
    for index, tensor in enumerate(tensors):
        if tensor.dtype.is_differentiable:
            tensor.node = make_node(tokens, PICK, {"index": index}, (whole,), None, None)
            if stack.listeners:
                share_tangents(whole, index, tensor.node)
    if stack.listeners:
        outputs = tuple(tensor.node for tensor in tensors)
        notify(stack, tokens, Operation(primitive, params, operands, nodes, results, outputs))


def _node_of(
    tokens: tuple[Token, ...],
    primitive: Primitive,
    params: dict[str, Any],
    operands: Sequence[Any],
    nodes: tuple[Node | None, ...],
    result: Any,
) -> Node:
    if not any([token.keeps_history for token in tokens]):
        return make_leaf(tokens)
    saved = saved_values(primitive, operands, nodes, result)
    return make_node(tokens, primitive, params, nodes, saved, _specs(primitive, operands, result))


def saved_values(
    primitive: Primitive, operands: Sequence[Any], nodes: Sequence[Node | None], result: Any
) -> Any:
    """Return what the rules of the tracked inputs read: one tuple per input or per joint rule."""
    if primitive.joint_vjp is not None:
        return primitive.joint_vjp.pick(operands, result)
    rules = primitive.vjp_rules
    if rules is None:
        return None
    saved: list[Any] = []
    for rule, node in zip(rules, nodes):  # without `strict`, which doubles the cost
        if rule is None or node is None:
            saved.append(None)
        else:
            saved.append(rule.pick(operands, result))
    return saved


def _specs(primitive: Primitive, operands: Sequence[Any], result: Any) -> Any:
    """Return, per input, the (shape, dtype) of its gradient; None if no gradient differs.

    For a primitive with several results, return the (shape, dtype) of zeros for each result.
    """
    if primitive.takes_none:
        return range(len(result))  # zeros are never made
    if primitive.many:
        return tuple((shape_of(array), backend_of(array).dtype_of(array)) for array in result)
    return (broadcast_specs if primitive.broadcasts else dtype_specs)(operands, result)


def dtype_specs(operands: Sequence[Any], result: Any) -> Any:
    """Return the specs of operands that do not broadcast: only the dtype may differ."""
    dtype = result.dtype
    specs: list[Any] | None = None
    for i, operand in enumerate(operands):
        own = getattr(operand, "dtype", dtype)
        if own is not dtype and own != dtype:
            specs = specs or [None] * len(operands)
            specs[i] = (None, own)
    return specs


def broadcast_specs(operands: Sequence[Any], result: Any) -> Any:
    """Return the specs of operands that broadcast against each other."""
    shape, dtype = result.shape, result.dtype
    specs: list[Any] | None = None
    for i, operand in enumerate(operands):
        if type(operand) in NUMBERS:
            continue
        own_shape, own_dtype = operand.shape, operand.dtype
        same_dtype = own_dtype is dtype or own_dtype == dtype
        if own_shape != shape or not same_dtype:
            specs = specs or [None] * len(operands)
            specs[i] = (
                None if own_shape == shape else own_shape,
                None if same_dtype else own_dtype,
            )
    return specs
