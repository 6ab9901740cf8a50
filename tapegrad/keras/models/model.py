"""Model: a layer with training, evaluation, summaries and saving."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self

from tapegrad.autodiff.batching import is_batched
from tapegrad.core import html
from tapegrad.core.argument_checks import check_choice, described
from tapegrad.core.values import nest
from tapegrad.core.values.strings import to_any_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.models.graph import graph_config, graph_ends
from tapegrad.keras.models.keras_graph import keras_graph_ends
from tapegrad.keras.models.older_methods import OlderMethods
from tapegrad.keras.models.summary import summary_of
from tapegrad.keras.models.training import Trainer
from tapegrad.keras.models.weight_files import WeightFiles
from tapegrad.keras.registry import custom_object_scope
from tapegrad.keras.saving.model_file import description, save_model
from tapegrad.keras.saving.saved_model import inference_of, specs_of_model, write_saved_model
from tapegrad.keras.symbolic import KerasTensor
from tapegrad.onnx import export as export_onnx


class Model(OlderMethods, Trainer, WeightFiles):
    """A network: `Model(inputs, outputs)` from symbolic tensors, or a subclass with `call`.

    >>> import tapegrad
    >>> from tapegrad.keras.layers.core import Dense
    >>> class Pair(Model):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.first, self.second = Dense(4, "relu"), Dense(1)
    ...     def call(self, inputs):
    ...         return self.second(self.first(inputs))
    >>> model = Pair()
    >>> model(tapegrad.ones([2, 3])).shape, len(model.trainable_variables)
    ((2, 1), 4)
    """

    needs_own_config = True
    functional: ClassVar[type[Model] | None] = None
    """The class of models that are defined by inputs and outputs."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        kind: Any = cls
        if cls is Model and _are_ends(args, kwargs) and Model.functional is not None:
            kind = Model.functional
        return super().__new__(kind, *args, **kwargs)  # type: ignore[no-any-return]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if _are_ends(args, kwargs):
            ends = dict(zip(("inputs", "outputs"), args))
            ends.update({k: kwargs.pop(k) for k in ("inputs", "outputs") if k in kwargs})
            super().__init__(**kwargs)
            assert Model.functional is not None
            self._network: Any = Model.functional(**ends)
            for end in ("input", "output", "inputs", "outputs"):
                setattr(self, end, getattr(self._network, end))
            self.built = True
            return
        if args or "inputs" in kwargs or "outputs" in kwargs:
            given = [*args, *(kwargs[end] for end in ("inputs", "outputs") if end in kwargs)]
            raise ArgumentError(
                "Model takes symbolic tensors as inputs and outputs: start with keras.Input and "
                "call layers on it, or define call in a subclass. "
                f"Got {' and '.join(map(described, given))}."
            )
        super().__init__(**kwargs)
        self._network = None

    def call(self, *args: Any, **kwargs: Any) -> Any:
        if self._network is None:
            raise NotImplementedError(f"{type(self).__name__} must define call(self, inputs).")
        self._network.__dict__["_keeps_masks"] = self._keeps_masks
        outputs = self._network(*args, **kwargs)
        self.__dict__["_masked"] = self._network.__dict__.pop("_masked", None)
        return outputs

    def without_text(self, x: Any) -> Any:
        """Return the results of the text layers in place of the input, or None."""
        return None if self._network is None else self._network.without_text(x)

    @property
    def output_names(self) -> list[str] | None:
        """The names of the outputs, or None if they are unknown before the first call."""
        return None if self._network is None else self._network.output_names

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs of a functional or Sequential model."""
        inputs: list[Any] = getattr(self, "inputs")  # noqa: B009  # of subclasses with a graph
        return [x.name for x in inputs]

    def _as_input(self, value: Any) -> Any:
        """Convert an array to a tensor; the layers of the model cast it to their dtypes."""
        is_ours = isinstance(value, Tensor | Variable) or is_batched(value)
        return value if is_ours or not hasattr(value, "__array__") else to_any_tensor(value)

    @property
    def layers(self) -> list[Layer]:
        """The layers of this model, in the order in which they were set as attributes."""
        inner = self if self._network is None else self._network
        return list(inner._inner_layers())

    def get_layer(self, name: str | None = None, index: int | None = None) -> Layer:
        """Return a layer by name or by index."""
        layers = self.layers
        if index is not None:
            if not -len(layers) <= index < len(layers):
                raise ArgumentError(f"The model has {len(layers)} layers. Got index {index}.")
            return layers[index]
        for layer in layers:
            if layer.name == name:
                return layer
        names = ", ".join(layer.name for layer in layers)
        raise ArgumentError(f"The model has no layer {name!r}. Its layers are: {names}.")

    def _repr_html_(self) -> str:
        """Return the table of the layers, which notebooks display."""
        return html.preformatted(summary_of(self))

    def summary(
        self, line_length: int | None = None, expand_nested: bool = False, print_fn: Any = print
    ) -> None:
        """Print the layers with their output shapes and weight counts."""
        print_fn(summary_of(self, line_length or 78, expand_nested))

    def get_config(self) -> dict[str, Any]:
        """Return the graph of a functional model, or the constructor arguments."""
        network = self._graph()
        if network is None:
            return super().get_config()
        return {"name": self.name, "trainable": self.trainable, **graph_config(network)}

    def _graph(self) -> Any:
        """Return the functional graph of this model, or None if a subclass has a constructor."""
        return self._network if type(self).__init__ is Model.__init__ else None

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None
    ) -> Any:
        """Create a model from the result of `get_config`; `custom_objects` adds classes by name."""
        with custom_object_scope(custom_objects):
            return cls._from_config(config)

    @classmethod
    def _from_config(cls, config: Mapping[str, Any]) -> Any:
        if "input_layers" in config:
            ends = keras_graph_ends(config)
            return cls(*ends, name=config["name"], trainable=config.get("trainable", True))
        if "calls" not in config:
            return super().from_config(config)
        return cls(*graph_ends(config), name=config["name"], trainable=config["trainable"])

    def save(
        self,
        filepath: Any,
        overwrite: bool = True,
        include_optimizer: bool = True,
        save_format: str | None = None,
        zipped: bool | None = None,
    ) -> None:
        """Write the whole model to a ".keras" file for `load_model`.

        With `save_format="tf"` it is a folder, as from `export`, which `load_model` also reads. The
        name says otherwise what is written. `include_optimizer` has no effect.
        """
        save_model(self, filepath, overwrite, include_optimizer, save_format, zipped)

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
    ) -> None:
        """Write the inference of this model to a folder for `saved_model.load` and `TFSMLayer`.

        It runs without the classes of the model, as the endpoint `serve`. With `format="onnx"` it
        is an ONNX file. Nothing is printed, whatever `verbose` is.
        """
        check_choice("format", format, ("tf_saved_model", "onnx"))
        specs = specs_of_model(self) if input_signature is None else tuple(input_signature)
        if format == "onnx":
            export_onnx(lambda *inputs: self(*inputs, training=False), filepath, *specs)
            return
        write_saved_model(self, filepath, None, {"serve": inference_of(self, specs)})

    def to_json(self, **kwargs: Any) -> str:
        """Return the architecture without the weights as JSON for `model_from_json`."""
        return json.dumps(description(self), **kwargs)

    def build(self, input_shape: Any) -> None:
        """Create the weights by a call on zeros of this shape, with 1 for None."""
        if not self.built and not self._is_building:
            self._call_on_zeros(input_shape, 1)

    _is_building = False

    def _build_for(self, spec: Any, args: Any, kwargs: Any) -> None:
        if self._build_and_load(partial(self._call_on_zeros_like, args, kwargs)):
            return
        # Store the call arguments, so that a model that is loaded from a file can be built. The
        # partial hides them from the search for variables.
        given = nest.map_structure(_symbolic, [args, kwargs])
        self.__dict__["_called_with"] = partial(list, given)
        self._is_building = True  # the running call creates the weights itself
        try:
            super()._build_for(spec, args, kwargs)
        finally:
            self._is_building = False


def _symbolic(x: Any) -> Any:
    """Return a symbolic tensor like `x` with any batch size."""
    if not hasattr(x, "shape"):
        return x
    return KerasTensor((None, *x.shape[1:])[: len(x.shape)], getattr(x.dtype, "name", x.dtype))


def _are_ends(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    given = [*args, *[kwargs[k] for k in ("inputs", "outputs") if k in kwargs]]
    leaves = [leaf for value in given for leaf in nest.flatten(value)]
    return len(given) == 2 and bool(leaves) and all(isinstance(x, KerasTensor) for x in leaves)
