"""The update rule of an optimizer: a primitive, its params, and the numbers that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tapegrad.core.backend.protocol import Array
from tapegrad.core.primitive.primitive import Primitive


class Scalars(NamedTuple):
    """The learning rate and the number of this step, as arrays on a variable's device.

    `further` are other numbers that all variables share; a rule reads them instead of the step.
    """

    rate: Any
    step: Any
    further: tuple[Any, ...] = ()


class Rule(NamedTuple):
    """The primitive that makes the steps, its params, and whether it reads the step number."""

    primitive: Primitive
    params: dict[str, Any]
    reads_step: bool = False

    def apply(self, p: Array, g: Array, slots: Sequence[Array], scalars: Scalars) -> Any:
        """Return the new parameter and slots."""
        primitive = self.primitive
        kernel = primitive.kernels.get(type(p)) or primitive.kernel(type(p))
        if self.reads_step:
            return kernel(p, g, scalars.rate, scalars.step, *slots, **self.params)
        return kernel(p, g, scalars.rate, *scalars.further, *slots, **self.params)
