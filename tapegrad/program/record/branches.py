"""Branches inside a recording: record both, and select the results by the condition.

The assignments and effects, such as printing, of a branch happen only if it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tapegrad.core.call_site import user_call
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.recorder import EMPTY, using_stack
from tapegrad.core.values import nest
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError, RecordingError, ShapeError
from tapegrad.ops.control.condition_hook import Branch, register_choice
from tapegrad.ops.elementwise.comparison import logical_and, logical_not
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.shape.functions import reshape
from tapegrad.program.record.branch_writes import BranchWrites, select_writes
from tapegrad.program.record.decisions import DecisionError
from tapegrad.program.record.recording import Recorded, Recording, current_recording


def is_undecided(condition: Any) -> bool:
    """Whether a condition is computed by the program that is being recorded."""
    return isinstance(condition, Tensor | Variable) and type(condition.array) is Recorded


def choose(condition: Any, true_fn: Branch, false_fn: Branch) -> Any:
    """Record both branches; select results and assignments by the condition."""
    condition, result, otherwise = run_both(condition, true_fn, false_fn)
    try:
        nest.assert_same_structure(result, otherwise)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(
            f"Both branches must return the same structure inside a recorded function. {error}"
        ) from error
    leaves = zip(nest.flatten(result), nest.flatten(otherwise))
    return nest.pack_sequence_as(result, [selected(condition, a, b) for a, b in leaves])


def run_both(condition: Any, true_fn: Branch, false_fn: Branch) -> tuple[Any, Any, Any]:
    """Record both branches; select their assignments to variables and writes to tensors.

    Return the condition as a 0-d tensor, and the results of both branches.
    """
    recording = current_recording()
    if recording is None:
        raise RecordingError(
            "A condition that was computed inside a recorded function is used outside of it. "
            "Return it from the function first."
        )
    condition = as_truth(condition)
    start = {variable.number: variable.array for variable, _ in recording.known_variables()}
    with taking_writes_back(recording) as written:
        result, kept = _run(recording, condition, true_fn, start)
    with taking_writes_back(recording) as also_written:
        otherwise, other = _run(recording, logical_not(condition), false_fn, start)
    select_writes(condition, written, also_written)
    for number in {**kept, **other}:
        variable, _ = kept.get(number) or other[number]
        before = _before(recording, variable, start)
        values = [branch[number][1] if number in branch else before for branch in (kept, other)]
        with using_stack(EMPTY):  # assignments are not differentiable
            first, second = map(wrap, values)
            variable.array = where(wrap(condition.array), first, second).array
    return condition, result, otherwise


def as_truth(condition: Any) -> Any:
    """Return the condition as a 0-d boolean tensor."""
    if condition.shape.num_elements() != 1:
        raise ShapeError(
            "A condition must have one element. "
            f"Got shape {condition.shape}; use tapegrad.where to choose by element."
        )
    condition = as_operand(condition)
    truth = condition if condition.dtype.name == "bool" else condition != 0
    return reshape(truth, ()) if len(truth.shape) else truth


def _run(
    recording: Recording, condition: Any, branch: Callable[[], Any], start: dict[int, Any]
) -> tuple[Any, dict[int, tuple[Variable, Any]]]:
    """Run a branch; return its result and its assignments to variables, which are undone."""
    for variable, _ in recording.known_variables():
        if variable.number in start:
            variable.array = _apart(start[variable.number])
    with inside_branch(recording, condition):
        result = nest.map_structure(_read, branch())
    assigned: dict[int, tuple[Variable, Any]] = {}
    for variable, _ in recording.known_variables():
        before, after = _before(recording, variable, start), variable.array
        if type(after) is not Recorded or after.value is not before.value:
            assigned[variable.number] = (variable, after)
        variable.array = before
    return result, assigned


@contextmanager
def taking_writes_back(recording: Recording) -> Iterator[BranchWrites]:
    """Take back what the block writes to tensors from outside of it."""
    around, own = recording.branch_writes, BranchWrites(recording.count)
    recording.branch_writes = own
    try:
        yield own
    finally:
        recording.branch_writes = around
        own.take_back()


@contextmanager
def inside_branch(recording: Recording, condition: Any) -> Iterator[None]:
    """Let effects in the block happen only if the condition is true."""
    around = recording.condition
    with using_stack(EMPTY):
        inside = condition if around is None else logical_and(around, condition)
    recording.condition = wrap(inside.array)
    try:
        yield
    finally:
        recording.condition = around


def _read(leaf: Any) -> Any:
    """Read variables at the end of their branch, and make sparse gradients dense."""
    return as_operand(leaf) if isinstance(leaf, Variable | IndexedSlices) else leaf


def _before(recording: Recording, variable: Variable, start: dict[int, Any]) -> Recorded:
    found = start.get(variable.number)
    value: Recorded = recording.adopted(recording.first_value(variable) if found is None else found)
    return value


def _apart(array: Any) -> Any:
    """Return a copy of the handle, which in-place operators may change."""
    return Recorded(array.array, array.value, array.recording) if type(array) is Recorded else array


def selected(condition: Any, first: Any, second: Any) -> Any:
    """Select a leaf of the result."""
    if first is second:
        return first
    known = (Tensor, *NUMBERS)
    if not isinstance(first, known) and not hasattr(first, "dtype"):
        if first == second:
            return first
        raise RecordingError(
            "Branches inside a recorded function must return tensors or numbers. They "
            f"return {first!r} and {second!r}: branch outside the function, or return tensors."
        )
    if type(first) in NUMBERS and type(second) in NUMBERS:
        if type(first) is type(second) and first == second:
            return first
    elif hasattr(first, "dtype") and hasattr(second, "dtype"):
        _check_alike(first, second)
    return where(condition, first, second)


def _check_alike(first: Any, second: Any) -> None:
    if first.shape != second.shape or first.dtype != second.dtype:
        raise ShapeError(
            "Both branches must return tensors of the same shape and dtype inside a recorded "
            f"function. Got {first.dtype}{list(first.shape)} and "
            f"{second.dtype}{list(second.shape)}."
        )


def _error_of(message: str, reason: str) -> Exception:
    return DecisionError(message, user_call()[0], what=reason, is_convertible=False)


register_choice(is_undecided, choose, _error_of)
