"""TensorFlow's control flow as plain Python: what runs is recorded, what does not is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapegrad.core import nest
from tapegrad.core.operand import as_operand
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.joining import stack, unstack

Branch = Callable[[], Any]


def cond(pred: Any, true_fn: Branch, false_fn: Branch, name: str | None = None) -> Any:
    """Return `true_fn()` if the condition holds, else `false_fn()`.

    >>> import tapegrad
    >>> x = tapegrad.constant(3.0)
    >>> float(cond(x > 0.0, lambda: x * x, lambda: -x))
    9.0
    """
    return _called(true_fn if bool(pred) else false_fn, "cond")


def case(
    pred_fn_pairs: Sequence[tuple[Any, Branch]],
    default: Branch | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """Return the result of the first function whose condition holds.

    >>> case([(False, lambda: 1), (True, lambda: 2)], default=lambda: 3)
    2
    """
    chosen = [branch for pred, branch in pred_fn_pairs if bool(pred)]
    if exclusive and len(chosen) > 1:
        raise ArgumentError(f"case got {len(chosen)} conditions that hold although exclusive=True.")
    if chosen:
        return _called(chosen[0], "case")
    if default is None:
        raise ArgumentError("No condition of case holds, and it has no default.")
    return _called(default, "case")


def switch_case(
    branch_index: Any,
    branch_fns: Sequence[Any] | Mapping[int, Branch],
    default: Branch | None = None,
    name: str = "switch_case",
) -> Any:
    """Return the result of the function with the given number; else of the default or the last.

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
    return _called(branches.get(int(branch_index), last), "switch_case")


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
    """Replace the loop variables by `body(*loop_vars)` while `cond(*loop_vars)` holds.

    >>> import tapegrad
    >>> def halve(n, x):
    ...     return n + 1, x / 2.0
    >>> n, x = while_loop(lambda n, x: x > 1.0, halve, (0, tapegrad.constant(6.0)))
    >>> n, float(x)
    (3, 0.75)
    """
    values = tuple(loop_vars)
    rounds = 0
    while (maximum_iterations is None or rounds < int(maximum_iterations)) and bool(cond(*values)):
        result = body(*values)
        values = tuple(result) if isinstance(result, list | tuple) else (result,)
        if len(values) != len(loop_vars):
            raise ArgumentError(
                f"The body of while_loop must return {len(loop_vars)} values. Got {len(values)}."
            )
        rounds += 1
    return list(values) if isinstance(loop_vars, list) else values


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
    >>> map_fn(lambda x: x * x, tapegrad.constant([1.0, 2.0, 3.0])).numpy().tolist()
    [1.0, 4.0, 9.0]
    """
    return _stacked([fn(entry) for entry in _entries(elems, "map_fn")])


def foldl(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, name: str | None = None
) -> Any:
    """Combine the entries along axis 0 from the first to the last.

    >>> import tapegrad
    >>> float(foldl(lambda total, x: total - x, tapegrad.constant([10.0, 2.0, 3.0])))
    5.0
    """
    return _fold(fn, _entries(elems, "foldl"), initializer)[-1]


def foldr(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any = None, name: str | None = None
) -> Any:
    """Combine the entries along axis 0 from the last to the first.

    >>> import tapegrad
    >>> float(foldr(lambda total, x: total - x, tapegrad.constant([2.0, 3.0, 10.0])))
    5.0
    """
    return _fold(fn, _entries(elems, "foldr")[::-1], initializer)[-1]


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
    """Combine the entries along axis 0 one after the other and stack all results on the way.

    >>> import tapegrad
    >>> scan(lambda total, x: total + x, tapegrad.constant([1.0, 2.0, 3.0])).numpy().tolist()
    [1.0, 3.0, 6.0]
    """
    entries = _entries(elems, "scan")
    results = _fold(fn, entries[::-1] if reverse else entries, initializer)
    results = results if initializer is None else results[1:]
    return _stacked(results[::-1] if reverse else results)


def _called(function: Any, name: str) -> Any:
    if not callable(function):
        raise ArgumentTypeError(
            f"{name} chooses between functions. Got {type(function).__name__}; "
            "wrap a value as `lambda: value`."
        )
    return function()


def _fold(fn: Callable[[Any, Any], Any], entries: list[Any], initializer: Any) -> list[Any]:
    """Return the start and the result after each further entry."""
    results = entries[:1] if initializer is None else [initializer]
    for entry in entries[1:] if initializer is None else entries:
        results.append(fn(results[-1], entry))
    return results


def _entries(elems: Any, name: str) -> list[Any]:
    """The entries along axis 0 of every leaf, each packed like `elems`."""
    leaves = [unstack(as_operand(leaf)) for leaf in nest.flatten(elems)]
    if not leaves or not leaves[0]:
        raise ArgumentError(f"{name} needs at least one entry along axis 0. Got none.")
    if len({len(leaf) for leaf in leaves}) > 1:
        raise ArgumentError(
            f"{name} needs the same length along axis 0. Got {[len(leaf) for leaf in leaves]}."
        )
    return [nest.pack_sequence_as(elems, list(entry)) for entry in zip(*leaves, strict=True)]


def _stacked(results: list[Any]) -> Any:
    return nest.map_structure(lambda *leaves: stack(leaves), *results)
