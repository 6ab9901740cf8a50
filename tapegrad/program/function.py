"""The `function` decorator: record the first call, then replay its kernels.

A replay runs the recorded program without the Python code around it: no tapes, no checks, no
intermediate tensors.
"""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from tapegrad.autodiff.batching import current_frame
from tapegrad.core.observed import LAST_CHANGE
from tapegrad.core.out_of_memory import readable
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.recorder import active_stack
from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.device import chosen_device
from tapegrad.core.values.shared import mark_views
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.program.argument_writes import (
    NotesWrites,
    WithWrites,
    check_writable,
    store_writes,
)
from tapegrad.program.forward_backward import (
    FirstCall,
    ForwardBackward,
    NoProgram,
    record_forward_backward,
    recording_call,
)
from tapegrad.program.graph.initial_draws import draws_only_once, without_initial_draws
from tapegrad.program.outer_tape import (
    Backward,
    OneCall,
    Pullback,
    TrackedOperands,
    only_tapes,
    tracked_flags,
)
from tapegrad.program.program import Program, program_of
from tapegrad.program.program_cache import EagerKeys, ProgramCache
from tapegrad.program.record import branches  # noqa: F401  # lets tapegrad.cond see recordings
from tapegrad.program.record.arguments import (
    Args,
    CannotRecord,
    Kwargs,
    flatten_call,
    is_numeric,
    key_of,
    take_shared,
)
from tapegrad.program.record.effects import silence
from tapegrad.program.record.guards import Guards
from tapegrad.program.record.methods import Method
from tapegrad.program.record.recording import Recorded, current_recording
from tapegrad.program.record.recording_lock import recording_alone
from tapegrad.program.record.signature import Parameters, changes, check_specs, fitted_to
from tapegrad.program.result_structure import Entry, arrays_of, plain_leaf, rebuilt

Python = Callable[..., Any]

MANY_PROGRAMS = 8
"""The number of recordings after which a warning says that the arguments keep changing."""

_settings = {"eager": False}


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Set whether every `function` runs its Python code on each call, e.g. to debug it.

    >>> run_functions_eagerly(True)
    >>> functions_run_eagerly()
    True
    >>> run_functions_eagerly(False)
    """
    _settings["eager"] = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Return whether functions run their Python code on each call.

    >>> functions_run_eagerly()
    False
    """
    return _settings["eager"]


class Function:
    """A Python function that is recorded once per signature of its arguments."""

    _is_method = False

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
        is_plain = isinstance(python_function, FunctionType)
        updated = functools.WRAPPER_UPDATES if is_plain else ()
        functools.update_wrapper(self, python_function, updated=updated)
        self.python_function = python_function
        self._eager = eager
        self._memory_budget = memory_budget
        self._specs = check_specs(specs)
        self._takes_short_way = not eager and specs is None
        self._entries: ProgramCache[Entry] = ProgramCache()
        self._latest = self._entries.latest
        self._forward_backward: ProgramCache[ForwardBackward] = ProgramCache()
        self._first: ProgramCache[Entry] = ProgramCache()
        """The programs of first calls that differ from later calls, which record again."""
        self._first_under_tapes: ProgramCache[ForwardBackward] = ProgramCache()
        self._eager_keys = EagerKeys()
        self._gradient: Function | None = None
        self._recordings = 0
        self._changed_tensors = 0
        self._last: dict[str, str] = {}
        self._warned: set[str] = set()
        self._bound: dict[int, tuple[weakref.ref[Any], FunctionOfObject]] = {}

    @functools.cached_property
    def _parameters(self) -> Parameters:
        return Parameters(self.python_function)

    def _gradient_function(self) -> Function:
        """The function that returns the gradients of this one, made on first use."""
        if self._gradient is None:
            self._gradient = Function(Pullback(self.python_function, self._name))
        return self._gradient

    @property
    def _name(self) -> str:
        inner = getattr(self.python_function, "func", self.python_function)  # of a partial
        return str(getattr(inner, "__name__", type(inner).__name__))

    def __repr__(self) -> str:
        count = len(self._entries) + len(self._first)
        return f"<tapegrad.function {self._name!r} with {count} programs>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        """Copy the Python function but not its programs, which refer to the old variables."""
        python_function = copy.deepcopy(self.python_function, memo)
        return Function(python_function, self._eager, self._specs, self._memory_budget)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None or self._is_static:
            return self
        known = self._bound.get(id(instance))
        if known is not None and known[0]() is instance:
            return MethodType(known[1], instance)
        return self._bind(instance)

    def _bind(self, instance: Any) -> Any:
        """Return the method bound to an object; its programs are freed with the object.

        The method keeps the object alive, the programs do not.
        """
        bound, number = self._bound, id(instance)
        try:
            reference = weakref.ref(instance, lambda _: bound.pop(number, None))
        except TypeError:  # no weak references: the object is an ordinary argument
            return functools.partial(self.__call__, instance)
        method = Method(self.python_function, reference)
        function = FunctionOfObject(method, self._eager, self._specs, self._memory_budget)
        bound[number] = (reference, function)
        return MethodType(function, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay the program for these arguments, or record it on the first call."""
        if self._is_method:
            args = args[1:]  # the object, which `python_function` knows
        if (
            not self._takes_short_way
            or kwargs
            or _settings["eager"]
            or active_stack().tokens
            or current_recording() is not None
            or current_frame() is not None
        ):
            return self._call(args, kwargs)
        # Fast path for calls with tensors and NumPy arrays; `key_of` returns the same key.
        key: list[Any] = [chosen_device()]
        arrays: list[Any] = []
        for arg in args:
            if type(arg) is not Tensor:
                if not is_numeric(arg):
                    return self._call(args, kwargs)
                arg = to_tensor(arg)
            array = arg.array
            arrays.append(array)
            key += (type(array), array.shape, array.dtype)
        entry = self._latest.get(tuple(key))
        if entry is None or entry.written_arguments:
            return self._call(args, kwargs)
        guards = entry.guards
        is_unchanged = guards.is_simple and guards.last_change is LAST_CHANGE[0]
        if not is_unchanged and not guards.hold():
            return self._call(args, kwargs)
        return entry.run(arrays)

    def _call(self, args: Args, kwargs: Kwargs) -> Any:
        """Replay or record the call, or run the Python code if neither is possible."""
        if kwargs:
            args, kwargs = self._parameters.by_position(args, kwargs)
        if self._specs is not None:
            args = fitted_to(self._specs, args)
        if self._runs_eagerly():
            return self.python_function(*args, **kwargs)
        leaves = flatten_call(args, kwargs)
        shared = take_shared(leaves)
        if any([type(leaf) in INTERPRETERS for leaf in leaves]):
            return self.python_function(*args, **kwargs)
        try:
            key = key_of(leaves, args, kwargs)
        except CannotRecord as error:
            self._warn(f"{error}: it runs eagerly.")
            return self.python_function(*args, **kwargs)
        if key in self._eager_keys:
            return self.python_function(*args, **kwargs)
        if active_stack().tokens:
            return self._call_under_tapes(key, leaves, args, kwargs)
        result = self._call_program(key, leaves, args, kwargs)
        if shared:  # a result may be an argument, or a part of it
            mark_views(nest.flatten(result), shared)
        return result

    def _call_program(self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        """Run the program of a call, which is recorded first if there is none."""
        entry = self._entries.find(key)
        if entry is None:
            return self._record(key, leaves, args, kwargs)
        if entry.written_arguments:
            return self._run_and_write(entry, leaves, args, kwargs)
        return entry.run(_arrays(leaves))

    def _run_and_write(self, entry: Entry, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        """Run a program that writes to its arguments."""
        check_writable(entry.written_arguments, nest.flatten((args, kwargs)), leaves)
        return store_writes(entry.run(_arrays(leaves)), leaves)

    def _runs_eagerly(self) -> bool:
        """Whether eager mode is on, or an outer recorder must see every operation."""
        return (
            self._eager
            or _settings["eager"]
            or current_recording() is not None
            or current_frame() is not None
            or not only_tapes(active_stack())
        )

    def _call_under_tapes(self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        """Call under active tapes, which record it as one operation."""
        stack = active_stack()
        flags = tracked_flags(stack, leaves)
        tape_key = (key, flags)
        if tape_key in self._eager_keys:
            return self.python_function(*args, **kwargs)
        programs = self._forward_backward.find(tape_key)
        first: FirstCall | None = None
        if programs is None:
            with recording_alone():
                self._count_recording(args, kwargs)
                self._check_outside_tensors(self._forward_backward, tape_key, key)
                noting = NotesWrites(self.python_function)
                try:
                    programs, first = record_forward_backward(
                        noting, (args, kwargs), leaves, flags, stack
                    )
                except NoProgram as error:
                    self._give_up(key, error.__cause__)
                    return error.args[0].run_again(self.python_function, args, kwargs)
            # The tapes record each write to an argument. A tensor from outside that they track is
            # usually another one at the next call.
            if noting.has_written or programs.guards.track(stack):
                self._eager_keys.add(tape_key)
                return first.run_again(self.python_function, args, kwargs)
            caches = (self._first_under_tapes, self._forward_backward)
            _keep(tape_key, programs, first.draws_only_once, *caches)
        elif programs.guards.track(stack):
            return self.python_function(*args, **kwargs)
        tracked = TrackedOperands(programs.entry, leaves)
        if tracked.needs_eager_run:
            if first is not None:
                return first.run_again(self.python_function, args, kwargs)
            return self.python_function(*args, **kwargs)
        if first is None:
            result, rest = programs.entry.run_all(_arrays(leaves))
        else:
            with silence():  # effects happened while it was recorded
                result, rest = first.run(programs.entry, _arrays(leaves))
        if not tracked.is_needed:
            return result
        owner = self.python_function.owner if isinstance(self.python_function, Method) else None
        backward = Backward(self._gradient_function, programs, leaves, tracked, owner)
        return tracked.record(OneCall(self._name, backward), result, rest)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """Return the program that a call with these arguments replays.

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
        take_shared(leaves)
        try:
            key = key_of(leaves, args, kwargs)
        except CannotRecord as error:
            raise ArgumentTypeError(f"There is no program for these arguments. {error}.") from error
        entry = self._entries.find(key) or self._first.find(key)
        if entry is None:
            raise ArgumentError(
                "There is no program for these arguments yet. Call the function with them first."
            )
        return entry.program

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(f"function {self._name!r}: {message}", stacklevel=_depth())

    def _record(self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        """Run the Python code on recorded arrays and store the program."""
        with recording_alone():
            entry = self._entries.find(key)
            if entry is not None:  # another thread has recorded it
                return self._call(args, kwargs)
            self._count_recording(args, kwargs)
            self._check_outside_tensors(self._entries, key, key)
            return self._record_alone(key, leaves, args, kwargs)

    def _record_alone(self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        with recording_call(leaves) as (recording, inside):
            new_args, new_kwargs = nest.pack_sequence_as((args, kwargs), inside)
            result = NotesWrites(self.python_function)(*new_args, **new_kwargs)
            flat = [plain_leaf(leaf) for leaf in nest.flatten(result)]
            outputs = [array for leaf in flat for array in arrays_of(leaf)]
        read, written = recording.finish()
        graph = recording.graph(outputs, read, written)
        variables = recording.variables
        is_special = draws_only_once(graph, recording.initial, recording.made)
        later = graph if is_special else without_initial_draws(graph, recording.initial)
        try:
            guards = Guards(recording)
            program = program_of(graph, variables, self._memory_budget)
            entry = first = Entry(program, result, flat, variables, guards)
            if later is not graph:
                program = program_of(later, variables, self._memory_budget)
                entry = Entry(program, result, flat, variables, guards)
        except Exception as error:
            self._give_up(key, error)
            real = iter([array.array if type(array) is Recorded else array for array in outputs])
            outcome = nest.pack_sequence_as(result, [rebuilt(leaf, real) for leaf in flat])
            if type(outcome) is not WithWrites:
                recording.commit()
                return outcome
            check_writable(tuple(outcome.written), nest.flatten((args, kwargs)), leaves)
            recording.commit()
            return store_writes(outcome, leaves)
        finally:
            recording.let_go()
        _keep(key, entry, is_special, self._first, self._entries)
        self._check_budget(program)
        # The program rounds differently from eager code. Run it for the first call too, so that
        # training that resumes in another process gives the same bits.
        del result, flat, outputs, recording, inside, new_args, new_kwargs
        with silence():
            if first.written_arguments:
                return self._run_and_write(first, leaves, args, kwargs)
            return first.run(_arrays(leaves))

    def _check_budget(self, program: Program) -> None:
        budget = self._memory_budget
        if budget is not None and program.memory().peak > budget:
            self._warn(
                f"its intermediate values need {readable(program.memory().peak)}, more than its "
                f"memory budget of {readable(budget)}. Wrap parts of it in "
                "recompute_grad, or use smaller batches."
            )

    def _check_outside_tensors(self, cache: ProgramCache[Any], key: Any, eager_key: Any) -> None:
        """Run calls with this key eagerly from now on if a tensor from outside keeps changing."""
        latest = cache.latest.get(key)
        if latest is None or not latest.guards.lost_a_tensor:
            return
        self._changed_tensors += 1
        if self._changed_tensors == MANY_PROGRAMS:
            self._eager_keys.add(eager_key)
            self._warn(
                f"it was recorded {MANY_PROGRAMS} times because it uses a tensor from outside that "
                "keeps changing, and runs eagerly from now on: pass that tensor as an argument."
            )

    def _give_up(self, key: Any, error: Any) -> None:
        self._eager_keys.add(key)
        self._warn(f"it could not be turned into a program and runs eagerly: {error!r}")

    def _count_recording(self, args: Args, kwargs: Kwargs) -> None:
        """Store a description of the arguments, and warn if they keep changing."""
        self._recordings += 1
        now = self._parameters.described(args, kwargs)
        if self._recordings == MANY_PROGRAMS:
            self._warn(
                f"it was recorded {MANY_PROGRAMS} times because its arguments keep changing: "
                f"{changes(self._last, now)}. "
                "Python numbers are part of a program: pass them as tensors, and keep shapes equal."
            )
        self._last = now


class FunctionOfObject(Function):
    """The function of one object, which `MethodType` passes as the first argument."""

    _is_method = True

    @property
    def __signature__(self) -> inspect.Signature:
        method: Any = self.python_function
        return inspect.signature(method.function)


def _keep(
    key: Any, program: Any, is_special: bool, first: ProgramCache[Any], usual: ProgramCache[Any]
) -> None:
    """Keep a program for later calls; after a special first call, the second records again.

    If the second call is special too, so is every call.
    """
    if is_special and key not in first.latest:
        first.add(key, program)
    else:
        first.drop(key)
        usual.add(key, program)


def _arrays(leaves: list[Any]) -> list[Any]:
    return [leaf.array for leaf in leaves if type(leaf) is Tensor]


def _depth() -> int:
    """The stack level at which a warning names the user's line."""
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
    """Compile a function into a program, like TensorFlow's `tf.function`.

    The first call with arguments of new shapes, dtypes or Python values runs the Python code and
    records its operations, gradients, optimizer steps and assignments. Later calls replay the
    program without the Python code, so side effects such as `print` happen once. Reading a value
    while recording (`float(x)`, `if x > 0`) is an error.

    `input_signature` has one `TensorSpec` per argument, which calls must match. With `jit=False`,
    or TensorFlow's `jit_compile=False`, the Python code runs on each call. If the intermediate
    values need more bytes than `memory_budget`, elementwise values are recomputed instead of
    stored. The other options are accepted for compatibility with TensorFlow and have no effect.

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
            f"memory_budget must be a positive int, a number of bytes. Got {memory_budget!r}."
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
            "@property above @function."
        )
    return Function(func, jit_compile is False, input_signature, memory_budget)
