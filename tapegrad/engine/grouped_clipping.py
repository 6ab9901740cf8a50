"""Clip many tensors by their global norm in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.out_of_memory import attempt
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor, wrap


def clip_grouped(tensors: Sequence[Any], limit: Any) -> tuple[list[Any], Any] | None:
    """Return the clipped tensors and their norm before, None if the backend cannot do that.

    It also returns None if a tape follows one of the tensors: it has to record the operations.
    """
    given = [t for t in tensors if t is not None]
    values = [t.values if type(t) is IndexedSlices else t for t in given]
    if not isinstance(limit, int | float) or any(
        [type(t) is not Tensor or t.node is not None for t in values]
    ):
        return None
    array_type = type(values[0].array)
    updates = capabilities_of(array_type).updates
    if updates is None or any([type(t.array) is not array_type for t in values]):
        return None
    parts = [_merged(t) for t in given]
    arrays = [t.values.array if type(t) is IndexedSlices else t.array for t in parts]
    found = attempt("clip_by_global_norm", updates.clip, arrays, float(limit), on=arrays[0])
    if found is None:
        return None
    scaled = map(_with_values, parts, found[0])
    return [None if t is None else next(scaled) for t in tensors], wrap(found[1])


def _merged(t: Any) -> Any:
    if type(t) is not IndexedSlices:
        return t
    # Imported here because few programs have sparse gradients, and `import tapegrad` is cheap.
    from tapegrad.ops.indexing.sparse_rows import merged

    return merged(t)


def _with_values(t: Any, array: Any) -> Any:
    if type(t) is not IndexedSlices:
        return wrap(array)
    return IndexedSlices(wrap(array), t.indices, t.dense_shape)
