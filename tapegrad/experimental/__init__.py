"""TensorFlow's `tf.experimental` names."""

import importlib
from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence as _absence
from tapegrad.experimental import dlpack

if TYPE_CHECKING:
    from tapegrad.data.optional import Optional
    from tapegrad.experimental import numpy
    from tapegrad.experimental.dispatch import (
        dispatch_for_api,
        dispatch_for_binary_elementwise_apis,
        dispatch_for_unary_elementwise_apis,
        unregister_dispatch_for,
    )
    from tapegrad.experimental.extension_type import BatchableExtensionType, ExtensionType
    from tapegrad.ragged.dynamic_shape import DynamicRaggedShape
    from tapegrad.ragged.row_partition import RowPartition

__all__ = [
    "BatchableExtensionType", "DynamicRaggedShape", "ExtensionType", "Optional", "RowPartition",
    "dispatch_for_api", "dispatch_for_binary_elementwise_apis",
    "dispatch_for_unary_elementwise_apis", "dlpack", "numpy", "unregister_dispatch_for",
]  # fmt: skip

_DISPATCH = "tapegrad.experimental.dispatch"
_TYPES = "tapegrad.experimental.extension_type"
_PLACES = {
    "BatchableExtensionType": _TYPES,
    "DynamicRaggedShape": "tapegrad.ragged.dynamic_shape",
    "ExtensionType": _TYPES,
    "Optional": "tapegrad.data.optional",
    "RowPartition": "tapegrad.ragged.row_partition",
    "dispatch_for_api": _DISPATCH,
    "dispatch_for_binary_elementwise_apis": _DISPATCH,
    "dispatch_for_unary_elementwise_apis": _DISPATCH,
    "unregister_dispatch_for": _DISPATCH,
}


def __getattr__(name: str) -> Any:
    if name == "numpy":
        # On first use, because it imports nearly every module.
        return importlib.import_module("tapegrad.experimental.numpy")
    if name in _PLACES:
        # On first use, as above.
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise _absence("experimental", name)
