"""The `function` decorator: the first call is recorded, later ones replay its kernels.

A replay runs the same kernels on the same values, without the Python code around them: no tapes, no
checks, no tensors in between.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tapegrad.autodiff.batching import current_frame
from tapegrad.core import nest
from tapegrad.core.device import chosen_device
from tapegrad.core.primitive import INTERPRETERS
from tapegrad.core.recorder import active_stack
from tapegrad.core.recovery import readable
from tapegrad.core.tensor import Tensor
from tapegrad.core.variable import live_variables
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.program import branches  # noqa: F401  # teaches tapegrad.cond about recordings
from tapegrad.program.around import Backward, Followed, OneCall, Pullback, can_follow, followed_by
from tapegrad.program.effects import silence
from tapegrad.program.entry import Entry, arrays_of, rebuilt
from tapegrad.program.methods import Method
from tapegrad.program.program import Program, program_of
from tapegrad.program.recording import Recorded, current_recording
from tapegrad.program.signature import (
    Args,
    CannotRecord,
    Kwargs,
    Parameters,
    changes,
    check_specs,
    fitted_to,
    flatten_call,
    key_of,
)
from tapegrad.program.turns import without_workers
from tapegrad.program.two_ways import NoProgram, TwoWays, record_two_ways, recording_call

Python = Callable[..., Any]

MOST_PROGRAMS = 32
"""Signatures that a function keeps programs for."""

MANY_PROGRAMS = 8
"""Recordings after which a warning says that the arguments keep changing."""

# One recording at a time: it lets all variables hold recorded arrays.
_lock = threading.RLock()
_settings = {"eager": False, "recording": False}


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


class Function:
    """A Python function that is recorded once per signature of its arguments."""

    def __init__(
        self,
        python_function: Python,
        eager: bool = False,
        specs: Any = None,
        memory_budget: int | None = None,
    ) -> None:
        self._is_static = isinstance(python_function, staticmethod)
        if isinstance(python_function, staticmethod):
            python_function = python_function.__func__
        is_plain = isinstance(python_function, types.FunctionType)
        updated = functools.WRAPPER_UPDATES if is_plain else ()
        functools.update_wrapper(self, python_function, updated=updated)
        self.python_function = python_function
        self._eager = eager
        self._memory_budget = memory_budget
        self._specs = check_specs(specs)
        self._takes_short_way = not eager and specs is None
        self._entries: dict[Any, Entry] = {}
        self._two_ways: dict[Any, TwoWays] = {}
        self._given_up: set[Any] = set()
        self._gradient: Function | None = None
        self._recordings = 0
        self._last: dict[str, str] = {}
        self._warned: set[str] = set()
        self._bound: dict[int, tuple[weakref.ref[Any], Function]] = {}

    @functools.cached_property
    def _parameters(self) -> Parameters:
        return Parameters(self.python_function)

    def _gradient_function(self) -> Function:
        """The function that returns gradients of this one, made when it is first needed."""
        if self._gradient is None:
            self._gradient = Function(Pullback(self.python_function, self._name))
        return self._gradient

    @property
    def _name(self) -> str:
        inner = getattr(self.python_function, "func", self.python_function)  # of a partial
        return str(getattr(inner, "__name__", type(inner).__name__))

    def __repr__(self) -> str:
        return f"<tapegrad.function {self._name!r} with {len(self._entries)} programs>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        """Copy what is recorded, not the recordings: those belong to the old variables."""
        python_function = copy.deepcopy(self.python_function, memo)
        return Function(python_function, self._eager, self._specs, self._memory_budget)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None or self._is_static:
            return self
        known = self._bound.get(id(instance))
        if known is not None and known[0]() is instance:
            return known[1]
        return self._bind(instance)

    def _bind(self, instance: Any) -> Any:
        """The method of one object, with programs of its own that end with the object."""
        bound, number = self._bound, id(instance)
        try:
            reference = weakref.ref(instance, lambda _: bound.pop(number, None))
        except TypeError:  # it cannot be referred to weakly: it is an argument like others
            return functools.partial(self.__call__, instance)
        method = Method(self.python_function, reference)
        function = Function(method, self._eager, self._specs, self._memory_budget)
        bound[number] = (reference, function)
        return function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay the program for such arguments; record it first where there is none."""
        if (
            not self._takes_short_way
            or kwargs
            or _settings["eager"]
            or active_stack().tokens
            or current_recording() is not None
            or current_frame() is not None
        ):
            return self._call(args, kwargs)
        # Tensors alone are what most calls pass: `key_of` makes the same key of them.
        key: list[Any] = [chosen_device()]
        arrays: list[Any] = []
        for arg in args:
            if type(arg) is not Tensor:
                return self._call(args, kwargs)
            array = arg.array
            arrays.append(array)
            key += (type(array), array.shape, array.dtype)
        entry = self._entries.get(tuple(key))
        if entry is None or _settings["recording"]:
            return self._call(args, kwargs)
        return entry.run(arrays)

    def _call(self, args: Args, kwargs: Kwargs) -> Any:
        """Any call: replay, record, or run the Python code where neither is possible."""
        if kwargs:
            args, kwargs = self._parameters.by_position(args, kwargs)
        if self._specs is not None:
            args = fitted_to(self._specs, args)
        if self._runs_eagerly():
            return self.python_function(*args, **kwargs)
        leaves = flatten_call(args, kwargs)
        if any([type(leaf) in INTERPRETERS for leaf in leaves]):
            return self.python_function(*args, **kwargs)
        try:
            key = key_of(leaves, args, kwargs)
        except CannotRecord as error:
            self._warn(f"{error}: it runs eagerly.")
            return self.python_function(*args, **kwargs)
        if key in self._given_up:
            return self.python_function(*args, **kwargs)
        if active_stack().tokens:
            return self._call_followed(key, leaves, args, kwargs)
        entry = self._entries.get(key)
        if entry is None:
            return self._record(key, leaves, args, kwargs)
        return _run(entry, _arrays(leaves))

    def _runs_eagerly(self) -> bool:
        """Whether the Python code runs now: it was asked for, or everything inside must be seen."""
        return (
            self._eager
            or _settings["eager"]
            or current_recording() is not None
            or current_frame() is not None
            or not can_follow(active_stack())
        )

    def _call_followed(self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        """Call with tapes around: they see one operation."""
        stack = active_stack()
        flags = followed_by(stack, leaves)
        ways, held, is_new = self._two_ways.get((key, flags)), None, False
        result: Any = None
        rest: list[Any] = []
        if ways is None:
            held = {variable.number: variable.array for variable in live_variables()}
            with _recording_alone():
                self._count_recording(args, kwargs)
                try:
                    ways, result, rest = record_two_ways(
                        self.python_function, (args, kwargs), leaves, flags, stack
                    )
                except NoProgram as error:
                    self._give_up(key, error.__cause__)
                    _put_back(held)
                    return self.python_function(*args, **kwargs)
            _keep(self._two_ways, (key, flags), ways)
            is_new = any(v.number not in held for v in ways.entry.written)
            held = {v.number: held.get(v.number, v.array) for v in live_variables()}
        followed = Followed(ways.entry, leaves, held)
        if followed.changes_what_is_followed:
            _put_back(held)
            return self.python_function(*args, **kwargs)
        if held is None:
            _wait_for_recordings(ways.entry)
            result, rest = ways.entry.run_all(_arrays(leaves))
        elif not is_new:  # once more, as when there is no tape
            _put_back(held)
            with silence():
                result, rest = ways.entry.run_all(_arrays(leaves))
        if not followed.is_needed:
            return result
        backward = Backward(self._gradient_function, ways, leaves, followed)
        return followed.record(OneCall(self._name, backward), result, rest)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """Return the program that a call with such arguments replays.

        >>> import tapegrad
        >>> largest = function(lambda x: tapegrad.sort(x)[1:])
        >>> y = largest(tapegrad.constant([2.0, 3.0, 1.0]))
        >>> print(largest.program(tapegrad.constant([4.0, 6.0, 5.0])))
        2 recorded calls, 2 steps; runs on NumPy
        inputs: %1:float32[3]
          %2:float32[3] = sort(%1:float32[3], axis=0, descending=False)
          %3:float32[2] = slice(%2:float32[3], index=(slice(1, 3, 1),))
        outputs: %3:float32[2]
        """
        if kwargs:
            args, kwargs = self._parameters.by_position(args, kwargs)
        if self._specs is not None:
            args = fitted_to(self._specs, args)
        leaves = flatten_call(args, kwargs)
        entry = self._entries.get(key_of(leaves, args, kwargs))
        if entry is None:
            raise ArgumentError(
                "There is no program for such arguments yet: call the function with them first."
            )
        return entry.program

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(f"function {self._name!r}: {message}", stacklevel=_depth())

    def _record(self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        """Run the Python code for real on recorded arrays, and keep the program."""
        with _recording_alone():
            entry = self._entries.get(key)
            if entry is not None:  # another thread was faster
                return entry.run(_arrays(leaves))
            self._count_recording(args, kwargs)
            return self._record_alone(key, leaves, args, kwargs)

    def _record_alone(self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        with recording_call(leaves) as (recording, inside):
            new_args, new_kwargs = nest.pack_sequence_as((args, kwargs), inside)
            result = self.python_function(*new_args, **new_kwargs)
        held = {v.number: first.array for v, first in recording.known_variables()}
        read, written = recording.give_back_variables()
        flat = nest.flatten(result)
        outputs = [array for leaf in flat for array in arrays_of(leaf)]
        graph = recording.graph(outputs, read, written)
        variables = recording.variables
        try:
            program = program_of(graph, variables, self._memory_budget)
            entry = Entry(program, result, flat, variables)
        except Exception as error:
            self._give_up(key, error)
            real = iter([array.array if type(array) is Recorded else array for array in outputs])
            return nest.pack_sequence_as(result, [rebuilt(leaf, real) for leaf in flat])
        _keep(self._entries, key, entry)
        self._check_budget(program)
        # A program rounds in other places. Once more, so that training that resumes in another
        # process, and records there, goes on bit for bit.
        _put_back(held)
        del held, result, flat, outputs, recording, inside, new_args, new_kwargs
        with silence():
            return entry.run(_arrays(leaves))

    def _check_budget(self, program: Program) -> None:
        budget = self._memory_budget
        if budget is not None and program.memory().peak > budget:
            self._warn(
                f"what it makes on the way takes {readable(program.memory().peak)} at once, more "
                f"than its memory budget of {readable(budget)}. Wrap parts of it in "
                "recompute_grad, or use smaller batches."
            )

    def _give_up(self, key: Any, error: Any) -> None:
        self._given_up.add(key)
        self._warn(f"it could not be made a program and runs eagerly: {error!r}")

    def _count_recording(self, args: Args, kwargs: Kwargs) -> None:
        """Note what was passed, and warn when it never stays the same."""
        self._recordings += 1
        now = self._parameters.described(args, kwargs)
        if self._recordings == MANY_PROGRAMS:
            self._warn(
                f"it was recorded {MANY_PROGRAMS} times because its arguments keep changing: "
                f"{changes(self._last, now)}. "
                "Python numbers are part of a program: pass them as tensors, and keep shapes equal."
            )
        self._last = now


def _run(entry: Entry, arrays: list[Any]) -> Any:
    if _settings["recording"]:
        _wait_for_recordings(entry)
    return entry.run(arrays)


def _wait_for_recordings(entry: Entry) -> None:
    """Let another thread's recording end: it has the variables."""
    if entry.variables:
        with _lock:
            pass


@contextmanager
def _recording_alone() -> Iterator[None]:
    with without_workers(), _lock:  # in this order: a worker may wait for the lock
        _settings["recording"] = True
        try:
            yield
        finally:
            _settings["recording"] = False


def _keep(programs: dict[Any, Any], key: Any, made: Any) -> None:
    programs[key] = made
    if len(programs) > MOST_PROGRAMS:
        del programs[next(iter(programs))]


def _arrays(leaves: list[Any]) -> list[Any]:
    return [leaf.array for leaf in leaves if type(leaf) is Tensor]


def _put_back(held: dict[int, Any] | None) -> None:
    """Undo what a first call assigned to variables."""
    if held is not None:
        for variable in live_variables():
            variable.array = held.get(variable.number, variable.array)


def _depth() -> int:
    """How many frames a warning must go up to name the user's line."""
    frame, depth = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("tapegrad."):
        frame, depth = frame.f_back, depth + 1
    return depth


def function(
    func: Python | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    *,
    jit: bool | None = None,
    memory_budget: int | None = None,
    **experimental: Any,
) -> Any:
    """Make one program of a function, as TensorFlow's `tf.function` does.

    The first call with arguments of new shapes, dtypes or Python values runs the Python code and
    records what it computes: operations, tapes, optimizers, assignments. Later calls replay that
    without running Python code, so side effects such as `print` happen once. Reading a value
    while recording (`float(x)`, `if x > 0`) is an error. `input_signature` lists a `TensorSpec` per
    argument, which calls must fit. With `jit=False`, which TensorFlow spells `jit_compile=False`,
    the Python code runs at each call. With `memory_budget`, in bytes, elementwise values are
    computed again rather than kept, as long as what is made on the way takes more than that. The
    other options are TensorFlow's and have no effect.

    >>> import tapegrad
    >>> @function
    ... def square(x):
    ...     return x * x
    >>> float(square(tapegrad.constant(3.0)))
    9.0
    """
    jit_compile = jit_compile if jit is None else jit
    if memory_budget is not None and (type(memory_budget) is not int or memory_budget <= 0):
        raise ArgumentError(
            f"memory_budget is a number of bytes, an int above 0. Got {memory_budget!r}."
        )
    if func is None:
        return functools.partial(
            function,
            input_signature=input_signature,
            jit_compile=jit_compile,
            memory_budget=memory_budget,
        )
    if not callable(func):
        raise ArgumentTypeError(
            f"function() decorates a function. Got {type(func).__name__}. Put @classmethod and "
            "@property above it, so that they decorate what it returns."
        )
    return Function(func, jit_compile is False, input_signature, memory_budget)
