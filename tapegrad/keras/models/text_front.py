"""Text layers of a model run on the host, before the step that is recorded.

`without_text` calls the layers that take text and returns their results in place of the input: a
dictionary, which `call` of the model recognizes by its keys. So the rest of the model is compiled
as usual. If that is not possible, e.g. for a subclass with its own `call`, the input stays as it is
and the step runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.values import nest
from tapegrad.core.values.strings import StringTensor
from tapegrad.keras.layers.calling import call_spec
from tapegrad.keras.symbolic import KerasTensor, Node

_KEY = "after text layers: "


def has_text(x: Any) -> bool:
    """Return whether a string tensor is among the inputs of a model.

    >>> import tapegrad
    >>> has_text({"a": tapegrad.constant("text")}), has_text(tapegrad.constant(1.0))
    (True, False)
    """
    return any([type(leaf) is StringTensor for leaf in nest.flatten(x)])


def resumed_at(inputs: Any) -> dict[int, Any] | None:
    """Return values by number if text layers have run already, else None.

    >>> resumed_at({"after text layers: 2": 1.0}), resumed_at({"a": 1.0})
    ({2: 1.0}, None)
    """
    if type(inputs) is not dict or not inputs:
        return None
    if not all([isinstance(key, str) and key.startswith(_KEY) for key in inputs]):
        return None
    return {int(key.removeprefix(_KEY)): value for key, value in inputs.items()}


def after_stack(layers: Sequence[Any], x: Any) -> dict[str, Any] | None:
    """Call the first layers of a stack while their input is text; number the next layer."""
    done = 0
    while type(x) is StringTensor:
        if done == len(layers) or not _is_fixed(layers[done]):
            return None
        x, done = layers[done](x), done + 1
    return {f"{_KEY}{done}": x}


def after_graph(
    nodes: Sequence[Node],
    places: Sequence[KerasTensor],
    values: dict[int, Any],
    run: Callable[[Node, dict[int, Any]], None],
) -> dict[str, Any] | None:
    """Call the layers of a graph that take text; number the results by their places."""
    for node in nodes:
        given = [values.get(id(x)) for x in node.inputs]
        if not any([type(value) is StringTensor for value in given]):
            continue
        if not _is_fixed(node.layer) or any([value is None for value in given]):
            return None
        run(node, values)
    found = {
        f"{_KEY}{number}": values[id(place)]
        for number, place in enumerate(places)
        if id(place) in values and type(values[id(place)]) is not StringTensor
    }
    return found or None


def _is_fixed(layer: Any) -> bool:
    """Whether training neither changes a layer nor its results."""
    inner = layer._inner_layers()
    if layer.trainable_variables or not all([_is_fixed(one) for one in inner]):
        return False
    return bool(inner) or not call_spec(type(layer).call).takes_training


def nodes_after(nodes: Sequence[Node], known: dict[int, Any]) -> list[Node]:
    """Return the calls that remain when some values are known: those that take no text."""
    available = set(known)
    rest = []
    for node in nodes:
        outputs = [id(x) for x in nest.flatten(node.outputs)]
        is_ready = all([id(x) in available for x in node.inputs])
        if is_ready and not available.issuperset(outputs):
            rest.append(node)
            available.update(outputs)
    return rest
