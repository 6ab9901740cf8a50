"""Stacks of matrices: the axes before the last two, for functions in C that walk along them."""

from __future__ import annotations

from collections.abc import Sequence

from tapegrad.core.backend.native_sequences import Layout

MOST_AXES = 8

Axes = list[tuple[int, ...]]
"""Per axis its size, and the strides of all arrays in bytes."""


def stack_axes(
    sizes: Sequence[int], arrays: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Axes | None:
    """Return the axes of a stack, given shape and strides of each array along them.

    Arrays may have fewer axes or axes of length 1. Axes that follow each other are merged. None if
    there are too many.
    """
    if len(sizes) > MOST_AXES:
        return None
    found: list[Sequence[int]] = [sizes]
    for own, strides in arrays:
        steps = [0 if size == 1 else step for size, step in zip(own, strides)]
        found.append((*[0] * (len(sizes) - len(own)), *steps))
    axes: Axes = []
    for size, *steps in zip(*found, strict=True):
        if size == 1:
            continue
        if axes and all(last == step * size for last, step in zip(axes[-1][1:], steps)):
            axes[-1] = (axes[-1][0] * size, *steps)
        else:
            axes.append((size, *steps))
    return axes


def matrices(layout: Layout) -> tuple[Sequence[int], Sequence[int]]:
    """Return shape and strides of the stack in which the matrices of an array lie."""
    return layout.shape[:-2], layout.strides[:-2]


Form = tuple[bool, int, int, int]
"""A matrix as BLAS takes it: whether it is transposed, its size after that, its leading size."""


def matrix_form(layout: Layout, transposed: bool) -> Form | None:
    """Return how the matrices of an array, or their transposes, lie; None for other strides."""
    rows, columns = layout.shape[-2:]
    itemsize = layout.dtype.itemsize
    down, along = layout.strides[-2:]
    down = columns * itemsize if rows == 1 else down
    along = itemsize if columns == 1 else along
    if along == itemsize and down >= columns * itemsize and not down % itemsize:
        size, leading, is_turned = (rows, columns), down // itemsize, transposed
    else:
        down = itemsize if rows == 1 else layout.strides[-2]
        along = rows * itemsize if columns == 1 else layout.strides[-1]
        if down != itemsize or along < rows * itemsize or along % itemsize:
            return None
        size, leading, is_turned = (rows, columns), along // itemsize, not transposed
    rows, columns = size[::-1] if transposed else size
    return is_turned, rows, columns, leading


WALK = r"""
/* Call a function for each entry of a stack, which has up to three arrays. First the number of
   axes, then per axis its size and three strides in bytes, then the numbers of the function. */
typedef int One(const int64_t *h, char **data);
static int over_stack(One *one, const int64_t *h, char **data) {
    const int64_t axes = h[0], *axis = h + 1, *own = axis + 4 * axes;
    int64_t at[8] = {0};
    char *here[3] = {data[0], data[1], data[2]};
    for (;;) {
        const int code = one(own, here);
        if (code) return code;
        int64_t k = axes - 1;
        for (; k >= 0; --k) {
            const int64_t *x = axis + 4 * k;
            for (int i = 0; i < 3; ++i) here[i] += x[1 + i];
            if (++at[k] < x[0]) break;
            for (int i = 0; i < 3; ++i) here[i] -= x[1 + i] * x[0];
            at[k] = 0;
        }
        if (k < 0) return 0;
    }
}
"""


def walk(axes: Axes, *numbers: int) -> list[int]:
    """Return the numbers that `over_stack` reads."""
    return [len(axes), *[number for axis in axes for number in axis], *numbers]
