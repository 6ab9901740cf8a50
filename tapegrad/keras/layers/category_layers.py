"""Base class of layers that turn values into category numbers, and their forms of output."""

from __future__ import annotations

from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.calling import shape_of
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.preprocessing import CategoryEncoding
from tapegrad.keras.symbolic import KerasTensor
from tapegrad.ops.casting.cast import in_dtype

MODES = ("int", "one_hot", "multi_hot", "count")


class CategoryLayer(Layer):
    """Base class: subclasses compute category numbers, which are returned in the output mode.

    "int" returns the numbers as int64. The other modes are those of `CategoryEncoding`.
    """

    modes: tuple[str, ...] = MODES

    def __init__(self, output_mode: str, sparse: bool, **kwargs: Any) -> None:
        if output_mode == "int" and str(kwargs.get("dtype", "")).startswith(("int", "uint")):
            kwargs["dtype"] = None  # numbers are int64, and weights do not exist
        super().__init__(**kwargs)
        check_choice("output_mode", output_mode, self.modes)
        if sparse:
            raise ArgumentError(f"{type(self).__name__} returns dense tensors. Use sparse=False.")
        self.output_mode, self.sparse = output_mode, sparse

    def count_categories(self) -> int:
        """Return how many category numbers there are."""
        raise NotImplementedError

    def encoded(self, numbers: Any) -> Any:
        """Return category numbers in the output mode."""
        if self.output_mode == "int":
            return in_dtype(numbers, "int64")
        return self._encoding().call(numbers)

    def _encoding(self) -> CategoryEncoding:
        return CategoryEncoding(
            self.count_categories(), self.output_mode, dtype=self.dtype_policy, name="encoding"
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        if self.output_mode == "int":
            return tuple(input_shape)
        return self._encoding().compute_output_shape(input_shape)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        shape = self.compute_output_shape(shape_of(args[0]))
        return KerasTensor(shape, "int64" if self.output_mode == "int" else self.compute_dtype)
