"""TFSMLayer: a layer that runs a function of a saved model."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.layer import Layer


class TFSMLayer(Layer):
    """Runs an endpoint of a folder that `Model.export` or `saved_model.save` wrote.

    >>> import tempfile
    >>> from tapegrad import keras, ones
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.export(folder, verbose=False)
    ...     layer = TFSMLayer(folder, call_endpoint="serve")
    >>> layer(ones([4, 3])).shape
    (4, 2)
    """

    def __init__(
        self,
        filepath: Any,
        call_endpoint: str = "serve",
        call_training_endpoint: str | None = None,
        trainable: bool = True,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        from tapegrad.keras.saving.saved_model_loading import read_saved_model  # needs layers

        super().__init__(trainable=trainable, name=name, dtype=dtype)
        loaded = read_saved_model(filepath)
        self.filepath, self.call_endpoint = str(filepath), call_endpoint
        self.call_training_endpoint = call_training_endpoint
        self._endpoint = _endpoint(loaded, call_endpoint)
        self._training_endpoint = (
            None if call_training_endpoint is None else _endpoint(loaded, call_training_endpoint)
        )
        self._loaded_variables = list(loaded.variables)
        self.trainable = trainable
        self.built = True

    def call(self, inputs: Any, training: bool = False, **kwargs: Any) -> Any:
        """Run the endpoint, or that for training if there is one."""
        if training and self._training_endpoint is not None:
            return self._training_endpoint(inputs, **kwargs)
        return self._endpoint(inputs, **kwargs)


def _endpoint(loaded: Any, name: str) -> Any:
    functions = loaded.functions
    found = functions.get(name) or loaded.signatures.get(name)
    if found is None:
        known = ", ".join(dict.fromkeys([*functions, *loaded.signatures]))
        raise ArgumentError(f"The saved model has no endpoint {name!r}. Its endpoints: {known}.")
    return found
