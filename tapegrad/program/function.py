"""The `function` decorator: the first call is recorded, later ones replay its kernels.

A replay runs the same kernels on the same values, without the Python code around them: no tapes, no
checks, no tensors in between.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tapegrad.core import nest
from tapegrad.core.backend import find_backend
from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.primitive import INTERPRETERS
from tapegrad.core.recorder import active_stack
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.core.variable import Variable, live_variables
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.program.graph import (
    Graph,
    renumbered,
    without_dead_calls,
    without_repeated_calls,
)
from tapegrad.program.lowering import plain_steps, to_python
from tapegrad.program.recording import Recorded, Recording
from tapegrad.program.signature import UnhashableError, flatten_call, key_of

Python = Callable[..., Any]

MOST_PROGRAMS = 32
"""Signatures that a function keeps programs for."""

MANY_PROGRAMS = 8
"""Recordings after which a warning says that the arguments keep changing."""

# One recording at a time: it lets all variables hold recorded arrays.
_lock = threading.RLock()
_settings = {"eager": False}


class _Thread(threading.local):
    recording = False


_thread = _Thread()


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Let every `function` run its Python code at each call, e.g. to debug it.

    >>> run_functions_eagerly(True)
    >>> functions_run_eagerly()
    True
    >>> run_functions_eagerly(False)
    """
    _settings["eager"] = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Return whether functions run their Python code at each call.

    >>> functions_run_eagerly()
    False
    """
    return _settings["eager"]


class Program:
    """One recorded call: what it computes, and how to do it again."""

    def __init__(self, graph: Graph, variables: list[Variable], written: list[Variable]) -> None:
        self.graph = graph
        self._variables = variables
        self._written = written
        self._run = to_python(graph, plain_steps(graph))
        kinds = {call.kind for call in graph.calls}
        backend = find_backend(kinds.pop()) if len(kinds) == 1 else None
        capture = None if backend is None else backend.kernels.get("capture")
        if capture is not None:
            self._run = capture(self._run, _positions(variables, written))

    def __str__(self) -> str:
        return str(self.graph)

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Run on the inputs' arrays; change the variables and return the outputs' arrays."""
        outputs, held = self._run(inputs, [variable.array for variable in self._variables])
        for variable, array in zip(self._written, held):
            variable.array = array
        return tuple(outputs)


def _positions(variables: list[Variable], written: list[Variable]) -> list[int]:
    places = {variable.number: position for position, variable in enumerate(variables)}
    return [places[variable.number] for variable in written]


class _Entry:
    """A program with the structure of what the function returns."""

    def __init__(self, program: Program, result: Any, leaves: list[Any]) -> None:
        self.program = program
        self._result = result
        self._leaves = leaves

    def run(self, leaves: list[Any]) -> Any:
        inputs = [leaf.array for leaf in leaves if type(leaf) is Tensor]
        arrays = iter(self.program(inputs))
        results = [_rebuilt(leaf, arrays) for leaf in self._leaves]
        return nest.pack_sequence_as(self._result, results)


class Function:
    """A Python function that is recorded once per signature of its arguments."""

    def __init__(self, python_function: Python, eager: bool) -> None:
        functools.update_wrapper(self, python_function)
        self.python_function = python_function
        self._eager = eager
        self._entries: OrderedDict[Any, _Entry] = OrderedDict()
        self._recordings = 0

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self.__call__, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stack = active_stack()
        if self._eager or _settings["eager"] or _thread.recording or stack.tokens:
            # A tape outside sees everything that happens inside, a recording likewise.
            return self.python_function(*args, **kwargs)
        leaves = flatten_call(args, kwargs)
        if any([type(leaf) in INTERPRETERS for leaf in leaves]):
            return self.python_function(*args, **kwargs)
        try:
            key = key_of(leaves, args, kwargs)
        except UnhashableError as error:
            self._warn(f"{error}, so that its calls cannot be told apart: it runs eagerly.")
            return self.python_function(*args, **kwargs)
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            return entry.run(leaves)
        return self._record(key, leaves, args, kwargs)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """Return the program that a call with such arguments replays.

        >>> import tapegrad
        >>> square = function(lambda x: x * x)
        >>> y = square(tapegrad.constant([2.0]))
        >>> print(square.program(tapegrad.constant([3.0])))
        inputs: %1:float32[1]
          %2:float32[1] = multiply(%1:float32[1], %1:float32[1])
        outputs: %2:float32[1]
        """
        leaves = flatten_call(args, kwargs)
        entry = self._entries.get(key_of(leaves, args, kwargs))
        if entry is None:
            raise ArgumentError(
                "There is no program for such arguments yet: call the function with them first."
            )
        return entry.program

    def _warn(self, message: str) -> None:
        name = getattr(self.python_function, "__name__", "function")
        warnings.warn(f"function {name!r}: {message}", stacklevel=3)

    def _record(
        self, key: Any, leaves: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run the Python code for real on recorded arrays, and keep the program."""
        self._recordings += 1
        if self._recordings == MANY_PROGRAMS:
            self._warn(
                f"it was recorded {MANY_PROGRAMS} times because its arguments keep changing. "
                "Python numbers are part of a program: pass them as tensors, and keep shapes equal."
            )
        recording = Recording()
        inside = [_taken(leaf, recording) for leaf in leaves]
        new_args, new_kwargs = nest.pack_sequence_as((args, kwargs), inside)
        with _lock:
            for variable in live_variables():
                recording.take_variable(variable)
            _thread.recording = True
            try:
                result = self.python_function(*new_args, **new_kwargs)
            finally:
                _thread.recording = False
                read, written = recording.give_back_variables()
        flat = nest.flatten(result)
        outputs = [array for leaf in flat for array in _arrays_of(leaf)]
        graph = recording.graph(outputs, read, written)
        self._keep(key, _program(graph, recording), result, flat)
        real = iter([array.array if type(array) is Recorded else array for array in outputs])
        return nest.pack_sequence_as(result, [_rebuilt(leaf, real) for leaf in flat])

    def _keep(self, key: Any, program: Program, result: Any, flat: list[Any]) -> None:
        shape_only = [_without_arrays(leaf) for leaf in flat]
        structure = nest.pack_sequence_as(result, [None] * len(flat))
        self._entries[key] = _Entry(program, structure, shape_only)
        if len(self._entries) > MOST_PROGRAMS:
            self._entries.popitem(last=False)


def _program(graph: Graph, recording: Recording) -> Program:
    """The graph without what nobody needs: dead and repeated calls, variables never read."""
    graph = without_dead_calls(without_repeated_calls(graph, lambda primitive: True))
    used = {value.number for call in graph.calls for value in call.reads}
    used |= {value.number for value in graph.results}
    kept = {
        number: value
        for number, value in graph.variables.items()
        if value.number in used or number in graph.written
    }
    constants = {number: a for number, a in graph.constants.items() if number in used}
    graph = replace(graph, variables=kept, constants=constants)
    graph = renumbered(graph)
    by_number = {number: variable for number, (variable, _) in recording.variables.items()}
    return Program(graph, [by_number[n] for n in kept], [by_number[n] for n in graph.written])


def _taken(leaf: Any, recording: Recording) -> Any:
    return wrap(recording.take_input(leaf.array)) if type(leaf) is Tensor else leaf


def _arrays_of(leaf: Any) -> Sequence[Any]:
    """The arrays in a leaf of the result."""
    if type(leaf) is Tensor:
        return (leaf.array,)
    if isinstance(leaf, IndexedSlices):
        return (leaf.values.array, leaf.indices.array)
    return ()


def _without_arrays(leaf: Any) -> Any:
    """What is needed to make such a leaf again."""
    if type(leaf) is Tensor:
        return Tensor
    if isinstance(leaf, IndexedSlices):
        return IndexedSlices, leaf.dense_shape
    return leaf


def _rebuilt(leaf: Any, arrays: Any) -> Any:
    """A leaf of the result from new arrays; what holds no tensor is returned as it was."""
    if leaf is Tensor or type(leaf) is Tensor:
        return wrap(next(arrays))
    if isinstance(leaf, IndexedSlices):
        return IndexedSlices(wrap(next(arrays)), wrap(next(arrays)), leaf.dense_shape)
    if type(leaf) is tuple and leaf and leaf[0] is IndexedSlices:
        return IndexedSlices(wrap(next(arrays)), wrap(next(arrays)), leaf[1])
    return leaf


def function(
    func: Python | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    **experimental: Any,
) -> Any:
    """Make one program of a function, as TensorFlow's `tf.function` does.

    The first call with arguments of new shapes, dtypes or Python values runs the Python code and
    records what it computes: operations, tapes, optimizers, assignments. Later calls replay that
    without running Python code, so side effects such as `print` happen once. Reading a value
    while recording (`float(x)`, `if x > 0`) is an error. Inside a tape, or with
    `jit_compile=False`, the Python code runs at each call. The other options are TensorFlow's and
    have no effect.

    >>> import tapegrad
    >>> @function
    ... def square(x):
    ...     return x * x
    >>> float(square(tapegrad.constant(3.0)))
    9.0
    """
    if func is None:
        return functools.partial(function, jit_compile=jit_compile)
    if not callable(func):
        raise ArgumentTypeError(f"function() decorates a function. Got {type(func).__name__}.")
    return Function(func, eager=jit_compile is False)
