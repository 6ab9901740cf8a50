"""Recurrent loops of Keras' layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src import tree

import tapegrad.numpy as np
from keras_tapegrad.backend.tensors import convert_to_tensor
from tapegrad.keras import ops


def rnn(
    step_function: Callable[[Any, Any], tuple[Any, Any]],
    inputs: Any,
    initial_states: Any,
    go_backwards: bool = False,
    mask: Any = None,
    constants: Any = None,
    unroll: bool = False,
    input_length: int | None = None,
    time_major: bool = False,
    zero_output_for_mask: bool = False,
    return_all_outputs: bool = True,
) -> tuple[Any, Any, Any]:
    """Call a step for each time; return the last output, all outputs and the last states."""
    constants = tuple(constants or ())
    inputs = tree.map_structure(convert_to_tensor, inputs)
    if not time_major:
        inputs = tree.map_structure(lambda x: np.swapaxes(x, 0, 1), inputs)
    steps = tree.flatten(inputs)[0].shape[0]
    if unroll and not steps:
        raise ValueError("Unrolling requires a fixed number of timesteps.")
    states = tree.map_structure(convert_to_tensor, tuple(initial_states))
    seen = None if mask is None else _masks(mask, time_major)
    if go_backwards:
        inputs = tree.map_structure(lambda x: np.flip(x, axis=0), inputs)
        seen = None if seen is None else np.flip(seen, axis=0)

    def run(now: Any, x: Any) -> tuple[Any, Any]:
        return step_function(x, (*now, *constants))

    if seen is None:

        def step(now: Any, x: Any) -> Any:
            output, following = run(now, x)
            return tuple(following), output if return_all_outputs else None

        carry: Any = states
        if not return_all_outputs:
            output, following = run(states, tree.map_structure(lambda x: x[0], inputs))
            carry = (tuple(following), output)

            def last_step(now: Any, x: Any) -> Any:
                result, after = run(now[0], x)
                return (tuple(after), result), None

            rest = tree.map_structure(lambda x: x[1:], inputs)
            if steps > 1:
                carry, _ = ops.scan(last_step, carry, rest)
            final, last = carry
            outputs = last[None]
        else:
            final, outputs = ops.scan(step, carry, inputs)
            last = outputs[-1]
    else:
        final, last, outputs = _masked(run, states, inputs, seen, zero_output_for_mask)
        if not return_all_outputs:
            outputs = last[None]
    if not time_major:
        outputs = np.swapaxes(outputs, 0, 1)
    return last, outputs, final


def _masks(mask: Any, time_major: bool) -> Any:
    """Return the mask as booleans, with the time first."""
    seen = convert_to_tensor(mask, "bool")
    if seen.ndim == 2:
        seen = seen[..., None]
    return seen if time_major else np.swapaxes(seen, 0, 1)


def _fitted(seen: Any, like: Any) -> Any:
    """Return a mask with as many axes as another tensor."""
    while seen.ndim < like.ndim:
        seen = seen[..., None]
    return seen


def _masked(
    run: Callable[[Any, Any], tuple[Any, Any]], states: Any, inputs: Any, seen: Any, to_zero: bool
) -> tuple[Any, Any, Any]:
    """Run steps that keep the states and the last output where the mask is false."""
    first = tree.map_structure(lambda x: x[0], inputs)
    output, _ = run(states, first)
    nothing = np.zeros_like(output)

    def step(carry: Any, x: Any) -> Any:
        now, before = carry
        entry, mask = x
        result, following = run(now, entry)
        kept = nothing if to_zero else before
        result = np.where(_fitted(mask, result), result, kept)
        following = tree.map_structure(
            lambda new, old: np.where(_fitted(mask, new), new, old), tuple(following), now
        )
        return (following, result), result

    (final, _), outputs = ops.scan(step, (states, nothing), (inputs, seen))
    return final, outputs[-1], outputs


def _no_fused_kernel(*args: Any, **kwargs: Any) -> Any:
    """Refuse, so that Keras' layers run the loop of their cell, which is compiled."""
    raise NotImplementedError


lstm = gru = bidirectional_lstm = bidirectional_gru = _no_fused_kernel


def cudnn_ok(*args: Any, **kwargs: Any) -> bool:
    """Return False: there is no fused kernel for Keras' layers."""
    return False
