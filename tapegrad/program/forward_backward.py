"""Forward and backward programs of a call that a tape records.

Both come from one recording. The forward program also returns every intermediate that the backward
program needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.recorder import EMPTY, Node, Stack, using_stack
from tapegrad.core.update_lock import updating
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.ops.creation import ones_like
from tapegrad.ops.random.generator import skipping_draws
from tapegrad.program.argument_writes import NotesWrites
from tapegrad.program.building import Building, Runnable, latest
from tapegrad.program.graph.graph import Graph, Value
from tapegrad.program.graph.initial_draws import (
    draws_only_once,
    skipped_draws,
    without_initial_draws,
)
from tapegrad.program.record.effects import silence
from tapegrad.program.record.guards import Guards
from tapegrad.program.record.history import followed
from tapegrad.program.record.isolation import recorded_by
from tapegrad.program.record.recording import Recorded, Recording
from tapegrad.program.result_structure import (
    Entry,
    arrays_of,
    copy_of,
    outputs_of_constants,
    plain_leaf,
    rebuilt,
    without_arrays,
)

Python = Callable[..., Any]

OUTSIDE = "a tape tracks a tensor from outside"
TRACKED_WRITE = "a tape tracks a variable that it assigns to, or its result is sparse"
"""Why a call runs eagerly."""


@contextmanager
def recording_call(leaves: list[Any]) -> Iterator[tuple[Recording, list[Any]]]:
    """Record the operations in the block; yield the recording and the leaves as recorded tensors.

    Variables do not change.
    """
    recording = Recording()
    inside = [
        wrap(recording.take_input(leaf.array)) if type(leaf) is Tensor else leaf for leaf in leaves
    ]
    try:
        with recorded_by(recording):
            yield recording, inside
    except BaseException:
        recording.closed = True
        recording.let_go()
        raise


def recorded_arrays(graph: Graph, outputs: Sequence[Any]) -> list[Any]:
    """Return the arrays of a recording's results; those that share memory with constants anew."""
    arrays = [array.array if type(array) is Recorded else array for array in outputs]
    copied = outputs_of_constants(graph)
    return [copy_of(array) if place in copied else array for place, array in enumerate(arrays)]


def has_committed(recording: Recording, is_forced: bool) -> bool:
    """Assign what a recording computed, unless another thread has assigned to its variables.

    With `is_forced` the values of the other thread are lost, as in eager code. Return whether it
    was done.
    """
    with updating:
        known = recording.known_variables()
        if not is_forced and any([variable.array is not first.array for variable, first in known]):
            return False
        recording.commit()
    return True


class BackwardProgram:
    """The program that computes the gradients, and the positions of its inputs."""

    def __init__(
        self,
        program: Building,
        places: list[int],
        seeded: list[int],
        wanted: list[bool],
        grads: list[Any],
    ) -> None:
        self.building = program
        self._program: Runnable = program
        self._places = places
        self._seeded = seeded
        self._wanted = wanted
        self._leaves = [without_arrays(grad) for grad in grads]

    def can_take(self, t: Sequence[Any], wanted: Sequence[bool]) -> bool:
        """Whether all expected cotangents are present and it computes all wanted gradients."""
        return all(type(t[k]) is Tensor for k in self._seeded) and all(
            has or not wants for has, wants in zip(self._wanted, wanted)
        )

    def __call__(self, t: Sequence[Any], saved: Sequence[Any], wanted: Sequence[bool]) -> list[Any]:
        """Return the gradients of the wanted operands from cotangents and saved values."""
        arrays = [saved[place].array for place in self._places]
        self._program = latest(self._program)
        made = iter(self._program(arrays + [t[k].array for k in self._seeded]))
        grads = iter([rebuilt(leaf, made) for leaf in self._leaves])
        every = [next(grads) if has else None for has in self._wanted]
        return [grad for grad, wants in zip(every, wanted) if wants]


class NoProgram(Exception):  # noqa: N818  # it never leaves the package
    """A recording cannot be turned into a program, e.g. because a compiler fails.

    The argument is the first call.
    """


class ForwardBackward(NamedTuple):
    """The forward program, which also returns saved values, and the backward program."""

    entry: Entry
    backward: BackwardProgram | None
    structure: Any
    """The structure of the arguments, with None for the leaves."""
    guards: Guards

    def build(self, waits: bool) -> bool:
        """Build both programs; return whether the forward program is done. See `Building`."""
        if self.backward is not None and not waits:
            self.entry.building.start()
            self.backward.building.start()
        is_done = self.entry.building.build(waits)
        if self.backward is not None and waits:
            self.backward.building.build(True)
        return is_done


class FirstCall:
    """How the call that was recorded gets its result."""

    def __init__(
        self,
        recording: Recording,
        recorded: Callable[[], tuple[Any, list[Any]]],
        draws: list[tuple[Variable, list[int]]],
        draws_only_once: bool,
        seconds: float,
    ) -> None:
        self._recording = recording
        self._recorded: Callable[[], tuple[Any, list[Any]]] | None = recorded
        self._draws = draws
        """The states of random generators, and how many initial values were drawn between draws."""
        self.draws_only_once = draws_only_once
        """Whether later calls may draw otherwise, so that the second call records again."""
        self.is_like_later = True
        """Whether the call drew no initial values of variables, which later calls do not draw."""
        self.seconds = seconds
        """How long the recording took."""
        self.obstacle = ""
        """Why such calls run eagerly, "" if they need not."""
        self.made_from = ""
        """From which recordings it was made, "" if it was recorded."""
        self.whole: Graph | None = None
        """The graph of later calls, forward and backward, until the first call is done."""
        self.both: RecordedBoth | None = None

    @property
    def must_run_again(self) -> bool:
        """Whether only the recording could give the result, and that has not communicated."""
        calls = self._recording.calls
        return not self.is_like_later and any(call.primitive.communicates for call in calls)

    def run_again(self, python_function: Python, args: Any, kwargs: Any) -> Any:
        """Run the Python code eagerly, because the programs cannot be used.

        Variables that the recording has created exist now. The eager code does not draw for them.
        """
        self._let_go()
        for state, counts in self._draws:
            state.assign_add(np.array([0, counts[0]], np.uint64), read_value=False)
        later = {state.number: counts[1:] for state, counts in self._draws}
        with silence(), skipping_draws(later):  # effects happened while it was recorded
            return python_function(*args, **kwargs)

    def run(self, entry: Entry, is_built: bool, arrays: list[Any]) -> tuple[Any, list[Any]]:
        """Return the result and the saved arrays, and assign the variables.

        They are those of the recording if the program is not ready, or is unlike this call.
        """
        if not is_built or not self.is_like_later:
            assert self._recorded is not None
            found = self._recorded()
            if has_committed(self._recording, not self.is_like_later):
                self._let_go()
                return found
        # The program rounds differently from eager code: all calls shall compute the same bits.
        self._let_go()
        return entry.run_all(arrays)

    def _let_go(self) -> None:
        self._recording.let_go()
        self._recorded = self.whole = self.both = None


class WholeTape(GradientTape):
    """A tape that watches all variables that are read, trainable or not."""

    def follows_variable(self, variable: Variable, node: Node) -> bool:
        self._variables.setdefault(variable.number, (variable, []))
        return super().follows_variable(variable, node)


class Pulled(NamedTuple):
    """The gradients from the tape inside the recording.

    `seeded` are the positions of the differentiated results, `variables` the numbers of the
    variables with a gradient.
    """

    grads: list[Any]
    seeded: list[int]
    variables: list[int]


def record_forward_backward(
    python_function: Python,
    structure: Any,
    leaves: list[Any],
    flags: Sequence[bool],
    stack: Stack,
    name: str,
) -> tuple[ForwardBackward, FirstCall]:
    """Run the Python code and its backward pass; return the programs and the first result.

    The programs are not built yet. `flags` has one entry per tensor among the leaves, true if the
    recorders of `stack` track it. The saved arrays are those that the forward program will return
    after the result.
    """
    start = perf_counter()
    with using_stack(EMPTY), recording_call(leaves) as (recording, inside):
        recording.kept = {}
        tensors = [leaf for leaf in inside if type(leaf) is Tensor]
        tracked = [x for x, flag in zip(tensors, flags) if flag]
        with WholeTape() as tape:
            if tracked:
                tape.watch(tracked)
            args, kwargs = nest.pack_sequence_as(structure, inside)
            noting = NotesWrites(followed(python_function))
            result = noting(*args, **kwargs)
        flat = [plain_leaf(leaf) for leaf in nest.flatten(result)]
        outputs = [array for leaf in flat for array in arrays_of(leaf)]
        kept, recording.kept = recording.kept, None
        cut = len(recording.calls)
        pulled = _pull_back(recording, tape, flat, tracked, stack)
    del tape
    both = RecordedBoth(recording, result, flat, outputs, kept, cut, pulled)
    programs, first = programs_of(both, structure, leaves, flags, name, start)
    # The tapes record each write to an argument. A tensor from outside that they track is usually
    # another one at the next call.
    if noting.has_written:
        first.obstacle = "it writes to an argument under a tape"
    elif programs.guards.track(stack):
        first.obstacle = OUTSIDE
    return programs, first


class RecordedBoth(NamedTuple):
    """A recorded call with its backward pass."""

    recording: Recording
    result: Any
    flat: list[Any]
    """The leaves of the result."""
    outputs: list[Any]
    """The arrays in them."""
    kept: dict[int, Any]
    """The arrays of the calls by the numbers of their values."""
    cut: int
    """The number of calls before the backward pass."""
    pulled: Pulled | None


def programs_of(
    both: RecordedBoth,
    structure: Any,
    leaves: list[Any],
    flags: Sequence[bool],
    name: str,
    start: float,
    guards: Guards | None = None,
) -> tuple[ForwardBackward, FirstCall]:
    """Return the programs of a recorded call, and its first result."""
    recording, result, flat, outputs, kept, cut, pulled = both
    read, written = recording.finish()
    grads = [] if pulled is None else [a for grad in pulled.grads for a in arrays_of(grad)]
    everything = recording.graph([*outputs, *grads], read, written)
    is_special = draws_only_once(everything, recording.initial, recording.made)
    whole = everything if is_special else without_initial_draws(everything, recording.initial)
    tensors = [leaf for leaf in leaves if type(leaf) is Tensor]
    split = _SplitGraph(whole, len(tensors), len(outputs), cut)
    variables = recording.variables
    skipped = skipped_draws(everything, recording.initial)
    draws = [(variables[number], counts) for number, counts in skipped.items()]

    def recorded() -> tuple[Any, list[Any]]:
        real = iter(recorded_arrays(everything, outputs))
        made = nest.pack_sequence_as(result, [rebuilt(leaf, real) for leaf in flat])
        return made, [kept[value.number] for value in split.saved_values]

    first = FirstCall(recording, recorded, draws, is_special, perf_counter() - start)
    first.is_like_later = whole is everything
    first.whole, first.both = whole, both
    try:
        guards = guards or Guards(recording)
        building = Building(split.forward, variables, name, results=len(outputs))
        entry = Entry(building, result, flat, variables, guards)
        backward = None
        if pulled is not None:
            backward = split.backward_program(pulled, list(flags), entry.variables, name)
    except Exception as error:
        raise NoProgram(first) from error
    empty = nest.pack_sequence_as(structure, [None] * len(leaves))
    return ForwardBackward(entry, backward, empty, guards), first


def _pull_back(
    recording: Recording, tape: GradientTape, flat: list[Any], tracked: list[Any], stack: Stack
) -> Pulled | None:
    """Run the backward pass, with ones as cotangents, from the results that the tape recorded."""
    made = [leaf for leaf in flat if type(leaf) is Tensor]
    seeded = [k for k, y in enumerate(made) if y.node is not None and tape.token in y.node.tokens]
    variables = _tracked_variables(recording, made, stack)
    if not seeded or not (tracked or variables):
        return None
    count, cut = len(recording.inputs), len(recording.calls)
    targets = [made[k] for k in seeded]
    ones = [ones_like(wrap(y.array.array)).array for y in targets]
    seeds = [wrap(recording.take_input(array)) for array in ones]
    try:
        with silence():
            grads = tape.gradient(targets, [*tracked, *variables], seeds)
    except Exception:  # it is raised again when the gradient is computed
        del recording.inputs[count:]
        del recording.calls[cut:]
        return None
    return Pulled(grads, seeded, [variable.number for variable in variables])


def _tracked_variables(recording: Recording, made: list[Tensor], stack: Stack) -> list[Variable]:
    """The variables that were read and that outer recorders track, in the order of the graph."""
    read = {value.number for call in recording.calls for value in call.reads}
    read |= {y.array.value.number for y in made if type(y.array) is Recorded}
    with using_stack(stack):
        found = [
            variable
            for variable, before in recording.known_variables()
            if before.value.number in read and variable.shared_value().node is not None
        ]
    return sorted(found, key=lambda variable: variable.number)


class _SplitGraph:
    """A graph split into forward and backward; shared values become outputs of the forward."""

    def __init__(self, whole: Graph, inputs: int, outputs: int, cut: int) -> None:
        self._whole = whole
        self._inputs = whole.inputs[:inputs]
        self._seeds = whole.inputs[inputs:]
        self._calls = whole.calls[cut:]
        self._grads = whole.outputs[outputs:]
        self._made = {value.number for call in self._calls for value in call.results}
        known = self._made | {value.number for value in self._seeds} | set(whole.constants)
        reads = [value for call in self._calls for value in call.reads]
        self._read = {v.number: v for v in (*reads, *self._grads) if v.number not in known}
        given = {value.number for value in (*self._inputs, *whole.variables.values())}
        self.saved_values: list[Value] = [v for n, v in self._read.items() if n not in given]
        outs = (*whole.outputs[:outputs], *self.saved_values)
        self.forward = replace(whole, inputs=self._inputs, calls=whole.calls[:cut], outputs=outs)

    def backward_program(
        self, pulled: Pulled, flags: list[bool], variables: list[Variable], name: str
    ) -> BackwardProgram | None:
        """Return the backward half as a program; None if a forward result depends on it."""
        whole, numbers = self._whole, [variable.number for variable in variables]
        if any(v.number in self._made for v in self.forward.results):
            return None
        saved = [v.number for v in self._inputs]
        saved += [whole.variables[number].number for number in numbers]
        saved += [v.number for v in self.saved_values]
        if not set(self._read) <= set(saved):
            return None
        graph = Graph(
            (*self._read.values(), *self._seeds), {}, whole.constants, self._calls, self._grads
        )
        wanted = flags + [number in pulled.variables for number in numbers]
        grads = list(pulled.grads[: sum(flags)])
        for number, grad in zip(pulled.variables, pulled.grads[sum(flags) :]):
            if number in numbers:
                grads.append(grad)
            elif grad is not None:
                return None
        places = [saved.index(number) for number in self._read]
        building = Building(graph, {}, f"gradient of {name}")
        return BackwardProgram(building, places, pulled.seeded, wanted, grads)
