"""Which loops in C process short rows together, and that all compute the same values."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tapegrad.core.trace.expression import EXPRESSIONS, array_input
from tapegrad.core.trace.loop import Loop
from tapegrad_numpy.loops import compiler, short_rows
from tapegrad_numpy.loops.entry_points import CLoopCompiler
from tapegrad_numpy.loops.layout import VECTOR_BYTES
from tapegrad_numpy.loops.source import Writer
from tests.program.staged_loops import F4, F8, Rows, assert_close, draw, expected

XP = EXPRESSIONS.xp
VECTOR = VECTOR_BYTES // 4


def shares(length: int, arrays: int, *, has_exponentials: bool = True) -> Loop:
    """Return a loop that divides the elements of some arrays by sums over rows."""
    own = Rows((40, length), 1, F4)
    inputs = [array_input(k, F4) for k in range(arrays // 2)]
    total = array_input(len(inputs), F4)
    terms = inputs[0]
    for one in inputs[1:]:
        terms = terms + one
    terms = XP.exp(terms) if has_exponentials else terms * terms + 1.0
    outputs = tuple(own.element(terms * one / total) for one in inputs)
    whole = tuple(own.whole() for _ in inputs)
    return Loop(own.shape, whole, outputs, (own.stage(terms, "add"),))


@pytest.mark.parametrize(
    ("length", "arrays", "together"),
    [
        (2 * VECTOR, 2, True),
        (2 * VECTOR, 2 * (32 // VECTOR) + 2, False),
        (2 * VECTOR + 1, 6, True),
        (2 * VECTOR + 1, 10, True),
        (2 * VECTOR + 1, 14, False),
        (3, 20, True),
        (33, 2, False),
    ],
)
def test_rows_of_many_arrays_are_not_read_with_gaps(
    length: int, arrays: int, together: bool
) -> None:
    assert short_rows.has_short_rows(Writer(shares(length, arrays))) is together


def test_the_rest_of_a_vector_takes_longer_with_elementary_functions() -> None:
    length = 2 * VECTOR + 1

    assert short_rows.has_short_rows(Writer(shares(length, 8)))
    assert not short_rows.has_short_rows(Writer(shares(length, 8, has_exponentials=False)))


@pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")
@pytest.mark.parametrize(("length", "arrays"), [(2 * VECTOR, 20), (2 * VECTOR + 1, 14)])
def test_short_rows_one_after_the_other_have_the_same_values(length: int, arrays: int) -> None:
    loop = shares(length, arrays)
    assert not short_rows.has_short_rows(Writer(loop))
    (run,) = CLoopCompiler().compile([loop])
    assert run is not None
    given = draw(loop)

    found = run(given, [None] * len(loop.outputs))

    assert np.isfinite(found[0]).all()
    assert_close(found, expected(loop, given), 2e-6)


@pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("length", range(2, 33))
def test_short_rows_are_transposed_in_blocks(length: int, dtype: np.dtype[Any]) -> None:
    """Blocks may overlap at the end of rows, and at the last rows."""
    rows = random.Random(length).choice([8, 9, 31, 40, 129, 261])
    own = Rows((rows, length), 1, dtype)
    x, y, total = (array_input(k, dtype) for k in range(3))
    terms = x * y
    square = array_input(3, dtype)
    stages = own.stage(terms, "maximum"), own.stage((terms - total) * x, "add")
    outputs = own.element(terms / (total * total + 1.0)), own.element(y * square)
    loop = Loop(own.shape, (own.whole(), own.whole()), outputs, stages)
    assert short_rows.has_short_rows(Writer(loop))
    (run,) = CLoopCompiler().compile([loop])
    assert run is not None
    given = draw(loop)

    found = run(given, [None] * len(outputs))

    assert_close(found, expected(loop, given), 3e-5 if dtype == F4 else 1e-13)


@pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")
@pytest.mark.parametrize("length", [3, 8, 13])
def test_short_rows_of_other_types_are_read_with_gaps(length: int) -> None:
    own = Rows((77, length), 1, F4)
    x, keeps = array_input(0, F4), array_input(1, np.dtype(bool))
    terms = XP.where(keeps, x, 0.0)
    total = array_input(2, F4)
    outputs = own.element(terms * total), own.element(XP.where(keeps, total, x))
    mask = own.whole(np.dtype(bool))
    loop = Loop(own.shape, (own.whole(), mask), outputs, (own.stage(terms, "add"),))
    (run,) = CLoopCompiler().compile([loop])
    assert run is not None
    rng = np.random.default_rng(0)
    given = [rng.normal(size=own.shape).astype(F4), rng.random(own.shape) < 0.5]

    found = run(given, [None] * len(outputs))

    assert_close(found, expected(loop, given), 1e-5)
