"""Windows that slide over up to three spatial axes, for functions in C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MOST = 3
"""The most spatial axes; fewer are filled up with axes of length 1."""

# Per axis: size, count of windows, extent of a window, stride, padding before, distance of the
# elements of a window.
AXES = r"""
typedef struct { int64_t size, count, extent, stride, low, step; } Axis;
typedef struct { int64_t begin, end; } Part;
/* The elements of a window that are not padding, by their numbers along an axis. */
static inline Part part_of(const Axis *a, int64_t at) {
    const int64_t origin = at * a->stride - a->low;
    int64_t begin = origin < 0 ? (-origin + a->step - 1) / a->step : 0, end = a->extent;
    if (origin + (end - 1) * a->step >= a->size) {
        end = a->size > origin ? (a->size - origin + a->step - 1) / a->step : 0;
    }
    return (Part){begin, end > begin ? end : begin};
}
"""


def axes_numbers(
    spatial: Sequence[int], counts: Sequence[int], params: Mapping[str, Any]
) -> list[int] | None:
    """Return the numbers of all axes, in the order of `Axis`; None if there are too many."""
    if len(spatial) > _MOST:
        return None
    dilation = params.get("dilation") or (1,) * len(spatial)
    numbers = [1, 1, 1, 1, 0, 1] * (_MOST - len(spatial))
    for size, count, extent, stride, (low, _), step in zip(
        spatial, counts, params["window"], params["strides"], params["padding"], dilation
    ):
        numbers += [size, count, extent, stride, low, step]
    return numbers
