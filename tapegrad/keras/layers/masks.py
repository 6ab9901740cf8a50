"""Masks of eager calls: the mask of an output is kept with the tensor, as `_keras_mask` in Keras.

Functional models keep their masks themselves; this is for layers that are called one by one, as in
the `call` of a subclass.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.keras.layers.calling import CallSpec

KEPT: dict[int, tuple[weakref.ref[Tensor], Any]] = {}
"""The masks by the id of their tensor, with a reference that drops the entry with the tensor."""


def mask_of(x: Any) -> Any:
    """Return the mask that a layer gave to its output, or None.

    >>> import tapegrad
    >>> from tapegrad.keras import layers
    >>> rows = layers.Embedding(5, 2, mask_zero=True)(tapegrad.constant([[3, 0]]))
    >>> mask_of(rows).tolist(), mask_of(rows + 1) is None
    ([[True, False]], True)
    """
    found = KEPT.get(id(x))
    return found[1] if found is not None and found[0]() is x else None


def keep_mask(x: Any, mask: Any) -> None:
    """Keep the mask of a tensor as long as the tensor lives."""
    key = id(x)

    def forget(reference: weakref.ref[Tensor]) -> None:
        if key in KEPT and KEPT[key][0] is reference:
            del KEPT[key]

    if mask is None:
        KEPT.pop(key, None)
    else:
        KEPT[key] = (weakref.ref(x, forget), mask)


def add_masks(spec: CallSpec, args: Any, kwargs: dict[str, Any]) -> Any:
    """Add the masks of the inputs to the arguments that take them; return that of the first one."""
    given = {**dict(zip(spec.names, args, strict=False)), **kwargs}
    first = args[0] if args else next(iter(kwargs.values()), None)
    mask = given.get("mask")
    if mask is None:
        mask = nest.map_structure(mask_of, first)
        mask = mask if is_known(mask) else None
        if mask is not None and spec.takes_mask and "mask" not in spec.names[: len(args)]:
            kwargs["mask"] = mask
    for name in [f"{name}_mask" for name in given]:
        if name in spec.names and given.get(name) is None:
            found = mask_of(given[name.removesuffix("_mask")])
            if found is not None and name not in spec.names[: len(args)]:
                kwargs[name] = found
    return mask


def keep_masks(layer: Any, args: Any, kwargs: Mapping[str, Any], mask: Any, outputs: Any) -> None:
    """Keep the masks that a layer computes for its outputs."""
    flat = nest.flatten(outputs)
    if not all(isinstance(x, Tensor) for x in flat) or all(mask_of(x) is not None for x in flat):
        return
    first = args[0] if args else next(iter(kwargs.values()), None)
    made = layer.compute_mask(first, mask)
    for x, one in zip(flat, nest.flatten(made), strict=False):
        if one is not None and mask_of(x) is None:
            keep_mask(x, one)


def is_known(masks: Any) -> bool:
    """Whether there is a mask in a structure of masks and None."""
    return any(mask is not None for mask in nest.flatten(masks))


# Programs read the attribute under the name that it has in Keras.
Tensor._keras_mask = property(  # type: ignore[attr-defined]
    mask_of, keep_mask, doc="The mask that a layer gave to this output, or None."
)
