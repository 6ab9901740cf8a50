"""Shapes that CUDA arrays cannot have are refused before a kernel runs; this needs no device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tapegrad.errors import ShapeError

cupy = pytest.importorskip("cupy")

from tapegrad_cupy.backend import CupyBackend  # noqa: E402  # imports CuPy
from tapegrad_cupy.kernels.copying import copies, joins, shape as shapes  # noqa: E402
from tapegrad_cupy.kernels.elementwise import formula  # noqa: E402
from tapegrad_cupy.kernels.products.products import _make_plan  # noqa: E402
from tapegrad_cupy.runtime.array_limits import MOST_DIMENSIONS, check_dimensions  # noqa: E402

DEEP = (1,) * (MOST_DIMENSIONS + 1)
SIXTY = np.zeros((1,) * 60, np.float32)


def array(shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> Any:
    """Return an array that owns no memory and must not be read."""
    memory = cupy.cuda.UnownedMemory(0x1000, 16, None, 0)
    pointer = cupy.cuda.MemoryPointer(memory, 0)
    return cupy.ndarray(shape, np.float32, pointer, strides)


def plan(*operands: Any) -> Any:
    product = formula.array_input(0, operands[0].dtype) * formula.array_input(1, operands[1].dtype)
    return formula._plan((product,), operands, 0, low_bits=0)


TOO_DEEP: dict[str, Callable[[], Any]] = {
    "from_host": lambda: CupyBackend(1).from_host(SIXTY, "cuda:0"),
    "reshape": lambda: copies.reshape(array((1,)), shape=DEEP),
    "broadcast_to": lambda: shapes.broadcast_to(array((1,)), shape=DEEP),
    "full_like": lambda: shapes.full_like(array((1,)), shape=DEEP, value=1.0, dtype=np.float32),
    "stack": lambda: joins.stack(array(DEEP[1:]), array(DEEP[1:]), axis=0),
    "an elementwise operation": lambda: plan(array((1,)), array(DEEP)),
}


@pytest.mark.parametrize("name", TOO_DEEP)
def test_more_dimensions_than_the_device_supports_are_refused_with_its_limit(name: str) -> None:
    with pytest.raises(ShapeError, match=r"CUDA device have at most 32 dimensions. Got (33|60)"):
        TOO_DEEP[name]()


def test_as_many_dimensions_as_the_device_supports_pass() -> None:
    check_dimensions(DEEP[1:])
    assert copies.reshape(array((1,)), shape=DEEP[1:]).ndim == MOST_DIMENSIONS


def test_broadcasting_to_more_elements_than_memory_holds_is_refused() -> None:
    column, row = array((2**30, 1), (0, 0)), array((1, 2**30), (0, 0))

    with pytest.raises(ShapeError, match="No memory holds more than"):
        plan(column, row)
    with pytest.raises(ShapeError, match="matmul cannot make a result of shape"):
        _make_plan(column, row, False, False)
