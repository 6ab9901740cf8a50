"""TensorFlow's `tf.experimental.dlpack`: share memory with other libraries without copies."""

from __future__ import annotations

from typing import Any

from tapegrad.core.exports import list_exports as _list_exports
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dlpack import import_array
from tapegrad.core.values.shared import share
from tapegrad.core.values.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]

_list_exports(globals())


def to_dlpack(tf_tensor: Any) -> Any:
    """Return a DLPack capsule of a tensor's memory, which one other library may consume.

    Libraries that support the DLPack protocol take the tensor itself: `torch.from_dlpack(x)`.

    >>> import tapegrad
    >>> capsule = to_dlpack(tapegrad.constant([1.0, 2.0]))
    >>> from_dlpack(capsule).numpy().tolist()
    [1.0, 2.0]
    """
    return to_tensor(tf_tensor).__dlpack__()


def from_dlpack(dlcapsule: Any) -> Tensor:
    """Return a tensor that shares the memory of another library's array or of a DLPack capsule.

    Nothing is copied, so later writes to that memory change the tensor. Tapes keep values by
    reference, so gradients would then use the new values. Gradients do not flow into the other
    library.

    >>> import numpy as np
    >>> array = np.array([1.0, 2.0])
    >>> x = from_dlpack(array)
    >>> array[0] = 5.0
    >>> x.numpy().tolist()
    [5.0, 2.0]
    """
    return share(import_array(dlcapsule))
