"""Base class of layers that turn values into category numbers, and their forms of output."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.strings import to_any_tensor
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.calling import shape_of
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.layers.preprocessing import encoded_categories, shape_of_categories
from tapegrad.keras.layers.spatial_arguments import is_whole
from tapegrad.keras.symbolic import KerasTensor
from tapegrad.ops.casting.cast import in_dtype

MODES = ("int", "one_hot", "multi_hot", "count")


def texts_in(args: Any) -> Any:
    """Return the arguments of a call with lists and arrays as tensors; text stays on the host.

    >>> texts_in((["a", "b"],))[0].dtype.name
    'string'
    """
    return tuple([_as_tensor(arg) for arg in args])


def _as_tensor(arg: Any) -> Any:
    leaf = arg
    while isinstance(leaf, list | tuple) and leaf:
        leaf = leaf[0]
    is_plain = isinstance(leaf, str | bytes | int | float | np.ndarray | np.generic)
    return to_any_tensor(arg) if is_plain else arg


def checked_salt(salt: Any) -> tuple[int, int] | None:
    """Return the two integers of a salt, which may be given as one.

    >>> checked_salt(3)
    (3, 3)
    """
    if salt is None:
        return None
    pair = (salt, salt) if is_whole(salt) else salt
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(map(is_whole, pair)):
        raise ArgumentError(f"salt must be an integer, or two of them. Got {salt!r}.")
    return int(pair[0]), int(pair[1])


OLD_MODES = {"binary": "multi_hot", "tf-idf": "tf_idf"}
"""Modes by their names before Keras 3."""


class CategoryLayer(Layer):
    """Base class: subclasses compute category numbers, which are returned in the output mode.

    "int" returns the numbers as int64. The other modes are those of `CategoryEncoding`.
    """

    modes: tuple[str, ...] = MODES
    takes_text = True

    def __init__(self, output_mode: str, sparse: bool, **kwargs: Any) -> None:
        output_mode = OLD_MODES.get(output_mode, output_mode)
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
        return encoded_categories(
            numbers, self.count_categories(), self._encoding, self.compute_dtype
        )

    def text_inputs(self, args: Any) -> Any:
        """Return the arguments of a call with lists as tensors."""
        return texts_in(args)

    @property
    def _encoding(self) -> str:
        return "count" if self.output_mode == "tf_idf" else self.output_mode

    def compute_output_shape(self, input_shape: Any) -> Any:
        if self.output_mode == "int":
            return tuple(input_shape)
        return shape_of_categories(input_shape, self.count_categories(), self._encoding)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        shape = self.compute_output_shape(shape_of(args[0]))
        return KerasTensor(shape, "int64" if self.output_mode == "int" else self.compute_dtype)
