"""Functions of keras.backend about models: inputs, the training phase, and outputs of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError
from tapegrad.keras.backend.values import evaluated, get_value
from tapegrad.keras.layers.context import training_flag
from tapegrad.keras.layers.input_layer import Input
from tapegrad.keras.models.model import Model
from tapegrad.keras.symbolic import KerasTensor


def placeholder(
    shape: Sequence[int | None] | None = None,
    ndim: int | None = None,
    dtype: Any = None,
    sparse: bool = False,
    name: str | None = None,
) -> KerasTensor:
    """Return the symbolic input of a model, with the batch in its shape.

    >>> placeholder((None, 3)).shape
    (None, 3)
    """
    full = (None,) * (ndim or 0) if shape is None else tuple(shape)
    return Input(batch_shape=full, dtype=dtype, name=name)


def learning_phase() -> int:
    """Return 1 inside the training call of a layer or a model, and otherwise 0.

    >>> learning_phase()
    0
    """
    return int(training_flag.get() or 0)


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return `x` while a model is trained, and otherwise `alt`; both may be functions.

    >>> in_train_phase(1.0, lambda: 2.0)
    2.0
    """
    return evaluated(x if (learning_phase() if training is None else training) else alt)


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return `alt` while a model is trained, and otherwise `x`; both may be functions.

    >>> in_test_phase(1.0, lambda: 2.0)
    1.0
    """
    return in_train_phase(alt, x, training)


def function(inputs: Any, outputs: Any, updates: Any = None, name: str | None = None) -> Any:
    """Return a function from values of symbolic inputs to NumPy arrays of the outputs.

    A number among the inputs, such as `learning_phase()`, stands for the training phase.

    >>> x = Input((2,))
    >>> function([x], [2.0 * x])([[[1.0, 3.0]]])
    [array([[2., 6.]], dtype=float32)]
    """
    if updates:
        raise ArgumentError("function makes no updates. Assign to variables after the call.")
    places = inputs if isinstance(inputs, list | tuple) else [inputs]
    symbols = [x for x in places if isinstance(x, KerasTensor)]
    model = Model(symbols, outputs)

    def run(values: Any) -> Any:
        given = values if isinstance(inputs, list | tuple) else [values]
        pairs = [*zip(places, given, strict=True)]
        arrays = [as_operand(value) for place, value in pairs if isinstance(place, KerasTensor)]
        phases = [bool(value) for place, value in pairs if not isinstance(place, KerasTensor)]
        found = model(arrays, training=any(phases))
        return nest.pack_sequence_as(outputs, [get_value(x) for x in nest.flatten(found)])

    return run
