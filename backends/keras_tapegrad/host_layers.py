"""Keras layers of text and hashing on the layers of `tapegrad.keras`, which need no TensorFlow.

They run on the host. Texts are lists, NumPy arrays or string tensors. Like Keras' own layers on JAX
and PyTorch, they prepare data; in a model they work where it is called eagerly.
"""

from __future__ import annotations

from typing import Any

from keras.src import tree
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.layers.layer import Layer

from tapegrad.keras import layers as own_layers
from tapegrad.keras.symbolic import KerasTensor as OwnSymbolic


class _HostLayer(Layer):  # type: ignore[misc]  # Keras has no types
    """A layer of Keras that lets a layer of `tapegrad.keras` compute."""

    _own_class: Any

    def __init__(self, *args: Any, name: str | None = None, **kwargs: Any) -> None:
        options = {key: kwargs.pop(key) for key in ("trainable",) if key in kwargs}
        dtype = kwargs.get("dtype")
        if isinstance(dtype, dict):  # a policy in a configuration
            dtype = dtype["config"]["name"]
        given = None if dtype is None or str(dtype) == "string" else dtype
        if "dtype" in kwargs:
            kwargs["dtype"] = given
        super().__init__(name=name, **options)
        self._own = self._own_class(*args, **kwargs)
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.built = True

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if any([isinstance(x, KerasTensor) for x in tree.flatten(inputs)]):
            return super().__call__(inputs, *args, **kwargs)
        return self._own(inputs)

    def call(self, inputs: Any) -> Any:
        """Return the result of the layer on the host."""
        return self._own(inputs)

    def compute_output_spec(self, inputs: Any) -> Any:
        """Return the shape and the dtype of the result."""
        own = tree.map_structure(lambda x: OwnSymbolic(tuple(x.shape), str(x.dtype)), inputs)
        found = self._own.compute_output_spec(own)
        dtype = getattr(found.dtype, "name", found.dtype)
        return KerasTensor(tuple(found.shape), str(dtype))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the result."""
        return tuple(self._own.compute_output_shape(input_shape))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments, with the vocabulary if there is one."""
        own = {key: value for key, value in self._own.get_config().items() if key != "name"}
        return {"name": self.name, **own}

    @classmethod
    def from_config(cls, config: Any) -> Any:
        """Create a layer from the result of `get_config`."""
        given = dict(config)
        if isinstance(given.get("ngrams"), list):
            given["ngrams"] = tuple(given["ngrams"])
        return cls(**given)

    def __getattr__(self, name: str) -> Any:
        """Give what else the layer has: `adapt`, `get_vocabulary`, `num_bins`, ..."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._own, name)


class StringLookup(_HostLayer):
    """Return the position of texts in a vocabulary; see `tapegrad.keras.layers.StringLookup`."""

    _own_class = own_layers.StringLookup


class IntegerLookup(_HostLayer):
    """Return the position of integers in a vocabulary."""

    _own_class = own_layers.IntegerLookup


class TextVectorization(_HostLayer):
    """Return texts as positions of their words in a vocabulary."""

    _own_class = own_layers.TextVectorization

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._has_input_vocabulary = kwargs.get("vocabulary") is not None  # for FeatureSpace


class Hashing(_HostLayer):
    """Return the bin of each value by a hash."""

    _own_class = own_layers.Hashing


class HashedCrossing(_HostLayer):
    """Return the bin of each combination of features by a hash."""

    _own_class = own_layers.HashedCrossing
