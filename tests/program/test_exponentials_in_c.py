"""Exponentials in C are exact to two units in the last place, to the ends of their range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad.core.trace.expression_namespace  # noqa: F401  # what formulas are written with
from tapegrad.core.trace.expression import EXPRESSIONS, array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad_numpy.loops import compile as making, compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

ENDS = {"float32": (-104.0, 89.0), "float64": (-746.0, 710.0)}


def loop_of(function: Any, n: int, dtype: Any) -> Loop:
    output = LoopOutput(function(array_input(0, np.dtype(dtype))), (n,))
    return Loop((n,), (LoopInput((n,), (n,), np.dtype(dtype)),), (output,))


@pytest.mark.parametrize("name", ["exp", "exp2"])
@pytest.mark.parametrize("dtype", ENDS)
def test_results_of_every_size(name: str, dtype: str) -> None:
    low, high = ENDS[dtype]
    scale = 1.0 if name == "exp" else 1 / np.log(2)
    x = (np.linspace(low * 1.1, high * 1.1, 40_001) * scale).astype(dtype)
    x = np.concatenate([x, np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-30], dtype)])

    (run,) = making.make_all([loop_of(getattr(EXPRESSIONS.xp, name), x.size, dtype)])
    assert run is not None
    (found,) = run((x,), (None,))

    with np.errstate(over="ignore", under="ignore"):
        exact = getattr(np, name)(x.astype(np.longdouble))
        expected = exact.astype(dtype)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    unit = np.spacing(np.abs(expected[finite]))
    assert (np.abs(found[finite] - exact[finite]) <= 2 * unit).all()
    assert ((expected > 0) & (expected < np.finfo(dtype).smallest_normal)).any()


def test_loops_with_long_functions_have_the_widest_vectors() -> None:
    long, short = (
        making._written(loop_of(function, 100, "float32"))
        for function in (
            lambda x: EXPRESSIONS.xp.exp(x) + 1,
            lambda x: EXPRESSIONS.xp.maximum(x, x * 2) + 1,
        )
    )
    assert long is not None
    assert short is not None
    assert "WIDE static void work" in long.text
    assert "WIDE" not in short.text
