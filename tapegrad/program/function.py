"""The `function` decorator: record the first call, then replay its kernels.

A replay runs the recorded program without the Python code around it: no tapes, no checks, no
intermediate tensors.
"""

from __future__ import annotations

import copy
import functools
import inspect
import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, cast

from tapegrad.autodiff.batching import current_frame
from tapegrad.core.call_site import warn_outside
from tapegrad.core.observed import LAST_CHANGE
from tapegrad.core.recorder import EMPTY, active_stack, using_stack
from tapegrad.core.tracebacks import with_short_tracebacks
from tapegrad.core.values import nest
from tapegrad.core.values.shared import mark_views
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.program import memory_blocks  # noqa: F401  # lets memory reports see them
from tapegrad.program.argument_writes import check_writable, store_writes
from tapegrad.program.autograph.element_loops import ElementLoops
from tapegrad.program.autograph.element_reads import reads_elements
from tapegrad.program.autograph.recording import RunEagerly, recorded_with_conversions, run_python
from tapegrad.program.building import is_waiting
from tapegrad.program.changing_numbers import ChangingNumbers
from tapegrad.program.checked_twin import checked_twin
from tapegrad.program.concrete import ConcreteFunction
from tapegrad.program.eager_mode import SETTINGS
from tapegrad.program.eager_reasons import reason_to_run_eagerly
from tapegrad.program.explanation import MANY_PROGRAMS, Explained, History
from tapegrad.program.families.families import Families
from tapegrad.program.forward_backward import (
    OUTSIDE,
    TRACKED_WRITE,
    FirstCall,
    ForwardBackward,
    NoProgram,
    record_forward_backward,
)
from tapegrad.program.graph.graph import communicates
from tapegrad.program.loops import recorded  # noqa: F401  # lets loops see recordings
from tapegrad.program.loops.segments import within_budget
from tapegrad.program.memory_budget import budget_warning
from tapegrad.program.outer_tape import (
    Backward,
    OneCall,
    Pullback,
    TrackedOperands,
    tracked_flags,
)
from tapegrad.program.program import Program
from tapegrad.program.program_cache import EagerKeys, ProgramCache, is_used_once, keep_program
from tapegrad.program.record import branches  # noqa: F401  # lets tapegrad.cond see recordings
from tapegrad.program.record.arguments import (
    Args,
    CannotRecord,
    Kwargs,
    arrays_in,
    flatten_call,
    key_of,
    place_hosts,
    plain_key,
    take_shared,
    why_uncompiled,
    with_tensors,
)
from tapegrad.program.record.effects import attempt_after, silence, without_effects
from tapegrad.program.record.history import followed, with_history
from tapegrad.program.record.methods import Method
from tapegrad.program.record.recording import current_recording
from tapegrad.program.record.recording_lock import recording_alone
from tapegrad.program.record.signature import Parameters, check_specs, fitted_to, keep_specs
from tapegrad.program.recorded_call import RecordedCall
from tapegrad.program.reported import reported
from tapegrad.program.result_structure import Entry

Python = Callable[..., Any]


class Function(Explained):
    """A Python function that is recorded once per signature of its arguments."""

    _is_method = False

    def __init__(
        self,
        python_function: Python,
        eager: bool = False,
        specs: Any = None,
        memory_budget: int | None = None,
        wait: bool = False,
        autograph: bool = True,
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
        self._wait = wait
        self._autograph = autograph
        self._specs = check_specs(specs)
        self._takes_short_way = not eager and specs is None
        self._entries: ProgramCache[Entry] = ProgramCache()
        self._latest = self._entries.latest
        self._forward_backward: ProgramCache[ForwardBackward] = ProgramCache()
        self._first: ProgramCache[Entry] = ProgramCache()
        """The programs of first calls that differ from later calls, which record again."""
        self._first_under_tapes: ProgramCache[ForwardBackward] = ProgramCache()
        self._eager_keys = EagerKeys()
        self._families = Families()
        self._numbers = ChangingNumbers()
        self._gradient: Function | None = None
        self._history = History()
        make = functools.partial(Function, memory_budget=memory_budget, wait=wait)
        self._element_loops = ElementLoops(self._name, make)
        self.recorded_specs: dict[Any, Any] = {}
        """The arguments of recorded calls, with a TensorSpec for each tensor."""
        self._changed_tensors = 0
        self._warned: set[str] = set()
        self._bound: dict[int, tuple[weakref.ref[Any], FunctionOfObject]] = {}

    @property
    def _options(self) -> tuple[Any, ...]:
        return self._eager, self._specs, self._memory_budget, self._wait, self._autograph

    @functools.cached_property
    def _parameters(self) -> Parameters:
        return Parameters(self.python_function)

    def _gradient_function(self) -> Function:
        """The function that returns the gradients of this one, made on first use."""
        if self._gradient is None:
            pullback = Pullback(self.python_function, self._name)
            self._gradient = Function(pullback, wait=self._wait, autograph=self._autograph)
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
        return Function(python_function, *self._options)

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
        function = FunctionOfObject(method, *self._options)
        bound[number] = (reference, function)
        return MethodType(function, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Replay the program for these arguments, or record it on the first call."""
        if self._is_method:
            args = args[1:]  # the object, which `python_function` knows
        if (
            not self._takes_short_way
            or kwargs
            or SETTINGS["slow"]
            or active_stack().tokens
            or current_recording() is not None
            or current_frame() is not None
        ):
            return self._call(args, kwargs)
        # Fast path for calls with tensors and NumPy arrays.
        found = plain_key(args)
        if found is None:
            return self._call(args, kwargs)
        key, arrays, hosts = found
        entry = self._latest.get(key)
        if entry is None or entry.written_arguments:
            return self._call(args, kwargs)
        guards = entry.guards
        is_unchanged = guards.is_simple and guards.last_change is LAST_CHANGE[0]
        if not is_unchanged and not guards.hold():
            return self._call(args, kwargs)
        if hosts:
            place_hosts(arrays, hosts)
        return entry.run(arrays)

    @with_short_tracebacks
    @reported
    def _call(self, args: Args, kwargs: Kwargs) -> Any:
        """Replay or record the call, or run the Python code if neither is possible."""
        if SETTINGS["slow"] and (twin := checked_twin(self)) is not None:
            return twin._call(args, kwargs)
        if kwargs:
            args, kwargs = self._parameters.by_position(args, kwargs)
        if self._specs is not None:
            args = fitted_to(self._specs, self._parameters.completed(args, len(self._specs)))
        reason = reason_to_run_eagerly(self._eager)
        if reason:
            return self._run_eagerly(reason, args, kwargs)
        leaves = flatten_call(args, kwargs)
        if reads_elements(leaves):
            function = followed(self.python_function)
            return self._element_loops.reads.call(function, leaves, args, kwargs)
        shared = take_shared(leaves)
        if reason := why_uncompiled(leaves):
            return self._run_eagerly(reason, args, kwargs)
        try:
            key = key_of(leaves, args, kwargs)
        except CannotRecord as error:
            self._warn(f"{error}: it runs eagerly.")
            return self._run_eagerly(str(error), args, kwargs)
        if key in self._eager_keys:
            return self._run_eagerly(self._eager_keys[key], args, kwargs)
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
        return entry.run(arrays_in(leaves))

    def _run_and_write(self, entry: Entry, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        """Run a program that writes to its arguments."""
        check_writable(entry.written_arguments, nest.flatten((args, kwargs)), leaves)
        return store_writes(entry.run(arrays_in(leaves)), leaves)

    def _run_eagerly(self, reason: str, args: Args, kwargs: Kwargs) -> Any:
        self._history.note_eager(reason)
        return self._run_python(reason, args, kwargs)

    def _run_python(self, reason: str, args: Args, kwargs: Kwargs) -> Any:
        if not self._eager and not SETTINGS["eager"]:
            # Code that runs in place of a program gets what the program's code would get.
            args, kwargs = with_tensors(args, kwargs)
        function = followed(self.python_function)
        return run_python(reason, self._element_loops, function, args, kwargs)

    def _call_under_tapes(self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        """Call under active tapes, which record it as one operation."""
        stack = active_stack()
        flags = tracked_flags(stack, leaves)
        tape_key = (key, flags)
        if tape_key in self._eager_keys:
            return self._run_eagerly(self._eager_keys[tape_key], args, kwargs)
        programs = self._forward_backward.find(tape_key)
        first: FirstCall | None = None
        is_built = True
        if programs is None:
            with recording_alone(), within_budget(self._memory_budget):
                if self._forward_backward.find(tape_key) is not None:  # another thread recorded it
                    return self._call_under_tapes(key, leaves, args, kwargs)
                call = (args, kwargs)
                made = self._families.programs(tape_key, call, leaves, self._name, self._parameters)
                try:
                    if made is None:
                        self._note_recording(args, kwargs, key, tape_key)
                        programs, first = self._converted(
                            lambda: record_forward_backward(
                                self.python_function, call, leaves, flags, stack, self._name
                            )
                        )
                    else:
                        programs, first = made
                except RunEagerly as error:
                    return self._run_unconverted(key, error, args, kwargs)
                except NoProgram as error:
                    self._give_up(key, error.__cause__)
                    return error.args[0].run_again(self.python_function, args, kwargs)
                if first.obstacle:
                    self._eager_keys.add(tape_key, first.obstacle)
                    return first.run_again(self.python_function, args, kwargs)
                try:
                    is_built = self._build_both(tape_key, programs, first)
                except Exception as error:
                    self._give_up(key, error)
                    return first.run_again(self.python_function, args, kwargs)
                if made is None:
                    self._families.add_programs(tape_key, leaves, first, programs.guards)
                caches = self._first_under_tapes, self._forward_backward
                keep_program(tape_key, programs, first.draws_only_once, *caches)
        elif programs.guards.track(stack):
            return self._run_eagerly(OUTSIDE, args, kwargs)
        tracked = TrackedOperands(programs.entry, leaves)
        if tracked.needs_eager_run or (first is not None and first.must_run_again):
            if first is not None:
                return first.run_again(self.python_function, args, kwargs)
            return self._run_eagerly(TRACKED_WRITE, args, kwargs)
        if first is None:
            result, rest = programs.entry.run_all(arrays_in(leaves))
        else:
            with silence():  # effects happened while it was recorded
                result, rest = first.run(programs.entry, is_built, arrays_in(leaves))
        if not tracked.is_needed:
            return result
        owner = self.python_function.owner if isinstance(self.python_function, Method) else None
        backward = Backward(self._gradient_function, programs, leaves, tracked, owner)
        return tracked.record(OneCall(self._name, backward), result, rest)

    def _build_both(self, key: Any, programs: ForwardBackward, first: FirstCall) -> bool:
        """Build the programs under tapes; return whether the first call can run them."""
        waits = self.waits_for_builds()
        parts = (programs.entry, programs.backward)
        buildings = [part.building for part in parts if part is not None]
        self._history.note_buildings(first.seconds, buildings, first.made_from)
        for building in buildings:
            building.report = weakref.WeakMethod(self._note_failure)
        is_once = is_used_once(key, first.draws_only_once, self._first_under_tapes)
        if not waits and (is_once or first.made_from):
            return False
        return programs.build(waits)

    def waits_for_builds(self) -> bool:
        """Whether a call that records waits for the end of the build.

        The unfused form would not meet a memory budget.
        """
        return self._wait or self._memory_budget is not None or is_waiting()

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """Return the program that a call with these arguments replays.

        It waits for the compiled form.

        >>> import tapegrad
        >>> largest = tapegrad.function(lambda x: tapegrad.sort(x)[1:])
        >>> y = largest(tapegrad.constant([2.0, 3.0, 1.0]))
        >>> print(largest.program(tapegrad.constant([4.0, 6.0, 5.0])))
        2 recorded calls, 2 steps; runs on NumPy
        inputs: %1:float32[3]
          %2:float32[3] = sort(%1:float32[3], axis=0, descending=False)
          %3:float32[2] = slice(%2:float32[3], index=(slice(1, 3, 1),))
        outputs: %3:float32[2]
        """
        if (twin := checked_twin(self)) is not None:
            return twin.program(*args, **kwargs)  # type: ignore[no-any-return]
        key, *_ = self._key_of_call(args, kwargs)
        entry = self._entries.find(key) or self._first.find(key)
        if entry is None:
            raise ArgumentError(
                "There is no program for these arguments yet. Call the function with them first."
            )
        return entry.program

    def compile(self, *args: Any, **kwargs: Any) -> Program:
        """Record and compile the program of a call without making the call, and return it.

        The Python code runs once. Variables keep their values, nothing is printed by
        `tapegrad.print`, and no argument is written to. Later calls with such arguments run the
        compiled program. Variables that the code creates exist afterwards.

        >>> import tapegrad
        >>> count = tapegrad.Variable(0)
        >>> step = tapegrad.function(lambda x: count.assign_add(1) * x)
        >>> program = step.compile(tapegrad.constant(3))
        >>> len(program.graph.calls), int(count)
        (2, 0)
        """
        if (twin := checked_twin(self)) is not None:
            return twin.compile(*args, **kwargs)  # type: ignore[no-any-return]
        key, leaves, args, kwargs = self._key_of_call(args, kwargs)
        reason = reason_to_run_eagerly(self._eager) or self._eager_keys.get(key, "")
        if reason:
            raise ArgumentError(
                f"The function {self._name!r} runs eagerly and cannot be compiled: {reason}."
            )
        entry = self._entries.find(key)
        if entry is None:
            with recording_alone(), using_stack(EMPTY), without_effects():
                entry = self._entries.find(key) or self._record_only(key, leaves, args, kwargs)
        entry.building.build(True)
        self._warn(budget_warning(entry.building, self._memory_budget))
        return entry.program

    def _record_only(self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs) -> Entry:
        """Record a call and keep its program, but assign nothing except states of generators."""
        self._note_recording(args, kwargs, key)
        with within_budget(self._memory_budget):
            call = self._recorded_call(leaves, args, kwargs)
        if call.is_special:  # the variables that it has created exist now
            call.commit_initial_draws()
            call.let_go()
            with within_budget(self._memory_budget):
                call = self._recorded_call(leaves, args, kwargs)
        try:
            entry = call.entry(call.later, call.guards(), self._name, self._memory_budget)
            call.commit_initial_draws()
        finally:
            call.let_go()
        self._history.note_buildings(call.seconds, [entry.building])
        self._first.drop(key)
        self._entries.add(key, entry)
        return entry

    def _key_of_call(self, args: Args, kwargs: Kwargs) -> tuple[Any, list[Any], Args, Kwargs]:
        """Return the key, the leaves and the arguments by position of a call."""
        if kwargs:
            args, kwargs = self._parameters.by_position(args, kwargs)
        if self._specs is not None:
            args = fitted_to(self._specs, self._parameters.completed(args, len(self._specs)))
        leaves = flatten_call(args, kwargs)
        take_shared(leaves)
        try:
            return key_of(leaves, args, kwargs), leaves, args, kwargs
        except CannotRecord as error:
            raise ArgumentTypeError(f"There is no program for these arguments. {error}.") from error

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Return this function for tensors of these shapes and dtypes, or of an input_signature.

        >>> import tapegrad
        >>> double = Function(lambda x: 2 * x).get_concrete_function(tapegrad.constant([1.0]))
        >>> double(tapegrad.constant([4.0])).tolist()
        [8.0]
        """
        args = self._specs if not args and not kwargs and self._specs is not None else args
        owner = self.python_function.owner if isinstance(self.python_function, Method) else None
        function = self if owner is None else MethodType(self, owner)
        return ConcreteFunction(function, args, kwargs)

    def experimental_get_tracing_count(self) -> int:
        """Return how many programs were recorded."""
        return len(self._entries) + len(self._first)

    def _warn(self, message: str) -> None:
        if message and message not in self._warned:
            self._warned.add(message)
            warn_outside(f"function {self._name!r}: {message}")

    def _record(self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs) -> Any:
        """Run the Python code on recorded arrays and store the program."""
        with recording_alone(), within_budget(self._memory_budget):
            entry = self._entries.find(key)
            if entry is not None:  # another thread has recorded it
                return self._call(args, kwargs)
            made = self._families.call(key, leaves, args, kwargs, self._parameters)
            return self._record_alone(key, leaves, args, kwargs, made)

    def _record_alone(
        self, key: Any, leaves: list[Any], args: Args, kwargs: Kwargs, made: RecordedCall | None
    ) -> Any:
        if made is None:
            self._note_recording(args, kwargs, key)
        try:
            call = made or self._recorded_call(leaves, args, kwargs)
        except RunEagerly as error:
            return self._run_unconverted(key, error, args, kwargs)
        try:
            try:
                first, is_built = self._build(key, call)
            except Exception as error:
                if made is not None:
                    return self._record_alone(key, leaves, args, kwargs, None)
                self._give_up(key, error)
                if communicates(call.graph):
                    return self.python_function(*args, **kwargs)
                return call.finish(is_forced=True)[1]
            if made is None:
                self._families.add(key, leaves, call)
            if not is_built:
                is_done, result = call.finish(is_forced=call.later is not call.graph)
                if is_done:
                    return result
        finally:
            call.let_go()
        self._warn(budget_warning(first.building, self._memory_budget))
        # The program rounds differently from eager code. Run it for the first call too, so that
        # training that resumes in another process gives the same bits.
        with silence():
            if first.written_arguments:
                return self._run_and_write(first, leaves, args, kwargs)
            return first.run(arrays_in(leaves))

    def _converted(self, record: Callable[[], Any]) -> Any:
        """Record a call, with its control flow converted if it decides by values of tensors."""
        if self._autograph:
            return recorded_with_conversions(record, self.python_function)
        return with_history(record)

    def _recorded_call(self, leaves: list[Any], args: Args, kwargs: Kwargs) -> RecordedCall:
        self._parameters.check(self._name, args, kwargs)
        call = functools.partial(RecordedCall, self.python_function, leaves, args, kwargs)
        return cast(RecordedCall, self._converted(call))

    def _run_unconverted(self, key: Any, error: RunEagerly, args: Args, kwargs: Kwargs) -> Any:
        """Run a call whose control flow cannot be recorded, and later calls like it."""
        self._eager_keys.add(key, error.reason)  # so that recursive calls run eagerly, too
        try:
            with attempt_after(error.effects):
                result = self._run_python(error.reason, args, kwargs)
        except BaseException:
            self._eager_keys.pop(key, None)
            raise
        self._warn(self._history.warning_of(error.reason, error.is_by_rounds))
        return result

    def _build(self, key: Any, call: RecordedCall) -> tuple[Entry, bool]:
        """Keep the program of a recorded call; return what this call runs, and if it is ready.

        Otherwise the call returns the result of its recording.
        """
        budget, guards, waits = self._memory_budget, call.guards(), self.waits_for_builds()
        entry = self._numbers.entry(call, guards, self._name, budget)
        entry.building.report = weakref.WeakMethod(self._note_failure)
        self._history.note_buildings(call.seconds, [entry.building], call.made_from)
        first, is_built = entry, False
        # Many sizes occur only once, so the second call with a size of a family starts the build.
        is_once = is_used_once(key, call.is_special, self._first)
        if waits or not (is_once or call.made_from):
            is_built = entry.building.build(waits)
            if call.later is not call.graph:
                is_built = waits
                if is_built:
                    first = call.entry(call.graph, guards, self._name, budget)
                    first.building.build(True)
        keep_program(key, entry, call.is_special, self._first, self._entries)
        return first, is_built

    def _check_outside_tensors(self, cache: ProgramCache[Any], key: Any, eager_key: Any) -> None:
        """Run calls with this key eagerly from now on if a tensor from outside keeps changing."""
        latest = cache.latest.get(key)
        if latest is None or not latest.guards.lost_a_tensor:
            return
        self._changed_tensors += 1
        if self._changed_tensors == MANY_PROGRAMS:
            self._eager_keys.add(eager_key, "it uses a tensor from outside that keeps changing")
            self._warn(
                f"it was recorded {MANY_PROGRAMS} times because it uses a tensor from outside that "
                "keeps changing, and runs eagerly from now on: pass that tensor as an argument."
            )

    def _give_up(self, key: Any, error: Any) -> None:
        self._eager_keys.add(key, f"it could not be turned into a program: {error!r}")
        self._warn(f"it could not be turned into a program and runs eagerly: {error!r}")

    def _note_failure(self, error: Exception) -> None:
        """Warn that a program could not be compiled after it was recorded."""
        self._warn(f"its program could not be compiled and runs unfused: {error!r}")

    def _note_recording(self, args: Args, kwargs: Kwargs, key: Any, tape_key: Any = None) -> None:
        """Remember why a call is recorded, and warn if that happens often."""
        under_tapes = tape_key is not None
        keep_specs(self.recorded_specs, key, args, kwargs)
        cache: ProgramCache[Any] = self._forward_backward if under_tapes else self._entries
        special: ProgramCache[Any] = self._first_under_tapes if under_tapes else self._first
        now = tape_key if under_tapes else key
        described = self._parameters.described(args, kwargs)
        known = [k[0] for k in (*self._forward_backward.latest, *self._first_under_tapes.latest)]
        is_known = key in known or key in self._entries.latest or key in self._first.latest
        warning = self._history.note_recording(
            described, cache.latest.get(now), now in special.latest, is_known
        )
        self._warn(warning)
        self._check_outside_tensors(cache, now, key)


class FunctionOfObject(Function):
    """The function of one object, which `MethodType` passes as the first argument."""

    _is_method = True

    @property
    def __signature__(self) -> inspect.Signature:
        method: Any = self.python_function
        return inspect.signature(method.function)
