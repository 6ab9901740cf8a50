"""Tables that are passed as kernel arguments do not exceed the size limit."""

from __future__ import annotations

import pytest

from tapegrad_cupy.launch.launch import MOST_BYTES
from tapegrad_cupy.launch.multi_tensors import capacities, layout

NUMBERS = 64
"""Bytes of the counts and rates that kernels take besides their tables, at most."""


@pytest.mark.parametrize("beside", [0, 8, 200, 1000])
@pytest.mark.parametrize("columns", [*range(1, 60), 100, 200, 240])
def test_tables_fit(columns, beside):
    small, large = capacities(columns, beside)

    assert 0 <= small <= large
    assert large % 2 == 0
    assert large * (8 * columns + 12) + beside + NUMBERS <= MOST_BYTES
    assert small == 16 or small == large


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 100])
@pytest.mark.parametrize("columns", [1, 3, 30, 31, 35, 120])
def test_every_tensor_is_in_one_launch(columns, count):
    sizes = tuple(5 * k % 7 for k in range(count))
    found = layout(sizes, 4, columns, 160)

    assert [at for part in found.parts for at in part.positions] == [
        at for at, size in enumerate(sizes) if size
    ]
    places = [list(range(count))] * columns
    for part in found.parts:
        bytes_ = len(part.table(*places)) + 160 + NUMBERS
        assert bytes_ <= MOST_BYTES
        assert len(part.positions) <= part.capacity == found.capacity


def test_too_many_columns_leave_room_for_nothing():
    assert capacities(300) == (0, 0)
    assert capacities(10, 5000) == (0, 0)
