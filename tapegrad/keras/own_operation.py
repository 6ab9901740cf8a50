"""keras.Operation: the base class of operations that users define."""

from __future__ import annotations

from typing import Any

from tapegrad.core.values import nest
from tapegrad.keras.configured import Configured
from tapegrad.keras.naming import automatic_name
from tapegrad.keras.symbolic import KerasTensor, apply


class Operation(Configured):
    """Base class of operations without weights: subclasses define `call`.

    A call on symbolic tensors becomes a part of a functional model; its shape is found by calls on
    zeros.

    >>> from tapegrad.keras.layers.input_layer import Input
    >>> class Halved(Operation):
    ...     def call(self, x):
    ...         return x / 2
    >>> Halved()(3.0), Halved()(Input((4,))).shape
    (1.5, (None, 4))
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = name or automatic_name(type(self).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(leaf, KerasTensor) for leaf in nest.flatten((args, kwargs))):
            return self.symbolic_call(*args, **kwargs)
        return self.call(*args, **kwargs)

    def symbolic_call(self, *args: Any, **kwargs: Any) -> Any:
        """Return symbolic outputs, which remember this operation."""
        return apply(self.call, *args, options=kwargs)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result. Subclasses define this."""
        raise NotImplementedError(f"{type(self).__name__} must define call(self, ...).")
