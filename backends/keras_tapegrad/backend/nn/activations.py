"""Activation functions of Keras' backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg
import tapegrad.numpy as np
from keras_tapegrad.backend.signatures import declared
from keras_tapegrad.backend.tensors import convert_to_tensor, floating_dtype
from tapegrad.keras import ops


def _activation(name: str, *required: str, **defaults: Any) -> Callable[..., Any]:
    function = getattr(ops, name)

    def run(x: Any, *args: Any, **options: Any) -> Any:
        x = convert_to_tensor(x)
        dtype = floating_dtype(x)
        return tg.cast(function(tg.cast(x, dtype), *args, **options), dtype)

    run.__name__, run.__doc__ = name, function.__doc__
    return declared(run, "x", *required, **defaults)


celu = _activation("celu", alpha=1.0)
elu = _activation("elu", alpha=1.0)
gelu = _activation("gelu", approximate=True)
hard_shrink = _activation("hard_shrink", threshold=0.5)
hard_sigmoid = _activation("hard_sigmoid")
hard_silu = _activation("hard_silu")
hard_tanh = _activation("hard_tanh")
leaky_relu = _activation("leaky_relu", negative_slope=0.2)
log_sigmoid = _activation("log_sigmoid")
selu = _activation("selu")
sigmoid = _activation("sigmoid")
silu = _activation("silu")
soft_shrink = _activation("soft_shrink", threshold=0.5)
softplus = _activation("softplus")
softsign = _activation("softsign")
sparse_plus = _activation("sparse_plus")
sparse_sigmoid = _activation("sparse_sigmoid")
sparsemax = _activation("sparsemax", axis=-1)
squareplus = _activation("squareplus", b=4)
tanh = _activation("tanh")
tanh_shrink = _activation("tanh_shrink")
threshold = _activation("threshold", "threshold", "default_value")
_log_softmax = _activation("log_softmax")
_softmax = _activation("softmax")
_glu = _activation("glu")


def relu(x: Any) -> Any:
    """Return max(x, 0); integers keep their dtype."""
    return tg.nn.relu(convert_to_tensor(x))


def relu6(x: Any) -> Any:
    """Return x limited to the interval from 0 to 6; integers keep their dtype."""
    return tg.nn.relu6(convert_to_tensor(x))


def _over_all(function: Callable[..., Any], x: Any, axis: Any) -> Any:
    """Apply a function along an axis, or to all elements if the axis is None."""
    x = convert_to_tensor(x)
    if axis is not None:
        return function(x, axis=axis)
    return np.reshape(function(np.ravel(x), axis=0), x.shape)


def softmax(x: Any, axis: Any = -1) -> Any:
    """Return exp(x) divided by its sum along an axis."""
    return _over_all(_softmax, x, axis)


def log_softmax(x: Any, axis: Any = -1) -> Any:
    """Return the logarithm of `softmax`."""
    return _over_all(_log_softmax, x, axis)


def glu(x: Any, axis: int = -1) -> Any:
    """Multiply the first half of an axis by the sigmoid of the second."""
    x = convert_to_tensor(x)
    if x.shape[axis] % 2:
        raise ValueError(
            f"glu halves axis {axis}, which must have an even size. Got shape {tuple(x.shape)}."
        )
    first, second = np.split(x, 2, axis)
    return first * sigmoid(second)
