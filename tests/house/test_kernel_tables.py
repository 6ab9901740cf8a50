"""Tables that are passed as kernel arguments do not exceed the size limit."""

from __future__ import annotations

import struct

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


def tensor_of_block(firsts, block):
    """The tensor that the kernel finds by binary search: the last one that begins by then."""
    return max(at for at, first in enumerate(firsts) if first <= block)


@pytest.mark.parametrize("width", [1, 4, 8])
@pytest.mark.parametrize("scale", [1, 1000, 10**6])
def test_every_element_belongs_to_one_block(width, scale):
    probe = layout((scale * 40,), width, 3).chunk
    lengths = [1, probe - 1, probe, probe + 1, 0, 3 * probe, 3 * probe + 1, 7]
    sizes = tuple(lengths * 12)
    found = layout(sizes, width, 3)

    covered = [[] for _ in sizes]
    for part in found.parts:
        count, rest = len(part.positions), part.ending[8 * part.capacity :]
        held = struct.unpack(f"{part.capacity}q", part.ending[: 8 * part.capacity])
        firsts = struct.unpack(f"{count}i", rest)
        assert held[:count] == tuple(sizes[at] for at in part.positions)
        for block in range(part.blocks):
            tensor = tensor_of_block(firsts, block)
            start = (block - firsts[tensor]) * found.chunk
            covered[part.positions[tensor]].append(start)
    for size, starts in zip(sizes, covered, strict=True):
        assert starts == list(range(0, size, found.chunk))


def test_too_many_columns_leave_room_for_nothing():
    assert capacities(300) == (0, 0)
    assert capacities(10, 5000) == (0, 0)
