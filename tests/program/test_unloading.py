"""Libraries of compiled loops are unloaded with the programs that use them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.trace.expression import array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad.program.program_cache import MOST_PROGRAMS
from tapegrad_numpy.loops import compiler, ctypes_calls, libraries
from tapegrad_numpy.loops.entry_points import CLoopCompiler

pytestmark = [
    pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler"),
    pytest.mark.usefixtures("quick_compiler"),
]


def a_loop(factor: float) -> Any:
    f8 = np.dtype(np.float64)
    given = LoopInput((6,), (6,), f8)
    loop = Loop((6,), (given,), (LoopOutput(array_input(0, f8) * factor, (6,)),))
    return CLoopCompiler().compile([loop])[0]


def test_a_library_lives_as_long_as_its_functions() -> None:
    a_loop(2.25)  # loads what all loops share
    gc.collect()
    before = len(libraries._loaded)
    run = a_loop(3.140625)
    assert len(libraries._loaded) == before + 1
    gc.collect()
    assert run((np.arange(6.0),), (None,))[0].tolist() == (np.arange(6.0) * 3.140625).tolist()
    again = a_loop(3.140625)
    assert len(libraries._loaded) == before + 1
    del run
    gc.collect()
    assert again((np.ones(6),), (None,))[0].tolist() == [3.140625] * 6
    del again
    gc.collect()
    assert len(libraries._loaded) == before


def test_functions_that_ctypes_calls_keep_their_library() -> None:
    class Library:
        pass

    address = libraries.Address(1)
    address.library = Library()
    kernel: Any = type("Kernel", (), {"slots": 0, "numbers": ()})
    call = ctypes_calls.caller([], 0, kernel, address, 1)
    held = [cell.cell_contents for cell in call.__closure__ or ()]
    assert any(thing is address.library for thing in held)


@pytest.mark.filterwarnings("ignore:function")
def test_ever_new_arguments_do_not_keep_libraries() -> None:
    x = tf.ones([8])
    tf.function(lambda x, k: tf.sin(x) * k + k)(x, 0.5)  # loads what all programs share
    gc.collect()
    before = len(libraries._loaded)
    f = tf.function(lambda x, k: tf.sin(x) * k + k)
    for k in range(MOST_PROGRAMS + 8):
        np.testing.assert_allclose(f(x, k + 0.25), np.sin(np.ones(8)) * (k + 0.25) + k + 0.25, 1e-6)
    gc.collect()
    assert len(libraries._loaded) <= before + MOST_PROGRAMS
    np.testing.assert_allclose(f(x, 9.25), np.sin(np.ones(8)) * 9.25 + 9.25, 1e-6)
    del f
    gc.collect()
    assert len(libraries._loaded) <= before
