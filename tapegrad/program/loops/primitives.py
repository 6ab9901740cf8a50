"""The primitives that run loops: all rounds in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import ENDLESS
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError
from tapegrad.program.graph.graph import Value
from tapegrad.program.loops.body import Body
from tapegrad.program.loops.native_calls import MOST_ROUNDS, gradient_function, while_kind
from tapegrad.program.loops.rounds import Empty, call_in_order, copied_array
from tapegrad.program.record.effects import silence


def _counted(xp: Any, *operands: Any, body: Body, length: int, backwards: bool) -> tuple[Any, ...]:
    """Run a body `length` times; return the last carried values, then the stacks."""
    return body.run_rounds(operands, length, backwards, _maker(xp, operands))


def _maker(xp: Any, operands: Sequence[Any]) -> Empty:
    """Return the function that makes arrays of the library of the operands."""
    # Libraries other than NumPy have different dtypes.
    is_own = isinstance(operands[0].dtype, np.dtype)
    return lambda shape, spec: xp.empty(
        shape, dtype=spec.dtype if is_own else getattr(xp, spec.dtype.name)
    )


def _conditional(xp: Any, *operands: Any, body: Body, most: int | None) -> tuple[Any, ...]:
    """Run a body while the first carried value is true; return the last carried values."""
    found = _conditional_in_one_call(xp, operands, body, most)
    if found is not None:
        return found
    count = body.layout.carried
    carried: Sequence[Any] = operands[:count]
    shared = operands[count:]
    done = 0
    while _goes_on(carried[0], done, most):
        if not body.is_compiled and body.is_ready_for(1):
            rest = None if most is None else most - done
            found = _conditional_in_one_call(xp, [*carried, *shared], body, rest)
            if found is not None:
                return found
        carried = body([*carried, *shared])[:count]
        done += 1
    # The operands of a loop may be overwritten while its results are in use.
    empty, form = _maker(xp, operands), body.form
    borrowed = form.borrowed if done else range(count)
    return tuple([
        copied_array(array, form.carried_specs[k], empty) if k in borrowed else array
        for k, array in enumerate(carried)
    ])  # fmt: skip


def _conditional_in_one_call(
    xp: Any, operands: Sequence[Any], body: Body, most: int | None
) -> tuple[Any, ...] | None:
    """Run all rounds in one call; None if a round needs Python or the call fails."""
    form = body.form
    if body.layout.made or form.carried_specs[0].dtype != np.bool_:
        return None
    return _in_one_call(xp, form.native(while_kind(most)), operands, form.carried_specs)


def _conditional_gradient(
    xp: Any, *operands: Any, body: Body, pullback: Body, most: int | None
) -> tuple[Any, ...]:
    """Return the cotangents of what a loop with a condition carries and shares.

    The rounds run again and keep what their rules read, because no array can have an entry per
    round whose number is not known.
    """
    found = _gradient_in_one_call(xp, operands, body, pullback, most)
    if found is not None:
        return found
    count, shared_count = body.layout.carried, body.layout.shared
    carried: Sequence[Any] = operands[:count]
    rest = operands[count:]
    shared, cotangents = rest[:shared_count], rest[shared_count:]
    kept: list[Sequence[Any]] = []
    was_ready = body.is_compiled and pullback.is_compiled
    with silence():  # the loop itself has had the effects
        while _goes_on(carried[0], len(kept), most):
            is_ready = [body.is_ready_for(1), pullback.is_ready_for(1)]
            if all(is_ready) and not was_ready:
                was_ready = True
                found = _gradient_in_one_call(xp, operands, body, pullback, most)
                if found is not None:
                    return found
            results = body([*carried, *shared])
            carried = results[:count]
            kept.append(results[count:])
    own = pullback.layout.carried
    carried, shared = cotangents[:own], cotangents[own:]
    while kept:
        carried = pullback([*carried, *kept.pop(), *shared])[:own]
    return tuple(carried)


def _gradient_in_one_call(
    xp: Any, operands: Sequence[Any], body: Body, pullback: Body, most: int | None
) -> tuple[Any, ...] | None:
    """Run all rounds and their gradients in one call; None if a round needs Python."""
    native = gradient_function(body, pullback, most)
    return _in_one_call(xp, native, operands, pullback.form.carried_specs)


def _in_one_call(
    xp: Any, native: Any, operands: Sequence[Any], specs: Sequence[Value]
) -> tuple[Any, ...] | None:
    """Return the results of a function in C; None if there is none or it fails."""
    if native is None:
        return None
    empty = _maker(xp, operands)
    results = [empty(spec.shape, spec) for spec in specs]
    code = call_in_order(native, operands, results)
    if code == ENDLESS:
        raise _endless()
    return None if code else tuple(results)


def _goes_on(condition: Any, done: int, most: int | None) -> bool:
    if most is not None and done >= most:
        return False
    goes_on = bool(backend_of(condition).to_host(condition))
    if goes_on and most is None and done >= MOST_ROUNDS:
        raise _endless()
    return goes_on


def _endless() -> ArgumentError:
    return ArgumentError(
        f"A while_loop has not ended after {MOST_ROUNDS:,} iterations. If it needs more, pass "
        "maximum_iterations; otherwise check that its condition becomes false."
    )


counted_loop_p = Primitive("counted_loop", _counted, many=True, differentiable=False)
conditional_loop_p = Primitive("conditional_loop", _conditional, many=True, differentiable=False)
conditional_loop_gradient_p = Primitive(
    "conditional_loop_gradient", _conditional_gradient, many=True, differentiable=False
)
conditional_loop_with_effects_p = Primitive(
    "conditional_loop_with_effects", _conditional, many=True, differentiable=False
)
conditional_loop_with_effects_p.effects = True
for _loop_p in (
    counted_loop_p,
    conditional_loop_p,
    conditional_loop_gradient_p,
    conditional_loop_with_effects_p,
):
    _loop_p.joins_results = True
