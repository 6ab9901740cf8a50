"""Which loops in C process short rows together, and that the others compute the same values."""

from __future__ import annotations

import numpy as np
import pytest

from tapegrad.core.trace.expression import EXPRESSIONS, array_input
from tapegrad.core.trace.loop import Loop
from tapegrad_numpy.loops import compiler, short_rows
from tapegrad_numpy.loops.entry_points import CLoopCompiler
from tapegrad_numpy.loops.layout import VECTOR_BYTES
from tapegrad_numpy.loops.source import Writer
from tests.program.staged_loops import F4, Rows, assert_close, draw, expected

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
        (2 * VECTOR + 1, 10, False),
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
@pytest.mark.parametrize(("length", "arrays"), [(2 * VECTOR, 20), (2 * VECTOR + 1, 12)])
def test_short_rows_one_after_the_other_have_the_same_values(length: int, arrays: int) -> None:
    loop = shares(length, arrays)
    assert not short_rows.has_short_rows(Writer(loop))
    (run,) = CLoopCompiler().compile([loop])
    assert run is not None
    given = draw(loop)

    found = run(given, [None] * len(loop.outputs))

    assert np.isfinite(found[0]).all()
    assert_close(found, expected(loop, given), 2e-6)
