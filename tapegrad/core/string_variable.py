"""Variables of text, which live on the host and have no gradients.

The module is outside of `values`, because a recording treats reads there as reads by the user.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values import nest
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.strings import StringTensor, text_array
from tapegrad.errors import ShapeError


class StringVariable(StringTensor):
    """A text, or an array of texts, that can be assigned to; `tapegrad.Variable` makes one.

    A recorded function that reads or assigns one runs eagerly: programs compute with numbers.
    Checkpoints hold the texts as JSON.

    >>> import tapegrad
    >>> name = tapegrad.Variable("Elephant")
    >>> name.assign("Mouse").numpy()
    b'Mouse'
    """

    __slots__ = ("_counter", "_texts", "name")

    trainable = False

    def __init__(self, initial_value: Any, counter: Any, name: str) -> None:
        # A number that is read with the text, so that a recording knows that it cannot go on.
        self._counter = counter
        self._texts = text_array(initial_value).copy()
        self.name = name

    @property
    def array(self) -> np.ndarray:  # type: ignore[override]  # of the class, a slot
        read_on_host(self._counter, "a variable of text")
        return self._texts

    @property
    def value(self) -> Any:
        return self.read_value

    def read_value(self) -> StringTensor:
        """Return the current value as a tensor."""
        return StringTensor(self.array)

    def assign(
        self, value: Any, use_locking: bool = False, name: Any = None, read_value: bool = True
    ) -> Any:
        """Replace the value by another one of the same shape; return the variable."""
        new = text_array(value)
        if new.shape != self.array.shape:
            raise ShapeError(
                f"assign on {self.name!r} expects shape {self.shape}. Got {new.shape}."
            )
        self._texts = new.copy()
        return self if read_value else None

    def state(self) -> dict[str, Any]:
        """Return the texts, for a checkpoint; each byte is one character."""
        texts = [text.decode("latin-1") for text in self.array.ravel()]
        return {"shape": [*self.shape], "texts": texts}

    def set_state(self, state: dict[str, Any]) -> None:
        """Assign the texts of a checkpoint."""
        found = np.empty(len(state["texts"]), object)
        found[:] = [text.encode("latin-1") for text in state["texts"]]
        self.assign(found.reshape(state["shape"]))

    def __repr__(self) -> str:
        shown = super().__repr__().removeprefix("<tapegrad.Tensor: ")
        return f"<tapegrad.Variable {self.name!r} {shown}"


nest.LEAF_TYPES.add(StringVariable)
