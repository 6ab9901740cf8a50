"""Functional: models that are defined by symbolic inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tapegrad.core.values import nest
from tapegrad.errors import ArgumentError
from tapegrad.keras.layers.calling import call_spec
from tapegrad.keras.layers.fused_norm_relu import NormalizedRelu, can_join
from tapegrad.keras.models.inputs import fitted
from tapegrad.keras.models.model import Model
from tapegrad.keras.models.text_front import after_graph, nodes_after, resumed_at
from tapegrad.keras.symbolic import KerasTensor, Node, layers_by_depth, nodes_between


class Functional(Model):
    """A model of all layers between inputs and outputs; `Model(inputs, outputs)` creates one.

    >>> import tapegrad
    >>> from tapegrad.keras.layers.core import Dense
    >>> from tapegrad.keras.layers.input_layer import Input
    >>> x = Input((3,))
    >>> model = Model(x, Dense(2)(x) + 1.0)
    >>> model(tapegrad.zeros([4, 3])).shape
    (4, 2)
    """

    def __init__(self, inputs: Any, outputs: Any, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.input, self.output = inputs, outputs
        self.inputs: list[KerasTensor] = nest.flatten(inputs)
        self.outputs: list[KerasTensor] = nest.flatten(outputs)
        if len({id(x) for x in self.inputs}) != len(self.inputs):
            raise ArgumentError(f"Inputs must be distinct. Got {[x.name for x in self.inputs]}.")
        self._nodes = nodes_between(self.inputs, self.outputs)
        called = {id(node.layer) for node in self._nodes}
        self._operations = [layer for layer in self.layers if id(layer) in called]
        self.built = True

    def _graph(self) -> Any:
        return self if type(self).__init__ is Functional.__init__ else None

    @property
    def layers(self) -> list[Any]:
        """The layers in the order of Keras: those farthest from an output first."""
        return layers_by_depth(self.inputs, self.outputs, self._nodes)

    def checkpointed(self) -> dict[str, Any]:
        """Return the attributes that a checkpoint searches, with the layers in call order."""
        called = list({id(node.layer): node.layer for node in self._nodes}.values())
        return {**super().checkpointed(), "_operations": called}

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs: dictionary keys, or the names of the layers that give them."""
        if isinstance(self.output, dict):
            return [str(key) for key in sorted(self.output)]
        names: list[str] = []
        for x in self.outputs:
            name = x.name if x.node is None else x.node.layer.name
            again = sum(name == other or other.startswith(f"{name}_call_") for other in names)
            names.append(f"{name}_call_{again + 1}" if again else name)
        return names

    @property
    def input_shape(self) -> Any:
        return nest.map_structure(lambda x: x.shape, self.input)

    @property
    def output_shape(self) -> Any:
        return nest.map_structure(lambda x: x.shape, _unpacked(self.output))

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        done = resumed_at(inputs)
        values = self._given(inputs) if done is None else self._values_at(done)
        masks: dict[int, Any] = dict.fromkeys(values)
        masks.update(zip(values, nest.flatten(mask) if mask else ()))
        if not hasattr(self, "_joined"):
            nodes = _fuse_norm_relu(self._nodes, self.outputs)
            object.__setattr__(self, "_joined", (nodes, _unused_after(nodes, self.outputs)))
        joined, unused = self._joined
        for node in joined if done is None else nodes_after(joined, values):
            _run(node, values, masks)
            for place in unused[node.number]:
                values.pop(place, None)
                masks.pop(place, None)
        outputs = nest.map_structure(lambda x: values[id(x)], _unpacked(self.output))
        return self._keep_masks(outputs, [masks.get(id(x)) for x in self.outputs])

    def without_text(self, x: Any) -> Any:
        """Return the results of the text layers in place of the input, or None."""
        if type(self).call is not Functional.call:
            return None
        return after_graph(
            self._nodes, self._places(), self._given(x), lambda node, values: _run(node, values, {})
        )

    def _places(self) -> list[KerasTensor]:
        made = [x for node in self._nodes for x in nest.flatten(node.outputs)]
        return [*self.inputs, *made]

    def _values_at(self, done: dict[int, Any]) -> dict[int, Any]:
        places = self._places()
        return {id(places[number]): value for number, value in done.items()}

    def _given(self, inputs: Any) -> dict[int, Any]:
        """Return the values of the inputs, given in their structure, as a list, or by name."""
        if isinstance(inputs, dict) and not isinstance(self.input, dict):
            missing = [x.name for x in self.inputs if x.name not in inputs]
            if missing:
                raise ArgumentError(
                    f"Model {self.name!r} takes inputs {[x.name for x in self.inputs]}. "
                    f"Missing: {missing}."
                )
            given = [inputs[x.name] for x in self.inputs]
        elif isinstance(inputs, dict) and self.input.keys() <= inputs.keys():
            given = nest.flatten({key: inputs[key] for key in self.input})  # others are not used
        else:
            given = nest.flatten(inputs)
        if len(given) != len(self.inputs):
            raise ArgumentError(
                f"Model {self.name!r} takes {len(self.inputs)} inputs, "
                f"{[x.name for x in self.inputs]}. Got {len(given)}."
            )
        return {
            id(place): fitted(value, place.shape, f"Model {self.name!r}", place.name)
            for place, value in zip(self.inputs, given)
        }

    def compute_output_shape(self, input_shape: Any) -> Any:
        batch = nest.flatten(input_shape)[0]
        if isinstance(self.output, KerasTensor):
            return (batch, *self.output.shape[1:])
        return nest.map_structure(lambda x: (batch, *x.shape[1:]), self.output)


def _unpacked(outputs: Any) -> Any:
    """Return the output of a list of one output, as calls of models in Keras do."""
    return outputs[0] if isinstance(outputs, list | tuple) and len(outputs) == 1 else outputs


def _fuse_norm_relu(nodes: Sequence[Node], outputs: Sequence[KerasTensor]) -> list[Node]:
    """Return the calls, with a normalization and a ReLU fused if nothing else uses the result."""
    uses = Counter([id(x) for node in nodes for x in node.inputs] + [id(x) for x in outputs])
    found: dict[int, Node] = {}
    for node in nodes:
        x = node.inputs[0]
        before = found.get(id(x.node))
        if before is not None and uses[id(x)] == 1 and can_join(before.layer, node.layer):
            both = Node(NormalizedRelu(before.layer, node.layer), before.args, before.kwargs)
            both.outputs = node.outputs
            del found[id(x.node)]
            found[id(node)] = both
        else:
            found[id(node)] = node
    return list(found.values())


def _unused_after(nodes: Sequence[Node], outputs: Sequence[KerasTensor]) -> dict[int, list[int]]:
    """Return for the number of each call the values that nothing needs after it."""
    last: dict[int, Node] = {}
    for node in nodes:
        last.update(dict.fromkeys(map(id, [*nest.flatten(node.outputs), *node.inputs]), node))
    needed = set(map(id, outputs))
    found: dict[int, list[int]] = {node.number: [] for node in nodes}
    for place, node in last.items():
        if place not in needed:
            found[node.number].append(place)
    return found


def _run(node: Node, values: dict[int, Any], masks: dict[int, Any]) -> None:
    """Call a layer on the values of its inputs, and store the values and masks of its outputs."""

    def value_of(x: Any) -> Any:
        return values[id(x)] if isinstance(x, KerasTensor) else x

    def mask_of(x: Any) -> Any:
        return masks.get(id(x)) if isinstance(x, KerasTensor) else None

    args = nest.map_structure(value_of, node.args)
    kwargs = {name: nest.map_structure(value_of, value) for name, value in node.kwargs.items()}
    first = node.args[0] if node.args else next(iter(node.kwargs.values()), None)
    mask = nest.map_structure(mask_of, first)
    known = any(m is not None for m in nest.flatten(mask))
    spec = call_spec(type(node.layer).call)
    if known and spec.takes_mask and "mask" not in kwargs:
        kwargs["mask"] = mask
    for name, value in {**dict(zip(spec.names, node.args)), **node.kwargs}.items():
        # Layers of several tensors take a mask for each: query_mask, value_mask.
        if f"{name}_mask" in spec.names and f"{name}_mask" not in kwargs:
            kwargs[f"{name}_mask"] = mask_of(value)
    outputs = node.layer(*args, **kwargs)
    # An input may also be an output of this layer, which runs for its other outputs: keep the
    # given value.
    for place, value in zip(nest.flatten(node.outputs), nest.flatten(outputs)):
        values.setdefault(id(place), value)
    made = node.layer.compute_mask(args[0] if args else None, mask if known else None)
    if made is not None:
        for place, one in zip(nest.flatten(node.outputs), nest.flatten(made)):
            masks.setdefault(id(place), one)


Model.functional = Functional
