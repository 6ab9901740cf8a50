"""Layouts of row kernels: every row fits, short rows get a warp, and medium ones stay in registers.

The layouts are chosen in Python, so no device is needed.
"""

from __future__ import annotations

import re

import pytest

from tapegrad_cupy.kernels.rows.losses_with_gradients import _choose_layout
from tapegrad_cupy.kernels.rows.row_launch import CACHE_BYTES, LONG_LANES, Layout, choose_layout

LENGTHS = sorted({n + d for k in range(18) for n in (2**k, 3 * 2**k) for d in (-1, 0, 1)} - {0})
SHARED = 227 * 1024
"""The shared memory that a block of an H100 can have, in bytes."""

REGISTERS = 65536


def widths(length: int, itemsize: int) -> list[int]:
    """The numbers of elements that can be read at once: they divide the row."""
    return [width for width in (1, 2, 4, 8) if width * itemsize <= 16 and length % width == 0]


CASES = [
    (length, itemsize, width, inputs)
    for length in LENGTHS
    for itemsize in (2, 4, 8)
    for width in widths(length, itemsize)
    for inputs in (1, 2)
]


def numbers(layout: Layout) -> list[int]:
    return [int(number) for number in re.findall(r"\b\d+\b", layout.row)]


def assert_valid(layout: Layout, length: int, itemsize: int, width: int, inputs: int) -> None:
    assert layout.lanes * layout.warps <= 1024
    assert layout.shared <= SHARED
    if layout.row.startswith("Held"):
        lanes, steps, *rest = numbers(layout)
        assert (lanes, *rest) == (layout.lanes, width, inputs)
        # The last step is needed, and it reaches the end of the row.
        assert (steps - 1) * lanes * width < length <= steps * lanes * width
        # Half of the registers at most hold the rows, unless one warp has them to itself.
        held = steps * width * max(itemsize, 4) // 4
        assert held <= (32 if lanes == 32 else REGISTERS // lanes // 2)
    elif layout.row.startswith("Streamed"):
        assert width * itemsize == 16  # asynchronous copies take 16 bytes
        assert layout.shared == length * itemsize * inputs
    else:
        is_cached = layout.row.endswith("true>")
        assert layout.shared == (length * itemsize * inputs if is_cached else 0) <= CACHE_BYTES


@pytest.mark.parametrize("sums", [False, True])
def test_every_row_fits(sums):
    for case in CASES:
        assert_valid(choose_layout(*case, sums=sums), *case)


def test_every_row_of_a_loss_fits():
    for case in CASES:
        assert_valid(_choose_layout(*case, SHARED), *case)


@pytest.mark.parametrize("choose", [choose_layout, lambda *case: _choose_layout(*case, SHARED)])
def test_short_rows_get_a_warp_and_medium_ones_stay_in_registers(choose):
    for length, itemsize, width, inputs in CASES:
        layout = choose(length, itemsize, width, inputs)
        if length <= 512:
            assert (layout.lanes, layout.row[:4]) == (32, "Held")
        elif length * max(itemsize, 4) <= 512 * 16 * 4:
            assert layout.row.startswith("Held")


def test_more_threads_are_used_where_their_registers_suffice():
    # 16384 elements of float32 are 16 for each of 1024 threads, even if read one by one.
    for width in (1, 2, 4):
        assert choose_layout(16384, 4, width, 1).lanes == 1024
    # The second array, and elements that are converted one by one, take more registers.
    for itemsize, width, inputs in [(4, 1, 2), (2, 1, 1), (8, 1, 1), (8, 2, 2)]:
        assert choose_layout(16384, itemsize, width, inputs).lanes == LONG_LANES


def test_long_rows_of_a_loss_are_streamed_where_they_are_aligned():
    assert _choose_layout(50000, 4, 4, 1, SHARED).row.startswith("Streamed")
    assert _choose_layout(50000, 2, 8, 2, SHARED).row.startswith("Streamed")
    assert not _choose_layout(50001, 4, 1, 1, SHARED).row.startswith("Streamed")
    assert not _choose_layout(10**6, 4, 4, 1, SHARED).row.startswith("Streamed")
