"""A function for arguments of one signature, as TensorFlow's `get_concrete_function` returns it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tapegrad.core.values import nest
from tapegrad.core.values.strings import StringTensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.creation import zeros
from tapegrad.program.autograph.recording import must_be_recorded
from tapegrad.program.inspect.graph_view import FunctionDefinition, FunctionGraph
from tapegrad.program.record.arguments import flatten_call
from tapegrad.program.record.recording_lock import recording_alone
from tapegrad.program.record.signature import TensorSpec, fitted_to, keep_specs

if TYPE_CHECKING:
    from tapegrad.program.recorded_call import RecordedCall


class ConcreteFunction:
    """Calls a function with tensors of known shapes and dtypes; Python arguments are fixed.

    Calls take the tensors alone, in order or by name, and must match the signature. Python
    arguments may be passed by name as well, with the same values.

    >>> import tapegrad
    >>> square = tapegrad.function(lambda x, times: times * x * x)
    >>> twice = square.get_concrete_function(TensorSpec([None], tapegrad.float32), 2)
    >>> twice(tapegrad.constant([3.0])).tolist()
    [18.0]
    """

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self._function = function
        self._bound = inspect.signature(function).bind(*args, **kwargs)
        self._bound.apply_defaults()
        self.__name__ = getattr(function, "__name__", "function")
        known = getattr(function, "recorded_specs", None)
        if known is not None:  # saved_model.save writes a function for each known signature
            given = self.structured_input_signature
            keep_specs(known, ("concrete", repr(given)), *given)

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments: a TensorSpec for each tensor, and the values of the others."""
        args, kwargs = nest.map_structure(_spec_of, (self._bound.args, self._bound.kwargs))
        return tuple(args), dict(kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._filled(args, kwargs)
        return self._function(*given.args, **given.kwargs)

    def _filled(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """Return all arguments, with the given tensors in the places of the specifications."""
        fixed = self._bound.arguments
        names = [name for name, value in fixed.items() if _has_tensors(value)]
        if len(args) == len(fixed) != len(names):  # with the fixed arguments in their places
            args = tuple(x for x, name in zip(args, fixed) if name in names)
        # Arguments that were recorded as constants may be passed again, if they are the same.
        kwargs = {name: x for name, x in kwargs.items() if not _is_recorded(fixed, name, x)}
        found = dict(zip(names, args)) | dict(kwargs)
        if len(args) + len(kwargs) != len(names) or set(found) != set(names):
            raise ArgumentTypeError(
                f"{self!r} takes the tensors {', '.join(names) or '(none)'}. Got {len(args)} by "
                f"position{''.join(f', {name}' for name in kwargs)}."
            )
        specs = [nest.map_structure(_spec_of, fixed[name]) for name in names]
        tensors = fitted_to(specs, tuple(found[name] for name in names))
        return inspect.BoundArguments(self._bound.signature, fixed | dict(zip(names, tensors)))

    @property
    def graph(self) -> FunctionGraph:
        """What the function calls: operations that are found by name.

        The function is recorded for it. Lengths that are not known are 2 in this recording.

        >>> import tapegrad
        >>> add = tapegrad.function(lambda x: x + 1.0)
        >>> graph = add.get_concrete_function(TensorSpec([None])).graph
        >>> [operation.name for operation in graph.get_operations()]
        ['x', 'Add', 'Identity']
        """
        names = [
            name
            for name, value in self._bound.arguments.items()
            for leaf in nest.flatten(value)
            if isinstance(leaf, TensorSpec | Tensor)
        ]
        with self._recorded(2) as call:
            if call.graph.obstacle:
                raise ArgumentError(f"{self.__name__!r} has no graph: {call.graph.obstacle}")
            return FunctionGraph(self.__name__, call.graph, names)

    @contextmanager
    def _recorded(self, length: int) -> Iterator[RecordedCall]:
        """Record a call in which lengths that are not known are this one."""
        function: Any = getattr(self._function, "__func__", self._function)
        given = self._bound.args, self._bound.kwargs
        args, kwargs = nest.map_structure(lambda one: _example(one, length), given)
        with recording_alone():
            with must_be_recorded(f"{self.__name__!r} has no graph"):
                call = function._recorded_call(flatten_call(args, kwargs), args, kwargs)
            try:
                yield call
            finally:
                call.let_go()

    @cached_property
    def structured_outputs(self) -> Any:
        """The results: a TensorSpec for each tensor, and the values of the others.

        Lengths are None if they depend on lengths that are not known.

        >>> import tapegrad
        >>> double = tapegrad.function(lambda x: {"twice": 2 * x})
        >>> double.get_concrete_function(TensorSpec([None, 3])).structured_outputs
        {'twice': TensorSpec(shape=(None, 3), dtype=float32)}
        """
        found = []
        for length in (2, 3):
            with self._recorded(length) as call:
                found.append(nest.map_structure(_spec_of, call._result))
        return nest.map_structure(_common_spec, *found)

    @cached_property
    def captured_inputs(self) -> list[Variable]:
        """The variables that the function reads or writes."""
        with self._recorded(2) as call:
            return list(call.outcome().variables.values())

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables that the function reads or writes."""
        return tuple(self.captured_inputs)

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """Those that training changes."""
        return tuple(variable for variable in self.captured_inputs if variable.trainable)

    @property
    def name(self) -> str:
        """The name of the Python function."""
        return self.__name__

    @property
    def inputs(self) -> list[TensorSpec]:
        """The shapes and dtypes of the tensors that it takes."""
        return _specs_in(self.structured_input_signature)

    @property
    def outputs(self) -> list[TensorSpec]:
        """The shapes and dtypes of the tensors that it returns."""
        return _specs_in(self.structured_outputs)

    @property
    def output_shapes(self) -> Any:
        """The shapes of the results, in their structure."""
        return nest.map_structure(
            lambda one: TensorShape(one.shape) if isinstance(one, TensorSpec) else None,
            self.structured_outputs,
        )

    @property
    def output_dtypes(self) -> Any:
        """The dtypes of the results, in their structure."""
        return nest.map_structure(
            lambda one: one.dtype if isinstance(one, TensorSpec) else None, self.structured_outputs
        )

    @property
    def function_type(self) -> inspect.Signature:
        """The signature of the Python function, annotated with the specs of its tensors.

        >>> import tapegrad
        >>> add = tapegrad.function(lambda x, y: x + y)
        >>> add.get_concrete_function(TensorSpec([2]), 1.0).function_type.parameters["x"].annotation
        TensorSpec(shape=(2,), dtype=float32)
        """
        parameters = [
            one.replace(
                annotation=nest.map_structure(_spec_of, self._bound.arguments[name]),
                default=inspect.Parameter.empty,
            )
            for name, one in self._bound.signature.parameters.items()
            if name in self._bound.arguments
        ]
        return inspect.Signature(parameters, return_annotation=self.structured_outputs)

    @property
    def inference_fn(self) -> ConcreteFunction:
        """This function: there is no other form of it for calls without gradients.

        >>> import tapegrad
        >>> add = tapegrad.function(lambda x: x + 1.0)
        >>> float(add.get_concrete_function(TensorSpec([])).inference_fn(tapegrad.constant(1.0)))
        2.0
        """
        return self

    @property
    def function_def(self) -> FunctionDefinition:
        """The signature and the nodes of `graph`.

        >>> import tapegrad
        >>> add = tapegrad.function(lambda x: x + 1.0)
        >>> add.get_concrete_function(TensorSpec([2])).function_def.signature.input_arg
        [GraphArgument(name='x', type='float32')]
        """
        return FunctionDefinition(self.graph)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"ConcreteFunction has no attribute {name!r}.")

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}: {nest.map_structure(_spec_of, value)}"
            for name, value in self._bound.arguments.items()
        )
        return f"<ConcreteFunction {self.__name__}({shown})>"


def _example(value: Any, length: int) -> Any:
    """Return a tensor of zeros for a spec, with this length for each one that is not known."""
    if not isinstance(value, TensorSpec):
        return value
    return zeros([length if n is None else n for n in value.shape or ()], value.dtype)


def _common_spec(one: Any, other: Any) -> Any:
    """Return the spec of results of two recordings, with None for lengths that differ."""
    if not isinstance(one, TensorSpec):
        return one
    shape = [n if n == m else None for n, m in zip(one.shape or (), other.shape or ())]
    return TensorSpec(shape, one.dtype)


def _specs_in(structure: Any) -> list[TensorSpec]:
    return [one for one in nest.flatten(structure) if isinstance(one, TensorSpec)]


def _has_tensors(value: Any) -> bool:
    kinds = TensorSpec | Tensor | Variable | StringTensor
    return any(isinstance(leaf, kinds) for leaf in nest.flatten(value))


def _is_recorded(fixed: Mapping[str, Any], name: str, value: Any) -> bool:
    """Whether a Python argument has the value with which the function was recorded."""
    known = fixed.get(name, _MISSING)
    return type(value) is type(known) and isinstance(value, _CONSTANTS) and value == known


_MISSING = object()
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))


def _spec_of(value: Any) -> Any:
    if isinstance(value, Tensor | Variable | StringTensor):
        return TensorSpec(value.shape, value.dtype)
    return value
