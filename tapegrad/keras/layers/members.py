"""Members of Keras' layers that name them and their variables, and that files use."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np

from tapegrad.core.values.variable import Variable
from tapegrad.errors import ShapeError
from tapegrad.keras.stateless import StatelessLayer


class Members(StatelessLayer):
    """The path of a layer, and the methods that a subclass overrides to store its own state."""

    @property
    def path(self) -> str:
        """The name of the layer. The paths of its weights begin with it."""
        name: str = self.name  # type: ignore[attr-defined]  # of the layer
        return name

    def save_own_variables(self, store: MutableMapping[str, Any]) -> None:
        """Put the values of the weights of this layer, without those of sublayers, into `store`.

        A subclass that overrides this method stores what it needs, under names of its choice.
        """
        for number, variable in enumerate(self._kept_variables()):
            store[str(number)] = variable.numpy()

    def load_own_variables(self, store: Mapping[str, Any]) -> None:
        """Assign what `save_own_variables` stored. Called after the weights have been loaded."""
        variables = self._kept_variables()
        if len(store) != len(variables):
            raise ShapeError(
                f"Layer {self.path!r} has {len(variables)} weights of its own. "
                f"The file has {len(store)}: {', '.join(store)}."
            )
        for number, variable in enumerate(variables):
            variable.assign(np.asarray(store[str(number)]))

    def _kept_variables(self) -> list[Variable]:
        layer: Any = self
        inner = {v.number for one in layer._inner_layers() for v in one.variables}
        own = [v for v in layer._own_variables() if v.number not in inner]
        return sorted(own, key=lambda v: not (v.trainable or v.number in layer._frozen))

    def _placed(self, variable: Variable, name: str | None) -> Variable:
        """Return the variable, whose path now names this layer."""
        variable.path = f"{self.path}/{name or 'variable'}"
        return variable
