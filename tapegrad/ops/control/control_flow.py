"""TensorFlow's control flow functions, executed as plain Python.

Only the branch that runs is recorded on the tape. Inside a recorded function, a condition that
depends on its arguments is undecided, and all branches run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapegrad.core.argument_checks import check_whole
from tapegrad.core.call_site import call_site
from tapegrad.core.files.limits import spend_rounds
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values import nest
from tapegrad.core.values.convert import NUMBERS
from tapegrad.errors import ArgumentError, ArgumentTypeError, RecordingError
from tapegrad.ops.control.condition_hook import Branch, choose, is_undecided, not_recordable
from tapegrad.ops.control.loops import Structure, is_recording, loop, recorded_while
from tapegrad.ops.control.tensor_array import with_shape_of
from tapegrad.ops.shape.joining import concat

MOST_ROUNDS = 256
"""The most iterations that are recorded one by one, if a loop can be one call."""

MOST_UNROLLED = 100_000
"""The iterations after which a loop that is recorded one by one counts as endless."""

FEW_ROUNDS = 32
"""The most iterations with an undecided condition that are always recorded one by one.

They need no condition on the host.
"""


def cond(pred: Any, true_fn: Branch, false_fn: Branch, name: str | None = None) -> Any:
    """Return `true_fn()` if the condition is true, else `false_fn()`.

    Inside a recorded function both branches run, and the condition selects between their results
    and assignments as `where` does: structure, shapes and dtypes of the results must agree.

    >>> import tapegrad
    >>> x = tapegrad.constant(3.0)
    >>> float(cond(x > 0.0, lambda: x * x, lambda: -x))
    9.0
    """
    if is_undecided(pred):
        return choose(
            pred, lambda: _call_branch(true_fn, "cond"), lambda: _call_branch(false_fn, "cond")
        )
    return _call_branch(true_fn if bool(pred) else false_fn, "cond")


def case(
    pred_fn_pairs: Sequence[tuple[Any, Branch]],
    default: Branch | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Return the result of the first function whose condition is true.

    `exclusive` is not checked for conditions that a recorded function computes.

    >>> case([(False, lambda: 1), (True, lambda: 2)], default=lambda: 3)
    2
    """
    if any(is_undecided(pred) for pred, _ in pred_fn_pairs):
        return _nested_case(list(pred_fn_pairs), default)
    chosen = [branch for pred, branch in pred_fn_pairs if bool(pred)]
    if exclusive and len(chosen) > 1:
        raise ArgumentError(f"case with exclusive=True got {len(chosen)} true conditions.")
    if chosen:
        return _call_branch(chosen[0], "case")
    if default is None:
        raise ArgumentError("No condition of case is true, and there is no default. Pass default=.")
    return _call_branch(default, "case")


def switch_case(
    branch_index: Any,
    branch_fns: Sequence[Any] | Mapping[int, Branch],
    default: Branch | None = None,
    name: str = "switch_case",
) -> Any:
    """Return the result of function `branch_index`; out of range, of the default or the last one.

    >>> switch_case(1, [lambda: "zero", lambda: "one", lambda: "many"])
    'one'
    """
    branches: dict[int, Branch]
    if isinstance(branch_fns, Mapping):
        branches = dict(branch_fns)
    else:  # a list of functions, or of (number, function) pairs
        pairs = enumerate(branch_fns)
        branches = dict(fn if isinstance(fn, tuple) else (i, fn) for i, fn in pairs)
    if not branches:
        raise ArgumentError("switch_case needs at least one function. Got none.")
    last = branches[max(branches)] if default is None else default
    if is_undecided(branch_index):
        index = as_operand(branch_index)
        return _nested_case([(index == number, fn) for number, fn in branches.items()], last)
    return _call_branch(
        branches.get(check_whole("branch_index", branch_index, "switch_case"), last), "switch_case"
    )


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """Replace the loop variables by `body(*loop_vars)` while `cond(*loop_vars)` is true.

    Inside a recorded function the body is recorded once if the condition depends on tensors. The
    loop variables must keep their shapes and dtypes then.

    >>> import tapegrad
    >>> def halve(n, x):
    ...     return n + 1, x / 2.0
    >>> n, x = while_loop(lambda n, x: x > 1.0, halve, (0, tapegrad.constant(6.0)))
    >>> n, float(x)
    (3, 0.75)
    """
    values = tuple(loop_vars)
    iterations = 0
    if maximum_iterations is not None:
        maximum_iterations = check_whole("maximum_iterations", maximum_iterations, "while_loop")
    while maximum_iterations is None or iterations < maximum_iterations:
        condition = cond(*values)
        rest = None if maximum_iterations is None else maximum_iterations - iterations
        if is_undecided(condition):
            values = _undecided_iterations(cond, body, values, condition, rest)
            break
        if type(condition) in INTERPRETERS:  # examples inside vmap, which end at different rounds
            found = _as_one_call(cond, body, values, condition, rest)
            if found is not None:
                values = found
                break
        if not bool(condition):
            break
        if iterations == MOST_ROUNDS:
            found = _as_one_call(cond, body, values, condition, rest)
            if found is not None:
                values = found
                break
        if iterations == MOST_UNROLLED and is_recording():
            raise ArgumentError(
                f"A while_loop at {call_site()} has not ended after {MOST_UNROLLED:,} iterations, "
                "which a recorded function keeps one by one. Check that its condition becomes "
                "false. If it needs more, let the loop variables be tensors that keep their shapes "
                "and dtypes, or run the function eagerly with function(jit=False)."
            )
        spend_rounds(1)
        values = _next_values(body, values)
        iterations += 1
    return list(values) if isinstance(loop_vars, list) else values


def _next_values(body: Callable[..., Any], values: tuple[Any, ...]) -> tuple[Any, ...]:
    result = body(*values)
    found = tuple(result) if isinstance(result, list | tuple) else (result,)
    if len(found) != len(values):
        raise ArgumentError(
            f"The body of while_loop must return {len(values)} values. Got {len(found)}."
        )
    return found


def _undecided_iterations(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    values: tuple[Any, ...],
    condition: Any,
    most: int | None,
) -> tuple[Any, ...]:
    """Record a loop whose condition is computed by the function that is being recorded."""
    if most is not None and most <= FEW_ROUNDS:
        return _masked_iterations(cond, body, values, condition, most)
    found = _as_one_call(cond, body, values, condition, most)
    if found is not None:
        return found
    if most is None or most > MOST_ROUNDS:
        raise not_recordable(
            f"The condition of while_loop at {call_site()} is computed by the function that is "
            "being recorded, and its iterations cannot be one recorded body: loop variables must "
            "be tensors that keep their shapes and dtypes. Pass maximum_iterations, at most "
            f"{MOST_ROUNDS}, so that they are recorded one by one. Got {most}. Or run the function "
            "eagerly with function(jit=False).",
            "a while_loop of unknown length changes the shape or dtype of a loop variable",
        )
    return _masked_iterations(cond, body, values, condition, most)


def _as_one_call(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    values: tuple[Any, ...],
    condition: Any,
    most: int | None,
) -> tuple[Any, ...] | None:
    """Record the loop as one call, or return None if that is impossible."""

    def next_leaves(leaves: list[Any]) -> list[Any]:
        new = _next_values(body, tuple(nest.pack_sequence_as(values, leaves)))
        found = nest.flatten(new)
        if len(found) != len(leaves):
            raise _GrownError(new)
        return found

    def go_on(leaves: list[Any]) -> Any:
        return cond(*nest.pack_sequence_as(values, leaves))

    leaves = nest.flatten(values)
    if any(not hasattr(leaf, "dtype") and type(leaf) not in NUMBERS for leaf in leaves):
        return None
    try:
        found = recorded_while(go_on, next_leaves, leaves, condition, most)
    except _GrownError as grown:
        shaped = tuple([with_shape_of(old, new) for old, new in zip(values, grown.values)])
        if len(nest.flatten(shaped)) != len(nest.flatten(grown.values)):
            raise ArgumentError(
                f"The body of while_loop at {call_site()} must return values of the structure that "
                f"it gets. It gets {len(leaves)} tensors and returns "
                f"{len(nest.flatten(grown.values))}."
            ) from None
        return _as_one_call(cond, body, shaped, condition, most)
    return None if found is None else tuple(nest.pack_sequence_as(values, found))


class _GrownError(Exception):
    """The body of a loop returned more tensors than it got, e.g. wrote to an empty TensorArray."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        super().__init__()
        self.values = values


def _masked_iterations(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    values: tuple[Any, ...],
    condition: Any,
    iterations: int,
) -> tuple[Any, ...]:
    """Record iterations, each of which takes effect only if the condition is still true."""
    state = (values, condition)
    for k in range(iterations):
        is_last = k == iterations - 1

        def go_on(state: Any = state, is_last: bool = is_last) -> Any:
            found = _next_values(body, state[0])
            return found, state[1] if is_last else as_operand(cond(*found))

        def stay(state: Any = state) -> Any:
            return state

        state = choose(state[1], go_on, stay)
    return state[0]


def _nested_case(pairs: list[tuple[Any, Branch]], default: Branch | None) -> Any:
    """Nest the choices of `case`, for conditions of which some are undecided."""
    if not pairs:
        if default is None:
            raise RecordingError(
                f"case at {call_site()} has conditions that are computed by the function that is "
                "being recorded, and no default. Pass default=, for the case that none is true."
            )
        return _call_branch(default, "case")
    (pred, branch), *rest = pairs
    if is_undecided(pred):
        return choose(
            pred, lambda: _call_branch(branch, "case"), lambda: _nested_case(rest, default)
        )
    return _call_branch(branch, "case") if bool(pred) else _nested_case(rest, default)


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Apply a function to each entry along axis 0, one after the other, and stack the results.

    `vectorized_map` and `vmap` do the same for all entries at once.

    >>> import tapegrad
    >>> map_fn(lambda x: x * x, tapegrad.constant([1.0, 2.0, 3.0])).tolist()
    [1.0, 4.0, 9.0]
    """
    leaves, count = _stacks(elems, "map_fn")
    shape = Structure()

    def step(_: list[Any], entry: list[Any]) -> tuple[list[Any], list[Any]]:
        return [], shape.flatten(fn(nest.pack_sequence_as(elems, entry)))

    return shape.pack(loop(step, [], leaves, count)[1])


def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Reduce the entries along axis 0 with a function, from the first to the last.

    >>> import tapegrad
    >>> float(foldl(lambda total, x: total - x, tapegrad.constant([10.0, 2.0, 3.0])))
    5.0
    """
    return _fold(fn, elems, initializer, "foldl")[0]


def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Reduce the entries along axis 0 with a function, from the last to the first.

    >>> import tapegrad
    >>> float(foldr(lambda total, x: total - x, tapegrad.constant([2.0, 3.0, 10.0])))
    5.0
    """
    return _fold(fn, elems, initializer, "foldr", backwards=True)[0]


def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Reduce the entries along axis 0 with a function, and stack all intermediate results.

    >>> import tapegrad
    >>> scan(lambda total, x: total + x, tapegrad.constant([1.0, 2.0, 3.0])).tolist()
    [1.0, 3.0, 6.0]
    """
    return _fold(fn, elems, initializer, "scan", reverse, keeps=True)[1]


def _call_branch(function: Any, name: str) -> Any:
    if not callable(function):
        raise ArgumentTypeError(
            f"{name} needs functions as branches. Got {type(function).__name__}; "
            "wrap a value as `lambda: value`."
        )
    return function()


def _fold(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any,
    name: str,
    backwards: bool = False,
    keeps: bool = False,
) -> tuple[Any, Any]:
    """Return the last result, and if `keeps`, all of them stacked in the order of the entries."""
    leaves, count = _stacks(elems, name)
    start = initializer
    if initializer is None:
        place = count - 1 if backwards else 0
        start = nest.pack_sequence_as(elems, [leaf[place] for leaf in leaves])
        leaves = [leaf[:-1] if backwards else leaf[1:] for leaf in leaves]
        count -= 1
    shape = Structure()
    first = shape.flatten(start)

    def step(carried: list[Any], entry: list[Any]) -> tuple[list[Any], list[Any]]:
        before = nest.pack_sequence_as(start, carried)
        new = shape.flatten(fn(before, nest.pack_sequence_as(elems, entry)))
        if len(new) != len(carried):
            raise ArgumentError(
                f"The function of {name} must return as many tensors as its first argument has, "
                f"{len(carried)}. It returned {len(new)}."
            )
        return new, new if keeps else []

    last, made = loop(step, first, leaves, count, backwards)
    if not keeps:
        return shape.pack(last), None
    if initializer is None:  # the first entry is the first result
        sides = [[one[None], rest] for one, rest in zip(first, made or [None] * len(first))]
        made = [
            concat([part for part in (side[::-1] if backwards else side) if part is not None], 0)
            for side in sides
        ]
    return shape.pack(last), shape.pack(made)


def _stacks(elems: Any, name: str) -> tuple[list[Any], int]:
    """Return the leaves, whose entries along axis 0 are those of the loop, and their number."""
    leaves = [as_operand(leaf) for leaf in nest.flatten(elems)]
    lengths = [leaf.shape[0] if len(leaf.shape) else 0 for leaf in leaves]
    if not leaves or not lengths[0]:
        raise ArgumentError(f"{name} needs at least one entry along axis 0. Got none.")
    if len(set(lengths)) > 1:
        raise ArgumentError(f"{name} needs the same length along axis 0. Got {lengths}.")
    return leaves, lengths[0]
