"""Split a product with a long depth and a small result into parts that run at the same time.

The blocks of a product share its result. A small result occupies few multiprocessors however deep
the product is, and libraries split the depth of single products only. The parts are another axis
of the stack, and their products are added up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tapegrad_cupy.library_calls.product_steps import Layout, matrix_of, merged_axes, product_shape

TILE = 64
"""The rows and columns of the result that one block computes, or less."""

LEAST_DEPTH = 256
"""The least depth of a part."""

DEEP = 1 << 16
"""The least depth of a single product that is split."""

BLOCKS = 2
"""The blocks per multiprocessor that parts are made for."""

UNIT = 8
"""A part's depth is a multiple of this, so that parts are aligned as the whole is."""


class Split(NamedTuple):
    """The layouts of the parts, whose axis precedes the matrices, and the depth that they cover."""

    layouts: tuple[Layout, Layout]
    done: int
    depth: int


def find_split(
    first: Layout, second: Layout, processors: int, single: bool = False
) -> Split | None:
    """Return how to split a product, None if it occupies the device as a whole.

    Libraries split the depth of single products themselves. `single` says to do it here if such a
    product is very deep and narrow.
    """
    *lead, m, n = product_shape(first, second)
    depth = first.shape[-2 if first.transpose else -1]
    if first.shape[:-2] != second.shape[:-2] or matrix_of(first) is None:
        return None
    if not lead and not (single and depth >= DEEP and max(m, n) <= 2 * TILE):
        return None
    if matrix_of(second) is None or min(*first.strides, *second.strides) < 0:
        return None
    tiles = -(-m // TILE) * -(-n // TILE)
    wanted = BLOCKS * processors
    if 2 * tiles * math.prod(lead) > wanted or depth < 8 * LEAST_DEPTH:
        return None
    # Parts and matrices form one batch if the matrices follow one another and the parts divide the
    # depth. Otherwise there is one call per matrix, whose parts alone have to occupy the device.
    strides = first.strides[:-2], second.strides[:-2]
    part = 0
    if not lead or (_follow(first) and _follow(second) and len(merged_axes(lead, *strides)) <= 1):
        part = _divisor(depth, -(-wanted // (tiles * math.prod(lead))))
    if not part:
        count = min(-(-wanted // tiles), depth // LEAST_DEPTH)
        part = _divisor(depth, count) or -(-depth // (count * UNIT)) * UNIT
    parts = depth // part
    layouts = (
        _parted(first, -2 if first.transpose else -1, parts, part),
        _parted(second, -1 if second.transpose else -2, parts, part),
    )
    return Split(layouts, parts * part, depth) if parts > 1 else None


def _follow(layout: Layout) -> bool:
    """Return whether each matrix of a stack begins where the one before it ends."""
    shape, strides = layout.shape[-3:], layout.strides[-3:]
    return strides[0] == math.prod(shape[1:])


def _divisor(depth: int, count: int) -> int:
    """Return the depth of parts that divide the whole, if there are about `count`, otherwise 0."""
    for parts in range(count, 2 * count):
        if depth % (parts * UNIT) == 0 and depth >= parts * LEAST_DEPTH:
            return depth // parts
    return 0


def _parted(layout: Layout, axis: int, parts: int, part: int) -> Layout:
    """Return the layout with an axis of parts before the matrices."""
    shape, strides = list(layout.shape[-2:]), layout.strides[-2:]
    shape[axis] = part
    step = part * strides[axis]
    return Layout(
        (*layout.shape[:-2], parts, *shape),
        (*layout.strides[:-2], step, *strides),
        layout.transpose,
    )
