"""Compiled functions as Python functions on arrays, at as little cost per call as possible."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import LoopWriter
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad.errors import ShapeError
from tapegrad_numpy.loops import ctypes_calls, direct_calls
from tapegrad_numpy.loops.compiled_parts import attach_parts
from tapegrad_numpy.loops.libraries import Address
from tapegrad_numpy.loops.pool import team
from tapegrad_numpy.loops.source import Kernel

Run = Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]
"""Takes the inputs and, per output, an array to write into or None; returns the results."""


def caller(
    arrays: Sequence[tuple[Any, Sequence[int]]], inputs: int, kernel: Kernel, address: Address
) -> Callable[..., int]:
    """Return a function of arrays, inputs first; its result is 0 unless one does not fit."""
    make = direct_calls.caller if direct_calls.are_used() else ctypes_calls.caller
    return make(arrays, inputs, kernel, address, team())


def bound(loop: Loop, kernel: Kernel, address: Address) -> Run:
    """The function on arrays: results are allocated here, all else happens in C."""
    arrays = [(given.dtype, given.shape) for given in loop.inputs]
    arrays += [(output.dtype, output.shape) for output in loop.outputs]
    given = [*arrays, (np.dtype(np.int64), (1,))] if kernel.reports else arrays
    function = caller(given, len(loop.inputs), kernel, address)
    function = _reporting(function) if kernel.reports else function
    careful = functools.partial(_with_any_arrays, function, loop.inputs, loop.outputs)
    scope: dict[str, Any] = {"function": function, "careful": careful, "empty": np.empty}
    for k, output in enumerate(loop.outputs):
        scope[f"s{k}"], scope[f"d{k}"] = output.shape, np.dtype(output.dtype)
    exec(_run_code(len(loop.inputs), len(loop.outputs)), scope)
    run: Run = scope["run"]
    attach_parts(run, kernel, address, len(arrays), team(), kernel.reports)
    # What is written over the array of a variable could not be taken back after an error.
    if direct_calls.are_used() and not kernel.reports:
        run.__dict__["writer"] = functools.partial(_writer, loop, arrays, kernel, address)
    return run


def _reporting(function: Callable[..., int]) -> Callable[..., int]:
    """Return a function of a loop that raises an error if the loop reports a wrong index."""

    def run(*arrays: Any) -> int:
        is_wrong = np.zeros(1, np.int64)
        code = function(*arrays, is_wrong)
        if is_wrong[0]:
            raise IndexError("An index is out of range.")
        return code

    return run


def _writer(loop: Loop, arrays: Sequence[Any], kernel: Kernel, address: Address) -> LoopWriter:
    """The function in C that writes over arrays of variables; see `LoopCompiler.writer`."""
    call = direct_calls.caller(arrays, len(loop.inputs), kernel, address, team(), keeps_lock=True)
    new = [functools.partial(np.empty, output.shape, output.dtype) for output in loop.outputs]
    return LoopWriter(call, tuple(new))


@functools.cache
def _run_code(inputs: int, outputs: int) -> types.CodeType:
    """Straight-line Python: to go through lists of arrays takes longer than a small loop."""
    given = "".join(f"a{k}, " for k in range(inputs))
    made = "".join(f"t{k}, " for k in range(outputs))
    lines = ["def run(arrays, targets):"]
    lines += [f"    {given}= arrays"] if inputs else []
    lines.append(f"    {made}= targets")
    lines += [f"    if t{k} is None: t{k} = empty(s{k}, d{k})" for k in range(outputs)]
    lines.append(f"    if function({given}{made}): return careful(arrays, ({made}))")
    lines.append(f"    return ({made})")
    return compile("\n".join(lines), "<a compiled loop>", "exec")


def _with_any_arrays(
    function: Callable[..., int],
    inputs: Sequence[LoopInput],
    outputs: Sequence[LoopOutput],
    arrays: Sequence[Any],
    targets: Sequence[Any],
) -> tuple[Any, ...]:
    """The same for arrays that lie in memory in another way, and for scalars: copies of them."""
    read = []
    for given, array in zip(inputs, arrays, strict=True):
        ordered = _in_order(array, given.dtype)
        # A number stays one, although NumPy would give it an axis.
        if ordered.shape != given.shape and np.shape(array) != given.shape:
            raise ShapeError(
                f"This loop was made for an array of shape {given.shape}. Got {np.shape(array)}."
            )
        read.append(ordered)
    written = [_in_order(array, output.dtype) for output, array in zip(outputs, targets)]
    code = function(*read, *written)
    if code == 2:
        raise MemoryError("There is no room for the partial results of a loop.")
    if code:
        raise ShapeError(
            f"This loop was made for results of shapes {[o.shape for o in outputs]}. "
            f"Got {[t.shape for t in targets]}."
        )
    for target, array in zip(targets, written):
        if array is not target:
            target[...] = array.reshape(target.shape)
    return tuple(targets)


def _in_order(array: Any, dtype: Any) -> Any:
    # Most arrays fit, and np.require takes longer than a small loop.
    if type(array) is np.ndarray and array.dtype is dtype:
        flags = array.flags
        if flags.carray:
            return array
        if flags.aligned:
            return array.copy("C")
    ordered = np.require(array, dtype, ("C", "A", "W", "E"))
    # Equal dtypes can be different objects; the C side knows one of them.
    return ordered if ordered.dtype is dtype else ordered.view(dtype)
