"""TensorFlow's `tf.experimental.dlpack`: memory shared with other libraries, without copies."""

from __future__ import annotations

from typing import Any

from tapegrad.core.convert import to_tensor
from tapegrad.core.dlpack import import_array
from tapegrad.core.tensor import Tensor, wrap

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tf_tensor: Any) -> Any:
    """Return a DLPack capsule of a tensor's memory, which one other library may take over.

    Libraries that know DLPack's protocol take the tensor itself: `torch.from_dlpack(x)`.

    >>> import tapegrad
    >>> capsule = to_dlpack(tapegrad.constant([1.0, 2.0]))
    >>> from_dlpack(capsule).numpy().tolist()
    [1.0, 2.0]
    """
    return to_tensor(tf_tensor).__dlpack__()


def from_dlpack(dlcapsule: Any) -> Tensor:
    """Return a tensor over the memory of another library's array, or of a DLPack capsule.

    Nothing is copied, so what is written there later shows here; tapes keep values by reference,
    and a gradient would be that of the new ones. Gradients do not go on into the other library.

    >>> import numpy as np
    >>> array = np.array([1.0, 2.0])
    >>> x = from_dlpack(array)
    >>> array[0] = 5.0
    >>> x.numpy().tolist()
    [5.0, 2.0]
    """
    return wrap(import_array(dlcapsule))
