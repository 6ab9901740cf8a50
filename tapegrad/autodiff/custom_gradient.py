"""Functions with user-defined gradients: custom_gradient, recompute_grad, grad_pass_through."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad.autodiff import batching
from tapegrad.autodiff.arguments import UnconnectedGradients, check_function
from tapegrad.autodiff.captured import captured_tensors
from tapegrad.autodiff.gradient_tape import TransformTape
from tapegrad.core.checkpoints import Checkpoints, current_checkpoints, with_checkpoints
from tapegrad.core.primitive.primitive import record_many
from tapegrad.core.recorder import (
    Node,
    Stack,
    Token,
    active_stack,
    computing_again,
    enter_recorder,
    leave_recorder,
    using_stack,
)
from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.ops.casting import cast
from tapegrad.ops.shape.primitives import sum_p

Function = Callable[..., Any]


class VariableLog:
    """A recorder that only logs which trainable variables are read.

    It is active in the body of a custom gradient, where values may leave the tapes around it.
    """

    listens = False
    watches_variables = False
    tracks_exits = False
    allows_exits = True
    frame = None

    def __init__(self) -> None:
        self.token = Token(keeps_history=False)
        self.read: dict[int, Variable] = {}

    def follows_variable(self, variable: Variable, node: Node) -> bool:
        if variable.trainable:
            self.read[variable.number] = variable
        return False

    @contextmanager
    def listening(self) -> Iterator[None]:
        enter_recorder(self)
        try:
            yield
        finally:
            leave_recorder(self)


class CustomCall:
    """One call of a function with a custom gradient; the tape treats it as a primitive."""

    differentiable = True
    many = True
    broadcasts = conjugates = takes_none = False
    needs_tensors = True
    takes_none = False
    selects = True
    plain_rules = add_part = vjp_rules = jvp_rules = joint_jvp = sparse_vjp = None

    def __init__(self, name: str, backward: Function) -> None:
        self.name = name
        self.joint_vjp = _CustomRule(backward)


class _CustomRule:
    """The user's gradient function with the interface of a `Rule` that reads nothing."""

    reads = wants = ()

    def __init__(self, backward: Function) -> None:
        self._backward = backward

    def __call__(self, t: Sequence[Any], saved: Any, params: Any) -> list[Any]:
        # A cotangent without axes may be a NumPy scalar, which a tape cannot follow.
        upstream = [one if type(one) is Tensor else _as_tensor(one) for one in t]
        return self._backward(*upstream)  # type: ignore[no-any-return]

    def pick(self, operands: Any, result: Any) -> tuple[()]:
        return ()

    def rewrap(self, saved: Any, node: Node) -> tuple[()]:
        return ()

    def read_again(self, operation: Any) -> tuple[()]:
        return ()


def custom_gradient(f: Function | None = None) -> Function:
    """Decorate a function that returns its value and a function for its gradient.

    The gradient function takes one upstream gradient per output and returns one gradient per
    positional input. If `f` reads variables that are not arguments, it must also accept
    `variables=` and return `(input_gradients, variable_gradients)`.

    >>> import tapegrad
    >>> @custom_gradient
    ... def clipped(x):
    ...     return x * 1.0, lambda upstream: tapegrad.clip_by_value(upstream, -1.0, 1.0)
    >>> x = tapegrad.Variable(2.0)
    >>> with tapegrad.GradientTape() as tape:
    ...     y = clipped(x) * 10.0
    >>> float(tape.gradient(y, x))
    1.0
    """
    if f is None:
        return custom_gradient
    check_function(f, "custom_gradient")
    return CustomGradient(f)


class CustomGradient:
    """A function with a custom gradient; it binds to instances like any function in a class."""

    def __init__(self, f: Function) -> None:
        functools.update_wrapper(self, f)
        self._f = f

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call(self._f, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else CustomGradient(self._f.__get__(instance, owner))


class _Slot:
    """The shape, dtype and vmap levels of an operand, which its gradient must have."""

    def __init__(self, value: Any) -> None:
        self.inside, self.levels = batching.unwrap(value)
        self.is_tensor = isinstance(self.inside, Tensor)
        self.node = self.inside.node if self.is_tensor else None
        self.shape = tuple(value.shape) if self.is_tensor else ()
        self.dtype = value.dtype if self.is_tensor else None
        self.sizes = dict(zip(self.levels, self.inside.shape)) if self.is_tensor else {}

    def forget_value(self) -> None:
        self.inside = self.node = None


def _call(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    _refuse_tensor_keywords(f, kwargs)
    inputs = [_as_input(leaf) for leaf in nest.flatten(args)]
    log = VariableLog()
    with log.listening():
        value, backward = _value_and_backward(f, nest.pack_sequence_as(args, inputs), kwargs)
    passed = {leaf.number for leaf in nest.flatten(args) if isinstance(leaf, Variable)}
    variables = [v for number, v in sorted(log.read.items()) if number not in passed]
    _check_takes_variables(f, backward, variables)
    slots = [_Slot(x) for x in (*inputs, *(v.shared_value() for v in variables))]
    outputs = [batching.unwrap(_as_tensor(leaf)) for leaf in nest.flatten(value)]
    fresh = tuple(wrap(inside.array) for inside, _ in outputs)
    levels = [levels for _, levels in outputs]
    name = getattr(f, "__name__", "custom_gradient")
    arrays = [slot.inside.array if slot.is_tensor else None for slot in slots]
    nodes = tuple(slot.node for slot in slots)
    sizes = {level: n for inside, own in outputs for level, n in zip(own, inside.shape)}
    for slot in slots:
        sizes.update(slot.sizes)
        slot.forget_value()
    rule = _Backward(name, backward, slots, variables, levels, sizes)
    call: Any = CustomCall(name, rule)
    record_many(active_stack(), call, {}, arrays, nodes, [x.array for x in fresh], fresh)
    results = [batching.wrap_levels(new, own) for new, own in zip(fresh, levels, strict=True)]
    return nest.pack_sequence_as(value, results)


class _Backward:
    """Calls the user's gradient function and checks its results."""

    def __init__(
        self,
        name: str,
        function: Function,
        slots: list[_Slot],
        variables: list[Variable],
        levels: list[tuple[int, ...]],
        sizes: dict[int, int],
    ) -> None:
        self.name = name
        self.function = function
        self.slots = slots
        self.variables = variables
        self.levels = levels
        self.sizes = sizes
        # If a tape inside vmap was active at the call, variables were read per example. Tapes in
        # the gradient function must read them in the same way.
        framed = active_stack().framed
        self.frame = framed[-1].frame if framed else None

    def __call__(self, *upstream: Any) -> list[Any]:
        if self.frame is batching.current_frame():
            return self._gradients(*upstream)
        with batching.in_frame(self.frame):
            return self._gradients(*upstream)

    def _gradients(self, *upstream: Any) -> list[Any]:
        upstream = tuple(batching.wrap_levels(t, own) for t, own in zip(upstream, self.levels))
        if self.variables:
            grads, of_variables = self.function(*upstream, variables=self.variables)
        else:
            grads, of_variables = self.function(*upstream), []
        grads, of_variables = _as_list(grads), _as_list(of_variables)
        self._check_count(of_variables, len(self.variables), "variable gradients")
        inputs = len(self.slots) - len(self.variables)
        self._check_count(grads, inputs, "gradients, one per positional input")
        every = (*grads, *of_variables)
        return [self._fitted(grad, k) for k, grad in enumerate(every)]

    def _check_count(self, grads: list[Any], wanted: int, what: str) -> None:
        if len(grads) != wanted:
            raise ArgumentError(
                f"The gradient function of {self.name} must return {wanted} {what}. "
                f"It returned {len(grads)}."
            )

    def _fitted(self, grad: Any, k: int) -> Any:
        """Bring a gradient to the dtype and vmap levels of its operand; raise for another shape."""
        slot = self.slots[k]
        if grad is None or slot.dtype is None or not slot.dtype.is_differentiable:
            return None
        grad = _as_tensor(grad)
        if tuple(grad.shape) != slot.shape:
            raise ShapeError(
                f"The gradient function of {self.name} must return a gradient of shape "
                f"{slot.shape} for input {k}. It returned one of shape {grad.shape}."
            )
        if grad.dtype != slot.dtype:
            grad = cast.cast(grad, slot.dtype)
        return self._with_batches(grad, slot.levels)

    def _with_batches(self, grad: Any, wanted: tuple[int, ...]) -> Any:
        """Sum over the levels that the operand does not have, repeat over those it has."""
        inside, own = batching.unwrap(grad, self.sizes)
        shared = tuple(axis for axis, level in enumerate(own) if level not in wanted)
        if shared:
            inside = sum_p(inside, axis=shared, keepdims=False)
        for level in {level for levels in self.levels for level in levels} - {*own, *wanted}:
            inside = inside * self.sizes[level]  # each example contributes the same
        kept = [level for level in own if level in wanted]
        return batching.with_examples(inside, kept, {level: self.sizes[level] for level in wanted})


def _value_and_backward(f: Function, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Function]:
    result = f(*args, **kwargs)
    if not isinstance(result, tuple) or len(result) != 2 or not callable(result[1]):
        raise ArgumentTypeError(
            f"{getattr(f, '__name__', 'The function')} must return its value and a gradient "
            f"function, as `return y, grad`. Got {type(result).__name__}."
        )
    return result


def _as_list(value: Any) -> list[Any]:
    return list(nest.flatten(value)) if isinstance(value, list | tuple) else [value]


def _as_input(leaf: Any) -> Any:
    """Convert arrays and variables to tensors; leave numbers, text and other objects alone."""
    if batching.is_batched(leaf) or not hasattr(leaf, "__array__"):
        return leaf
    return to_tensor(leaf)


def _as_tensor(leaf: Any) -> Any:
    return leaf if batching.is_batched(leaf) else to_tensor(leaf)


def _refuse_tensor_keywords(f: Function, kwargs: dict[str, Any]) -> None:
    for name, value in kwargs.items():
        if any(isinstance(leaf, Tensor | Variable) for leaf in nest.flatten(value)):
            raise ArgumentTypeError(
                f"{getattr(f, '__name__', 'A custom-gradient function')} got the tensor "
                f"{name!r} as a keyword: pass tensors by position, so that each has its place "
                "among the gradients."
            )


def _check_takes_variables(f: Function, backward: Function, variables: list[Variable]) -> None:
    if not variables:
        return
    from inspect import signature  # slow to import, and rarely needed

    parameters = signature(backward).parameters.values()
    if not any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters):
        names = ", ".join(repr(variable.name) for variable in variables)
        raise ArgumentTypeError(
            f"{getattr(f, '__name__', 'The function')} reads the variables {names}, so its "
            "gradient function must take `variables=None` and return "
            "(input_gradients, variable_gradients)."
        )


def recompute_grad(f: Function, segments: int | None = None) -> Function:
    """Keep only the inputs of `f` for the gradient, and run `f` again to compute it.

    This trades time for memory. Random numbers inside `f` must come from an explicit seed. Tensors
    that `f` reads without taking them as arguments get gradients as well, if they are in its
    closure, in global names, or attributes of the object of a method.

    If a recorded function differentiates a loop in `f`, such as `tapegrad.scan`, it keeps what the
    loop carries at the beginning of each of its `segments`, by default about the square root of the
    number of rounds, and runs the rounds of one segment after the other again.

    >>> import tapegrad
    >>> x = tapegrad.Variable(2.0)
    >>> with tapegrad.GradientTape() as tape:
    ...     y = recompute_grad(lambda x: x * x * x)(x)
    >>> float(tape.gradient(y, x))
    12.0
    """
    check_function(f, "recompute_grad")
    if segments is not None and (type(segments) is not int or segments < 1):
        raise ArgumentError(f"segments must be a positive int, or None. Got {segments!r}.")

    @custom_gradient
    @functools.wraps(f)
    def wrapped(args: tuple[Any, ...], captured: list[Any], **kwargs: Any) -> Any:
        followed = [_is_floating(x) and _is_followed(x) for x in nest.flatten(args)]
        checkpoints = current_checkpoints()
        value = _without_writes(f, args, kwargs)

        def grad(*upstream: Any, variables: Any = ()) -> Any:
            if checkpoints is not None:
                checkpoints.begin_again()
            with computing_again(segments), with_checkpoints(checkpoints):
                return _recomputed(f, args, captured, kwargs, followed, upstream, variables)

        return value, grad

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        stack = active_stack()
        is_followed = bool(stack.tokens) and not stack.framed
        with with_checkpoints(Checkpoints(segments) if is_followed else None):
            captured = captured_tensors(f) if stack.tokens else []
            captured = [x for x in captured if _is_floating(x) and _is_followed(x)]
            return wrapped(args, captured, **kwargs)

    return call


def _content(value: Any) -> Any:
    """Return what a write to a tensor replaces."""
    if isinstance(value, Tensor):
        return value.array
    return value.tensor if batching.is_batched(value) else None


def _is_followed(value: Any) -> bool:
    """Whether a recorder may ask for the gradient of an operand."""
    return getattr(batching.unwrap(value)[0], "node", None) is not None


def _is_floating(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and bool(dtype.is_differentiable)


class _ReadsPerExample(VariableLog):
    """Replaces an inactive tape inside vmap: reads variables per example as the tape would."""

    def __init__(self, frame: Any) -> None:
        super().__init__()
        self.frame = frame

    def read_per_example(self, variable: Variable, is_own: bool = False) -> Any:
        others = Stack(tuple(r for r in active_stack().recorders if r is not self))
        with using_stack(others):
            return batching.per_example(variable.shared_value(), self.frame)


@contextmanager
def _without_tapes() -> Iterator[None]:
    """Deactivate all tapes and accumulators; variable logs stay active."""
    stack = active_stack()
    logs = [r for r in stack.recorders if isinstance(r, VariableLog) and r.frame is None]
    if stack.framed:
        logs.append(_ReadsPerExample(stack.framed[-1].frame))
    with using_stack(Stack(tuple(logs))):
        yield


def grad_pass_through(f: Function) -> Function:
    """Return a function with the value of `f` and the gradient of the identity.

    >>> import tapegrad
    >>> x = tapegrad.Variable(1.4)
    >>> with tapegrad.GradientTape() as tape:
    ...     y = grad_pass_through(tapegrad.round)(x)
    >>> float(y), float(tape.gradient(y, x))
    (1.0, 1.0)
    """
    check_function(f, "grad_pass_through")

    @custom_gradient
    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        def grad(*upstream: Any, variables: Any = None) -> Any:
            of_inputs = upstream if len(upstream) > 1 else upstream[0]
            if variables is not None:
                return of_inputs, [None] * len(variables)
            return of_inputs

        return f(*args, **kwargs), grad

    return wrapped


def _without_writes(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function without tapes; raise an error if it has written to its arguments."""
    before = [_content(x) for x in nest.flatten(args)]
    with _without_tapes():
        value = f(*args, **kwargs)
    if any([_content(x) is not old for x, old in zip(nest.flatten(args), before, strict=True)]):
        raise ArgumentError(
            "recompute_grad runs the function again for the gradient, so the function must not "
            "write to its arguments. Write to a copy: x = x.copy()."
        )
    return value


def _recomputed(
    f: Function,
    args: tuple[Any, ...],
    captured: Sequence[Any],
    kwargs: dict[str, Any],
    followed: Sequence[bool],
    upstream: tuple[Any, ...],
    variables: Any,
) -> Any:
    """Call a function again under a tape, and return its gradients as `custom_gradient` expects."""
    with TransformTape(watch_accessed_variables=False) as tape:
        leaves = [x * 1 if wants else x for x, wants in zip(nest.flatten(args), followed)]
        watched = [x for x, wants in zip(leaves, followed) if wants]
        # Arguments are copies: what the function captures is watched apart from them.
        watched += captured
        if watched:
            tape.watch(watched)
        if variables:
            tape.watch(list(variables))
        again = nest.flatten(f(*nest.pack_sequence_as(args, leaves), **kwargs))
    sources = watched + list(variables)
    rest = iter(tape.gradient(again, sources, list(upstream), UnconnectedGradients.ZERO))
    inputs = [next(rest) if wants else None for wants in followed]
    inputs += [next(rest) for _ in captured]
    return (inputs, list(rest)) if variables else inputs
