"""Where the variables of a model are in the files of Keras: a path of attributes for each layer.

A layer is found by the attribute that holds it. Layers in a list or dict, and those of a Sequential
or functional model, are named by their class and counted: "layers/dense_1".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tapegrad.core.values.variable import Variable
from tapegrad.keras.layers.attribute_tracking import ASIDE
from tapegrad.keras.layers.layer import Layer
from tapegrad.keras.naming import snake_case
from tapegrad.keras.saving.hdf5 import Group

_CLASSES = {"GroupQueryAttention": "grouped_query_attention"}
_PRIVATE_PARTS = ("GroupQueryAttention",)
"""Layers whose parts have names that start with an underscore in Keras."""
_REPEATED = {"SpectralNormalization": lambda layer: [layer.layer.kernel]}
"""Variables of an inner layer that Keras also writes for the outer one."""
_OF_MODELS = frozenset({"_network", "_stack", "_start", "_outputs", "_operations", "_nodes",
                        "inputs", "outputs", "optimizer"})  # fmt: skip


def layer_groups(model: Any) -> dict[str, Group]:
    """Return the own variables of each layer of a model by its path in the files of Keras.

    >>> from tapegrad.keras import Sequential, layers
    >>> model = Sequential([layers.Input((3,)), layers.Dense(2), layers.Dense(1)])
    >>> [(path, len(group.variables)) for path, group in layer_groups(model).items()]
    [('', 0), ('layers/dense', 2), ('layers/dense_1', 2)]
    """
    found = layers_by_path(model)
    return {path: Group(layer.name, _own(layer)) for path, layer in found.items()}


def layers_by_path(model: Any) -> dict[str, Layer]:
    """Return a model and the layers in it by their path in the files of Keras."""
    found: dict[str, Layer] = {}
    _visit(model, "", found, set())
    return found


def named_by_path(groups: Mapping[str, Group]) -> dict[str, Variable]:
    """Return the variables of groups by the names of their arrays: "layers/dense/vars/0"."""
    return {
        f"{path}/vars/{number}".lstrip("/"): variable
        for path, group in groups.items()
        for number, variable in enumerate(group.variables)
    }


def _visit(layer: Any, path: str, found: dict[str, Layer], seen: set[int]) -> None:
    if id(layer) in seen:
        return
    seen.add(id(layer))
    found[path] = layer
    prefix = f"{path}/" if path else ""
    for attribute, value in _attributes(layer):
        if isinstance(value, Layer):
            _visit(value, prefix + attribute, found, seen)
        elif isinstance(value, list | tuple | dict):
            _visit_all(value, prefix + attribute, found, seen)


def _visit_all(container: Any, path: str, found: dict[str, Layer], seen: set[int]) -> None:
    used: Counter[str] = Counter()
    for value in container.values() if isinstance(container, dict) else container:
        if isinstance(value, Layer):
            kind = type(value).__name__
            name = _CLASSES.get(kind) or snake_case(kind)
        elif isinstance(value, list | tuple | dict):
            name = "container"
        else:
            continue
        place = f"{path}/{name}_{used[name]}" if used[name] else f"{path}/{name}"
        used[name] += 1
        (_visit if isinstance(value, Layer) else _visit_all)(value, place, found, seen)


def _own(layer: Any) -> list[Variable]:
    """Return the variables of a layer itself: those that are trained come first."""
    inner = {v.number for one in layer._inner_layers() for v in one.variables}
    own = {v.number: v for v in layer._own_variables() if v.number not in inner}
    frozen = getattr(layer, "_frozen", ())
    trained = [v for v in own.values() if v.trainable or v.number in frozen]
    repeated = _REPEATED.get(type(layer).__name__, lambda _: [])(layer)
    return [*repeated, *trained, *[v for v in own.values() if v not in _Numbers(trained)]]


class _Numbers:
    """Tells by its number whether a variable is in a list; == would compare the values."""

    def __init__(self, variables: Iterable[Variable]) -> None:
        self._known = {v.number for v in variables}

    def __contains__(self, variable: Variable) -> bool:
        return variable.number in self._known


def _attributes(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a layer in the order of Keras: private ones are last."""
    kind = type(layer)
    is_graph = getattr(layer, "_network", None) is not None or hasattr(kind, "_build_on_input")
    values = dict(vars(layer))
    if hasattr(kind, "get_compile_config"):
        values = {name: v for name, v in values.items() if name not in _OF_MODELS}
        values["layers"] = layer.layers
        if is_graph or (kind.functional is not None and isinstance(layer, kind.functional)):
            yield "layers", values.pop("layers")
    private = "_" if kind.__name__ in _PRIVATE_PARTS else ""
    for name in sorted(values, key=lambda name: f"~{name}" if name.startswith("_") else name):
        if name not in ASIDE:
            yield private + name, values[name]
