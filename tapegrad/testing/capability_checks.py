"""Checks of the optional parts of a backend: one function per protocol.

Each check computes the expected values with NumPy, places the operands on the backend's first
device, and raises an AssertionError that names what differs. See `check_backend`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# Lets formulas use the functions of the Array API.
import tapegrad.core.trace.expression_namespace  # noqa: F401
from tapegrad.core.backend.capabilities import Capabilities
from tapegrad.core.backend.optional_parts import (
    BatchedCasts,
    BatchTransfers,
    FusedPullbacks,
    GroupedUpdates,
    InPlaceKernels,
    LoopCompiler,
    ProgramCapture,
    RowTransfers,
    ShapeSpecializer,
    SpecializableCall,
)
from tapegrad.core.backend.protocol import Backend
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.core.recorder import RAW, using_stack
from tapegrad.core.trace.expression import EXPRESSIONS, array_input
from tapegrad.core.trace.loop import (
    INDEXED,
    Along,
    JoinedLoops,
    Loop,
    LoopInput,
    LoopOutput,
    Rows,
)
from tapegrad.ops.reduction.primitives import argmax_p

_F8 = np.dtype(np.float64)
_I8 = np.dtype(np.int64)
_A = np.linspace(-1.5, 2.0, 12).reshape(3, 4)
_B = np.linspace(0.5, 2.5, 12).reshape(3, 4)
_ROW = np.linspace(1.0, 4.0, 4)


class Placed:
    """A backend with its first device: places operands and reads results."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.device = backend.devices()[0]

    def __call__(self, value: Any) -> Any:
        return self.backend.from_host(np.asarray(value), self.device)

    def read(self, array: Any) -> np.ndarray:
        return self.backend.to_host(array)


def check_capabilities(backend: Backend, capabilities: Capabilities) -> None:
    """Check every part that the backend lists."""
    on_device = Placed(backend)
    checks: list[tuple[Any, Callable[[Any, Placed], None]]] = [
        (capabilities.pullbacks, check_pullbacks),
        (capabilities.in_place, check_in_place),
        (capabilities.loops, check_loops),
        (capabilities.specializer, check_specializer),
        (capabilities.capture, check_capture),
        (capabilities.casts, check_casts),
        (capabilities.updates, check_updates),
        (capabilities.rows, check_rows),
        (capabilities.batches, check_batches),
    ]
    for part, check in checks:
        if part is not None:
            check(part, on_device)


def check_pullbacks(part: FusedPullbacks, on_device: Placed) -> None:
    """The pullback of a product gives both cotangents, and None for an input not wanted."""
    t, a, b = on_device(np.ones((3, 4))), on_device(_A), on_device(_B)
    multiply = part.pullback("multiply")
    if multiply is not None:
        for wanted in ((True, True), (True, False), (False, True)):
            with using_stack(RAW):
                found = multiply(t, ((b,), (a,)), wanted, {}, False)
            if found is not None:
                expected = [_B if wanted[0] else None, _A if wanted[1] else None]
                _same_results(found, expected, on_device, "pullback('multiply')")
        _check_zero_cotangents(multiply, on_device)
    assert part.pullback(argmax_p.name) is None, "pullback('argmax') must be None: it has no rule."


def _check_zero_cotangents(multiply: Any, on_device: Placed) -> None:
    """A zero cotangent stays zero, although a factor is infinite or NaN."""
    zeros, factors = np.zeros(3), np.array([np.inf, np.nan, 2.0])
    with using_stack(RAW), np.errstate(invalid="ignore"):
        reads = ((on_device(factors),), (on_device(factors),))
        found = multiply(on_device(zeros), reads, (True, True), {}, False)
    if found is not None:
        _same_results(found, [zeros, zeros], on_device, "pullback('multiply') of zeros")


def check_in_place(part: InPlaceKernels, on_device: Placed) -> None:
    """Sums and accumulated products are written into the first argument."""
    total = on_device(_A)
    part.add(total, on_device(_B))
    _same(on_device.read(total), _A + _B, "in_place.add")
    accumulate = part.accumulate("matmul")
    if accumulate is not None:
        total = on_device(np.ones((3, 3)))
        params = {"transpose_a": False, "transpose_b": True}
        if accumulate(total, on_device(_A), on_device(_B), **params):
            _same(on_device.read(total), 1 + _A @ _B.T, "in_place.accumulate('matmul')")
        else:
            _same(on_device.read(total), np.ones((3, 3)), "a refused accumulation")


def check_loops(part: LoopCompiler, on_device: Placed) -> None:
    """Formulas, broadcasting, combinations, targets and joined loops compute NumPy's values."""
    assert part.dtypes is None or "float64" in part.dtypes, "Loops must support float64."
    loop = _sample_loop()
    (run,) = part.compile([loop])
    assert run is not None, "A loop of arithmetic over float64 arrays must compile."
    expected = [_A * _ROW + 2, (_A * _ROW).sum(1), np.exp(_A).max(1) / 2]
    arrays = [on_device(_A), on_device(_ROW)]
    _same_results(run(arrays, [None] * 3), expected, on_device, "a loop")
    target = on_device(np.zeros((3, 4)))
    results = run(arrays, [target, None, None])
    _same(on_device.read(target), expected[0], "the target of a loop")
    assert results[0] is target, "A loop must return the target that it wrote to."
    source = part.source(run)
    assert source is None or isinstance(source, str)
    if part.joins:
        _check_joined_loops(part, on_device)
    if part.takes_stages(3, 4):
        _check_stages(part, on_device, _A, 1)
    if part.takes_stages(32, 3, 32):
        _check_stages(part, on_device, np.linspace(-3, 3, 96).reshape(3, 32), 0)
    if {"gather_rows", "take"} & {*part.windows}:
        _check_gathers(part, on_device)
    if part.adds_rows(_F8, 5, 3):
        _check_row_sums(part, on_device)


def _check_stages(part: LoopCompiler, on_device: Placed, given: Any, axis: int) -> None:
    """A softmax and the logarithm of its denominator, which is stored once per row."""
    a, largest, total = (array_input(place, _F8) for place in range(3))
    shifted = EXPRESSIONS.xp.exp(a - largest)
    rows = (given.shape[1 - axis],)
    stages = (
        LoopOutput(a, rows, "maximum", (axis,)),
        LoopOutput(shifted, rows, "add", (axis,)),
    )
    outputs = (
        LoopOutput(shifted / total, given.shape),
        LoopOutput(EXPRESSIONS.xp.log(total), rows, axes=(axis,)),
    )
    loop = Loop(given.shape, (LoopInput(given.shape, given.shape, _F8),), outputs, stages)
    (run,) = part.compile([loop])
    assert run is not None, "A loop with stages over float64 arrays must compile."
    terms = np.exp(given - given.max(axis, keepdims=True))
    expected = [terms / terms.sum(axis, keepdims=True), np.log(terms.sum(axis))]
    _same_results(run([on_device(given)], [None] * 2), expected, on_device, "a loop with stages")


_INDEX = np.array([2, 0, -1, 2, 3])
"""Rows of an array that has three of them; two of the indices are out of range."""


def _check_gathers(part: LoopCompiler, on_device: Placed) -> None:
    """Rows are read through an index array, and are zeros where it is out of range."""
    index, table = array_input(0, _I8), array_input(1, _F8)
    window = (Along(None, 0, 1, INDEXED, 0, 3, 0), Along(1))
    inputs = (
        LoopInput((5,), (5, 1), _I8),
        LoopInput((3, 4), (5, 4), _F8, window),
    )
    loop = Loop((5, 4), inputs, (LoopOutput(table + 1.0, (5, 4)),), indices=(index,))
    (run,) = part.compile([loop])
    assert run is not None, "A loop that gathers rows of a float64 array must compile."
    rows = np.stack([_A[2], _A[0], 0 * _A[0], _A[2], 0 * _A[0]])
    found = run([on_device(_INDEX), on_device(_A)], [None])
    _same_results(found, [rows + 1], on_device, "a loop that gathers rows")


def _check_row_sums(part: LoopCompiler, on_device: Placed) -> None:
    """Values are added into rows, also in a target that had other values before."""
    index, x = array_input(0, _I8), array_input(1, _F8)
    inputs = (LoopInput((5,), (5, 1), _I8), LoopInput((5, 4), (5, 4), _F8))
    output = LoopOutput(x * 2.0, (3, 4), rows=Rows(0, 3, (0,)))
    (run,) = part.compile([Loop((5, 4), inputs, (output,), indices=(index,))])
    assert run is not None, "A loop that adds rows of a float64 array must compile."
    values = np.linspace(1.0, 2.0, 20).reshape(5, 4)
    expected = 2 * np.stack([values[1], 0 * values[0], values[0] + values[3]])
    arrays = [on_device(_INDEX), on_device(values)]
    for target in (None, on_device(np.ones((3, 4)))):
        _same_results(run(arrays, [target]), [expected], on_device, "a loop that adds rows")


def _sample_loop() -> Loop:
    a, row = array_input(0, _F8), array_input(1, _F8)
    outputs = (
        LoopOutput(a * row + 2.0, (3, 4)),
        LoopOutput(a * row, (3,), "add", (1,)),
        LoopOutput(EXPRESSIONS.xp.exp(a), (3,), "maximum", (1,), array_input(0, _F8) / 2.0),
    )
    return Loop((3, 4), (LoopInput((3, 4), (3, 4), _F8), LoopInput((4,), (1, 4), _F8)), outputs)


def _check_joined_loops(part: LoopCompiler, on_device: Placed) -> None:
    loops = tuple(
        Loop((n,), (LoopInput((n,), (n,), _F8),), (LoopOutput(array_input(0, _F8) * 3.0, (n,)),))
        for n in (2, 5)
    )
    (run,) = part.compile([JoinedLoops(loops)])
    if run is not None:
        arrays = [on_device(np.arange(2.0)), on_device(np.arange(5.0))]
        expected = [3 * np.arange(2.0), 3 * np.arange(5.0)]
        _same_results(run(arrays, [None, None]), expected, on_device, "joined loops")


def check_specializer(part: ShapeSpecializer, on_device: Placed) -> None:
    """A specialized matrix product equals NumPy's."""
    if "matmul" not in part.primitives:
        return
    params = {"transpose_a": True, "transpose_b": False}
    call = SpecializableCall("matmul", [((3, 4), _F8), ((3, 4), _F8)], params)
    (kernel,) = part.specialize([call])
    if kernel is not None:
        found = kernel(on_device(_A), on_device(_B), **params)
        _same(on_device.read(found), _A.T @ _B, "a specialized product")


def check_capture(part: ProgramCapture, on_device: Placed) -> None:
    """Repeated runs give the same results, and an array that is held elsewhere stays as it was."""
    add = PRIMITIVES["add"].kernel(type(on_device(_A)))

    def run(inputs: Sequence[Any], variables: list[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        total = add(variables[0], inputs[0])
        return [add(total, total)], [total]

    captured = part.capture(run, [0], [])
    state = on_device(np.zeros((3, 4)))
    held = state
    for count in range(1, 5):
        outputs, (state,) = captured([on_device(_A)], [state])
        _same(on_device.read(outputs[0]), 2 * count * _A, f"run {count} of a captured program")
        _same(on_device.read(state), count * _A, f"the variable after run {count}")
    _same(on_device.read(held), np.zeros((3, 4)), "an array that is held elsewhere")


def check_casts(part: BatchedCasts, on_device: Placed) -> None:
    """Values are rounded as NumPy rounds them."""
    arrays = [on_device(_A), on_device(_ROW)]
    single = np.dtype(np.float32)
    expected = [_A.astype(single), _ROW.astype(single)]
    _same_results(part.cast(arrays, [single, single]), expected, on_device, "casts.cast")
    cast = part.prepare(arrays, single)
    found = None if cast is None else cast(arrays)
    if found is not None:
        _same_results(found, expected, on_device, "casts.prepare")


def check_updates(part: GroupedUpdates, on_device: Placed) -> None:
    """A grouped step of gradient descent, moving averages, and clipping by the global norm."""
    values = [_A.astype(np.float32), _ROW.astype(np.float32)]
    arrays = [on_device(value) for value in values]
    step = part.prepare("sgd_update", arrays, 2, False)
    if step is not None:
        rate, count = on_device(np.float32(0.5)), on_device(np.int64(1))
        new = step(arrays, [on_device(value) for value in values], rate, count, {})
        _same_results(new, [value / 2 for value in values], on_device, "updates.prepare")
    averages = [on_device(value) for value in values]
    moved = part.prepare_averages(averages)(averages, [on_device(3 * v) for v in values], 0.5)
    for found, value in zip(moved, values, strict=True):
        _same(on_device.read(found), 2 * value, "updates.prepare_averages", 1e-6)
    clipped = part.clip([on_device(value) for value in values], 1.0)
    if clipped is not None:
        norm = float(np.sqrt(sum(np.sum(value.astype(float) ** 2) for value in values)))
        _same(on_device.read(clipped[1]), np.float32(norm), "the norm of updates.clip", 1e-6)
        for found, value in zip(clipped[0], values, strict=True):
            _same(on_device.read(found), value / norm, "updates.clip", 1e-6)


def check_rows(part: RowTransfers, on_device: Placed) -> None:
    """Rows of device arrays and of host arrays arrive in the order of their indices."""
    rows = np.array([2, 0, 2])
    taken = part.take([on_device(_A)], rows)
    if taken is not None:
        _same_results(taken, [_A[rows]], on_device, "rows.take")
    placed = part.place([_A], rows, on_device(_ROW))
    if placed is not None:
        _same_results(placed, [_A[rows]], on_device, "rows.place")


def check_batches(part: BatchTransfers, on_device: Placed) -> None:
    """Arrays arrive with their shapes and dtypes, even if the host overwrites them at once."""
    for size in (0, 3, 200_000):
        values = [np.full((size, 2), 0.5), np.arange(size).T, np.array(True), _A.T]
        expected = [value.copy() for value in values]
        placed = [part.place(values, on_device.device, as_one) for as_one in (False, True)]
        for value in values[:3]:
            value[...] = 0
        for found in placed:
            _same_results(found, expected, on_device, "batches.place")


def _same_results(found: Any, expected: Sequence[Any], on_device: Placed, what: str) -> None:
    for one, other in zip(found, expected, strict=True):
        if other is None:
            assert one is None, f"{what} must give None for an input that is not wanted."
        else:
            _same(on_device.read(one), other, what)


def _same(found: np.ndarray, expected: Any, what: str, tolerance: float = 1e-12) -> None:
    assert found.dtype == np.asarray(expected).dtype, f"{what} has dtype {found.dtype}."
    np.testing.assert_allclose(
        found, expected, rtol=tolerance, atol=tolerance, err_msg=f"{what} differs from NumPy"
    )
