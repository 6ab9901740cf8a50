"""Functions that bring their own gradient: custom_gradient and its neighbours."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad.autodiff import batching
from tapegrad.autodiff.gradient_tape import GradientTape, UnconnectedGradients
from tapegrad.core import nest
from tapegrad.core.convert import to_tensor
from tapegrad.core.primitive import record_many
from tapegrad.core.recorder import (
    Node,
    Stack,
    Token,
    active_stack,
    enter_recorder,
    leave_recorder,
    using_stack,
)
from tapegrad.core.rule import as_tensor_value
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError

Function = Callable[..., Any]


class VariableLog:
    """A recorder that follows nothing and notes which trainable variables are read."""

    listens = False
    watches_variables = False
    notes_cuts = False
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
    """One call of a custom-gradient function, in the role of a primitive on the tape."""

    differentiable = True
    many = True
    broadcasts = conjugates = False
    needs_tensors = True
    plain_rules = vjp_rules = jvp_rules = joint_jvp = sparse_vjp = None

    def __init__(self, name: str, backward: Function) -> None:
        self.name = name
        self.joint_vjp = _CustomRule(backward)


class _CustomRule:
    """The user's backward function with the interface of a Rule that reads nothing."""

    reads = wants = ()

    def __init__(self, backward: Function) -> None:
        self._backward = backward

    def __call__(self, t: Sequence[Any], saved: Any, params: Any) -> list[Any]:
        return self._backward(*[as_tensor_value(part) for part in t])  # type: ignore[no-any-return]

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

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return _call(f, args, kwargs)

    return decorated


def _call(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    _refuse_tensor_keywords(f, kwargs)
    inputs = [_as_input(leaf) for leaf in nest.flatten(args)]
    log = VariableLog()
    with log.listening():
        value, backward = _value_and_backward(f, nest.pack_sequence_as(args, inputs), kwargs)
    passed = {leaf.number for leaf in nest.flatten(args) if isinstance(leaf, Variable)}
    variables = [v for number, v in sorted(log.read.items()) if number not in passed]
    _check_takes_variables(f, backward, variables)
    frame = next((batching.Frame(x.level, 0) for x in inputs if batching.is_batched(x)), None)
    outputs = [_as_output(leaf) for leaf in nest.flatten(value)]
    fresh = tuple(wrap(batching.physical(out, frame).array) for out in outputs)
    operands = [batching.physical(x, frame) for x in inputs] + [v.value() for v in variables]
    call = CustomCall(getattr(f, "__name__", "custom_gradient"),
                      _Backward(backward, len(inputs), variables, frame))
    record_many(active_stack(), call, {}, [x.array for x in operands],  # type: ignore[arg-type]
                tuple(x.node for x in operands), [x.array for x in fresh], fresh)
    results = [
        batching.Batched(new, frame.level) if frame and batching.is_batched(old) else new
        for new, old in zip(fresh, outputs, strict=True)
    ]
    return nest.pack_sequence_as(value, results)


class _Backward:
    """Calls the user's gradient function and checks what it returns."""

    def __init__(
        self, function: Function, inputs: int, variables: list[Variable], frame: Any
    ) -> None:
        self.function = function
        self.inputs = inputs
        self.variables = variables
        self.frame = frame

    def __call__(self, *upstream: Any) -> list[Any]:
        if self.frame is not None:
            upstream = tuple(batching.Batched(t, self.frame.level) for t in upstream)
        if self.variables:
            grads, of_variables = self.function(*upstream, variables=self.variables)
            of_variables = _as_list(of_variables)
            if len(of_variables) != len(self.variables):
                raise ArgumentError(
                    f"The gradient function must return {len(self.variables)} variable "
                    f"gradients. It returned {len(of_variables)}."
                )
        else:
            grads, of_variables = self.function(*upstream), []
        grads = _as_list(grads)
        if len(grads) != self.inputs:
            raise ArgumentError(
                f"The gradient function must return {self.inputs} gradients, one per positional "
                f"input. It returned {len(grads)}."
            )
        return [self._tensor(g) for g in (*grads, *of_variables)]

    def _tensor(self, grad: Any) -> Any:
        if grad is None:
            return None
        return batching.physical(grad if batching.is_batched(grad) else to_tensor(grad), self.frame)


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
    return leaf if batching.is_batched(leaf) else to_tensor(leaf)


def _as_output(leaf: Any) -> Any:
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
    parameters = inspect.signature(backward).parameters.values()
    if not any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in parameters):
        names = ", ".join(repr(variable.name) for variable in variables)
        raise ArgumentTypeError(
            f"{getattr(f, '__name__', 'The function')} reads the variables {names}, so its "
            "gradient function must take `variables=None` and return "
            "(input_gradients, variable_gradients)."
        )


def recompute_grad(f: Function) -> Function:
    """Keep only the inputs of `f`; run it again when its gradient is needed.

    Trades time for memory. Random numbers drawn inside must come from an explicit seed.

    >>> import tapegrad
    >>> x = tapegrad.Variable(2.0)
    >>> with tapegrad.GradientTape() as tape:
    ...     y = recompute_grad(lambda x: x * x * x)(x)
    >>> float(tape.gradient(y, x))
    12.0
    """

    @custom_gradient
    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with _quiet():
            value = f(*args, **kwargs)

        def grad(*upstream: Any, variables: Any = ()) -> Any:
            with GradientTape(watch_accessed_variables=False) as tape:
                leaves = [x * 1 if _is_floating(x) else x for x in nest.flatten(args)]
                tape.watch([x for x in leaves if _is_floating(x)])
                if variables:
                    tape.watch(list(variables))
                again = nest.flatten(f(*nest.pack_sequence_as(args, leaves), **kwargs))
            grads = tape.gradient(
                again, leaves + list(variables), list(upstream), UnconnectedGradients.ZERO
            )
            inputs = [g if _is_floating(x) else None for g, x in zip(grads, leaves, strict=False)]
            return (inputs, grads[len(leaves) :]) if variables else inputs

        return value, grad

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        return wrapped(*args, **kwargs)

    return call


def _is_floating(value: Any) -> bool:
    return bool(value.dtype.is_differentiable)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence all tapes and accumulators, but let variable logs see the reads."""
    logs = tuple(r for r in active_stack().recorders if isinstance(r, VariableLog))
    with using_stack(Stack(logs)):
        yield


def grad_pass_through(f: Function) -> Function:
    """Return a function that computes `f` and has the gradient of the identity.

    >>> import tapegrad
    >>> x = tapegrad.Variable(1.4)
    >>> with tapegrad.GradientTape() as tape:
    ...     y = grad_pass_through(tapegrad.round)(x)
    >>> float(y), float(tape.gradient(y, x))
    (1.0, 1.0)
    """

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

