"""Primitives: what can happen to a tensor, and how each is declared.

    exp      = unary("exp", lambda t, y: t * y)
    multiply = binary("multiply", lambda t, x2: t * x2, lambda t, x1: t * x1)
    where    = elementwise("where", None, rule, rule)
    reshape  = linear("reshape", transpose=..., batch=...)
    matmul   = Primitive("matmul", forward); matmul.vjps(...); matmul.jvps(...); matmul.batch(...)
    argmax   = nondifferentiable("argmax", batch=...)

An elementwise rule gives the VJP and, because an elementwise map is its own transpose, the JVP.
`bind` does three things: run the backend's kernel, wrap the result, tell the recorders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

from tapegrad.core.backend import backend_of, find_backend
from tapegrad.core.convert import NUMBERS, adapted, refuse_mixed_devices, to_tensor
from tapegrad.core.dtypes import as_dtype
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
    tell,
)
from tapegrad.core.recovery import run_again
from tapegrad.core.rule import PICK, Rule, shape_of, share_tangents
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, MissingRuleError, ShapeError

RuleFunction = Callable[..., Any] | None

PRIMITIVES: dict[str, Primitive] = {}
"""Every primitive by name."""

INTERPRETERS: dict[type, Callable[..., Any]] = {}
"""Value types that take over a call they are an operand of, e.g. batched tensors."""


MOST_FAST = 1024
"""Combinations of params that a primitive keeps a short way for."""


class Primitive:
    """One operation: its kernels and rules. Call it with tensors and keyword params.

    `forward(xp, *arrays, **params)` is the generic kernel in Array API terms; without it the
    namespace's function of the primitive's name is used. A backend may replace it by name.
    """

    make_fast: Callable[[Primitive, dict[str, Any]], Callable[..., Any]]
    """Makes the short way for one tensor; fastpath.py sets it."""

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any] | None = None,
        *,
        differentiable: bool = True,
        many: bool = False,
    ) -> None:
        if name in PRIMITIVES:
            raise KeyError(f"There is already a primitive called {name!r}.")
        self.name = name
        self.forward = forward
        self.differentiable = differentiable
        self.many = many
        self.broadcasts = False
        self.conjugates = False
        self.needs_tensors = False
        self.takes_none = False
        self.effects = False
        self.by_element = False
        self.kernels: dict[type, Callable[..., Any]] = {}
        self.vjp_kernels: dict[type, Callable[..., Any] | None] = {}
        self.fast: Callable[..., Any] | None = None
        self._fast_by_params: dict[Any, Callable[..., Any] | None] = {}
        self.plain_rules: tuple[Callable[..., Any] | None, ...] | None = None
        self.rule_wants: tuple[tuple[str, ...], ...] | None = None
        self.vjp_rules: tuple[Rule | None, ...] | None = None
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
        """Run the primitive, wrap what comes out, tell the recorders."""
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
                arg = arg.value()
                if type(arg) is not Tensor:
                    return bind_any(self, args, params)
            operands.append(arg.array)
            nodes.append(arg.node)
        return execute(self, operands, tuple(nodes), params)

    def _fast_with(self, params: dict[str, Any]) -> Callable[..., Any] | None:
        """The short way for one tensor and these params, made when they are first seen."""
        values = tuple(params.values())
        key = (values, tuple([type(value) for value in values]))
        try:
            return self._fast_by_params[key]
        except KeyError:
            if len(self._fast_by_params) >= MOST_FAST:
                self._fast_by_params.clear()
            fast = None if self.many or self.joint_vjp else self.make_fast(self, dict(params))
            self._fast_by_params[key] = fast
            return fast
        except TypeError:  # a param that cannot be looked up
            return None

    def vjps(self, *rules: RuleFunction) -> Primitive:
        """Set one VJP rule per input: cotangent in, that input's cotangent out."""
        self.vjp_rules = tuple(Rule(rule) if rule else None for rule in rules)
        self.plain_rules = tuple(rules)
        if any(rule is not None and rule.wants for rule in self.vjp_rules):
            self.rule_wants = tuple(() if rule is None else rule.wants for rule in self.vjp_rules)
        return self

    def vjp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate the one rule that gives the cotangents of all inputs as a tuple.

        It may take a keyword `needs`: a tuple of bools that says which are wanted.
        """
        self.joint_vjp = Rule(rule)
        return rule

    def sparse(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule used instead of the first one when the input is a variable itself.

        It reads the same values and returns the rows that were touched.
        """
        self.sparse_vjp = Rule(rule)
        self.plain_rules = None
        return rule

    def adds_in_place(self, add_part: Callable[..., None]) -> Callable[..., None]:
        """Set how the cotangent of a part is added into an array for the whole, in place."""
        self.add_part = add_part
        self.plain_rules = None
        return add_part

    def jvps(self, *rules: RuleFunction) -> Primitive:
        """Set one JVP rule per input: that input's tangent in, its share of the output's out."""
        self.jvp_rules = tuple(Rule(rule) if rule else None for rule in rules)
        return self

    def jvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate the rule from the tuple of input tangents (None: zero) to the output's."""
        self.joint_jvp = Rule(rule)
        return rule

    def batch(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate the batching rule `(size, batched, *args, **params)`.

        Where `batched[i]`, `args[i]` has an extra leading axis of length `size`; the results
        must all have it.
        """
        self.batch_rule = rule
        return rule

    def kernel(self, kind: type) -> Callable[..., Any]:
        """Return the kernel for arrays of type `kind`: the backend's own, or the generic one."""
        found = self.kernels.get(kind)
        if found is None:
            backend = find_backend(kind)
            if backend is None:
                raise ArgumentTypeError(f"{self.name} cannot compute with {kind.__name__}.")
            found = backend.kernels.get(self.name) or self._generic_kernel(backend.xp)
            self.kernels[kind] = found
        return found

    def vjp_kernel(self, kind: type) -> Callable[..., Any] | None:
        """Return the backend's kernel for all rules together, if it has one."""
        try:
            return self.vjp_kernels[kind]
        except KeyError:
            backend = find_backend(kind)
            found = None if backend is None else backend.kernels.get(f"{self.name}.vjp")
            self.vjp_kernels[kind] = found
            return found

    def _generic_kernel(self, xp: Any) -> Callable[..., Any]:
        if self.forward is not None:
            return partial(self.forward, xp)
        kernel = getattr(xp, self.name, None)
        if kernel is None:
            raise MissingRuleError(
                f"The backend with namespace {getattr(xp, '__name__', xp)} has no kernel for "
                f"{self.name!r}: add one to its `kernels` table."
            )
        return kernel  # type: ignore[no-any-return]


bind = Primitive.__call__


def bind_any(primitive: Primitive, args: Any, params: dict[str, Any]) -> Any:
    """Bind operands of any kind: batched values, variables, lists, raw arrays, numbers."""
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
        args = _as_operands(primitive, args)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{primitive.name} cannot take this operand. {error}") from error
    operands = [arg.array if isinstance(arg, Tensor) else arg for arg in args]
    nodes = tuple([arg.node if isinstance(arg, Tensor) else None for arg in args])
    return execute(primitive, operands, nodes, params)


def _all_raw(args: Sequence[Any]) -> bool:
    return all(type(a) in NUMBERS or find_backend(type(a)) is not None for a in args)


def _kernel_for(primitive: Primitive, operands: Sequence[Any]) -> Callable[..., Any]:
    for operand in operands:
        if type(operand) not in NUMBERS:
            return primitive.kernel(type(operand))
    return primitive.kernel(type(to_tensor(operands[0]).array))


def _adapted(arg: Any) -> Any:
    """Read variables and turn other self-converting values into tensors; leave the rest."""
    kind = type(arg)
    return arg if kind is Tensor or kind in NUMBERS or kind in INTERPRETERS else adapted(arg)


def _as_operands(primitive: Primitive, values: list[Any]) -> list[Any]:
    """Turn all operands into tensors; numbers stay numbers where they can adapt (broadcasting)."""
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
    kind = type(operands[0])
    if len(operands) > 1:
        for operand in operands:
            if type(operand) is not kind:
                kind = _check_kinds(primitive, operands)
                break
    try:
        kernel = primitive.kernels.get(kind) or primitive.kernel(kind)
        result = kernel(*operands, **params)
    except (ValueError, TypeError) as error:
        explain_failure(primitive, operands, error)
    except MemoryError as error:
        again = partial(kernel, *operands, **params)
        result = run_again(primitive.name, operands, again, error, nodes)
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


def _check_kinds(primitive: Primitive, operands: list[Any]) -> type:
    """Check operands of several Python types and return the type to dispatch on.

    Where a recorded array is among them, the others are recorded as constants.
    """
    arrays = [operand for operand in operands if type(operand) not in NUMBERS]
    for array in arrays:
        adopt_others = getattr(find_backend(type(array)), "adopt_others", None)
        if adopt_others is not None:
            operands[:] = adopt_others(array, operands)
            return type(array)
    kind = type(arrays[0])
    for array in arrays:
        if type(array) is not kind and find_backend(type(array)) is not find_backend(kind):
            refuse_mixed_devices(primitive.name, arrays)
    return kind


def explain_failure(primitive: Primitive, operands: Sequence[Any], error: Exception) -> NoReturn:
    """Raise a kernel's error anew with the primitive's name and what came in."""
    if type(error) not in (ValueError, TypeError):
        raise error
    arrays = [operand for operand in operands if type(operand) not in NUMBERS]
    refuse_mixed_devices(primitive.name, arrays)
    came = ", ".join(f"{as_dtype(backend_of(a).dtype_of(a))}{list(a.shape)}" for a in arrays)
    kind: type[Exception] = ArgumentTypeError
    if isinstance(error, ValueError):
        about_shapes = any(
            word in str(error) for word in ("shape", "size", "broadcast", "dimension")
        )
        kind = ShapeError if about_shapes else ArgumentError
    raise kind(f"{primitive.name} cannot take {came}: {error}") from error


def record(
    stack: Stack,
    primitive: Primitive,
    params: dict[str, Any],
    operands: Sequence[Any],
    nodes: tuple[Node | None, ...],
    result: Any,
) -> Node | None:
    """Return the node of a result, or None if no active recorder follows its inputs."""
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
        return make_node(tokens, primitive, params, nodes, saved, _fit(primitive, operands, result))
    node = _node_of(tokens, primitive, params, operands, nodes, result)
    tell(stack, tokens, Operation(primitive, params, operands, nodes, result, (node,)))
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
    """Give each floating result of a primitive with several its node."""
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
        tell(stack, tokens, Operation(primitive, params, operands, nodes, results, outputs))


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
    return make_node(tokens, primitive, params, nodes, saved, _fit(primitive, operands, result))


def saved_values(
    primitive: Primitive, operands: Sequence[Any], nodes: Sequence[Node | None], result: Any
) -> Any:
    """What the rules of the followed inputs read: a tuple per input, or one for a joint rule."""
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


def _fit(primitive: Primitive, operands: Sequence[Any], result: Any) -> Any:
    """Per input the (shape, dtype) that its gradient must be brought to; None if all fit.

    Of a primitive with several results, per result what zeros in its place would be like.
    """
    if primitive.takes_none:
        return range(len(result))  # nobody makes zeros
    if primitive.many:
        return tuple((shape_of(array), backend_of(array).dtype_of(array)) for array in result)
    return (broadcast_fit if primitive.broadcasts else dtype_fit)(operands, result)


def dtype_fit(operands: Sequence[Any], result: Any) -> Any:
    """Fits for operands whose rules give the right shape: only the dtype may differ."""
    dtype = result.dtype
    fits: list[Any] | None = None
    for i, operand in enumerate(operands):
        own = getattr(operand, "dtype", dtype)
        if own is not dtype and own != dtype:
            fits = fits or [None] * len(operands)
            fits[i] = (None, own)
    return fits


def broadcast_fit(operands: Sequence[Any], result: Any) -> Any:
    """Fits for operands that broadcast against each other."""
    shape, dtype = result.shape, result.dtype
    fits: list[Any] | None = None
    for i, operand in enumerate(operands):
        if type(operand) in NUMBERS:
            continue
        own_shape, own_dtype = operand.shape, operand.dtype
        same_dtype = own_dtype is dtype or own_dtype == dtype
        if own_shape != shape or not same_dtype:
            fits = fits or [None] * len(operands)
            fits[i] = (None if own_shape == shape else own_shape, None if same_dtype else own_dtype)
    return fits
