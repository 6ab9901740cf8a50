"""`keras.layers.TFSMLayer` for folders that tapegrad wrote."""

from __future__ import annotations

from typing import Any

from keras.src import backend
from keras.src.layers.layer import Layer

from tapegrad import saved_model


def exported_layer(usual: Any) -> Any:
    """Return a subclass of Keras' layer that loads by tapegrad."""

    class TFSMLayer(usual):  # type: ignore[misc]  # a class of Keras
        """Runs a function of a folder that `Model.export` or `tapegrad.saved_model.save` wrote."""

        def __init__(
            self,
            filepath: Any,
            call_endpoint: str = "serve",
            call_training_endpoint: str | None = None,
            trainable: bool = True,
            name: str | None = None,
            dtype: Any = None,
        ) -> None:
            Layer.__init__(self, trainable=trainable, name=name, dtype=dtype)
            loaded = saved_model.load(filepath)
            self.filepath, self.call_endpoint = filepath, call_endpoint
            self.call_training_endpoint = call_training_endpoint
            self.call_endpoint_fn = _endpoint(loaded, call_endpoint)
            if call_training_endpoint:
                self.call_training_endpoint_fn = _endpoint(loaded, call_training_endpoint)
            for variable in loaded.variables:
                self._add_existing_weight(variable)
            self._build_at_init()

        def _add_existing_weight(self, weight: Any) -> None:
            name = weight.name.split(":")[0].replace("/", "_")
            kept = backend.Variable(
                initializer=weight.numpy(),
                trainable=weight.trainable,
                dtype=weight.dtype.name,
                name=name,
            )
            kept._initialize(weight)  # the functions read this variable
            self._track_variable(kept)

    TFSMLayer.__module__, TFSMLayer.__qualname__ = usual.__module__, usual.__qualname__
    return TFSMLayer


def _endpoint(loaded: Any, name: str) -> Any:
    found = loaded.functions.get(name) or loaded.signatures.get(name)
    if found is None:
        known = [*dict.fromkeys([*loaded.functions, *loaded.signatures])]
        raise ValueError(
            f"The endpoint '{name}' is neither an attribute of the reloaded SavedModel, nor an "
            f"entry in its signatures. Available endpoints for this SavedModel: {known}"
        )
    return found
