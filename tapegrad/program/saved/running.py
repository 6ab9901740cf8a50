"""Run a program that was read from a file, call by call; `function` compiles it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.device import current_device
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.host import array_type
from tapegrad.core.values.sizes import computed
from tapegrad.core.values.variable import Variable
from tapegrad.errors import FileFormatError
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.loops.body import Body, Layout
from tapegrad.program.record.effects import act_p
from tapegrad.program.record.signature import TensorSpec
from tapegrad.program.saved.effects import EFFECTS
from tapegrad.program.saved.sizes import particular

_MOST_ELEMENTS = 2**31


class SavedGraph:
    """The description of a program for lengths that are known at the call."""

    def __init__(
        self, tree: Any, arrays: Mapping[str, Any], variables: Mapping[str, Variable]
    ) -> None:
        self._tree, self._arrays, self._variables = tree, arrays, variables
        self._instances: dict[tuple[int, ...], Any] = {}
        for name, *_ in tree["calls"]:
            if name not in EFFECTS:
                _operation(name)

    def output_specs(self) -> list[TensorSpec]:
        """Return the shapes and dtypes of the outputs; lengths that depend on a call are None."""
        tree = self._tree
        made = [value for _, _, _, results, _ in tree["calls"] for value in results]
        known = {
            number: TensorSpec([n if type(n) is int else None for n in shape], dtype)
            for number, shape, dtype in [*tree["inputs"], *tree["variables"].values(), *made]
        }
        for number, spec in tree["constants"]:
            if number in tree["outputs"]:
                array = constant_of(spec, self._arrays)
                known[number] = TensorSpec(array.shape, array.dtype)
        return [known[number] for number in tree["outputs"]]

    def run(self, tensors: Sequence[Any], lengths: tuple[int, ...]) -> list[Any]:
        """Return the outputs for these inputs, and assign to the variables that it changes."""
        if lengths not in self._instances:
            rules = self._tree.get("rules", ())
            graph = {key: part for key, part in self._tree.items() if key != "rules"}
            self._instances[lengths] = particular(graph, lengths, rules)
        tree = self._instances[lengths]
        known = {value[0]: tensor for value, tensor in zip(tree["inputs"], tensors, strict=True)}
        for name, value in tree["variables"].items():
            known[value[0]] = self._variables[name].read_value()
        for number, spec in tree["constants"]:
            known[number] = to_tensor(constant_of(spec, self._arrays))
        decode = _Decoder(self._arrays, known, _place_of([*tensors, *known.values()]))
        for name, operands, params, results, _ in tree["calls"]:
            given = [decode(operand) for operand in operands]
            options = {key: decode(one) for key, one in params.items()}
            primitive, options = _call_of(name, options, len(given))
            found = primitive(*given, **options)
            made = found if isinstance(found, tuple | list) else (found,)
            known.update((value[0], one) for value, one in zip(results, made, strict=True))
        outputs = [known[number] for number in tree["outputs"]]
        for name, number in tree["written"].items():
            self._variables[name].assign(known[number], read_value=False)
        return outputs


def _operation(name: Any) -> Primitive:
    if not isinstance(name, str) or name not in PRIMITIVES or PRIMITIVES[name].effects:
        raise FileFormatError(f"There is no operation {name!r:.60} in this version.")
    return PRIMITIVES[name]


def _call_of(name: str, params: dict[str, Any], operands: int) -> tuple[Primitive, dict[str, Any]]:
    """Return the primitive of a call in a file, and its params."""
    if name not in EFFECTS:
        return _operation(name), params
    # The first operand is the condition under which the effect happens.
    return act_p, {"action": EFFECTS[name](params, operands - 1)}


def constant_of(spec: Any, arrays: Mapping[str, Any]) -> np.ndarray:
    """Return the array of a constant.

    >>> constant_of({"range": [2, "int32", 3]}, {}).tolist()
    [2, 3, 4]
    """
    if "array" in spec:
        return np.asarray(arrays[spec["array"]])
    kind = "fill" if "fill" in spec else "range"
    first, dtype, shape = spec[kind]
    sizes = shape if isinstance(shape, list) else [shape]
    are_counts = all(type(n) is int and n >= 0 for n in sizes)
    if not are_counts or prod(sizes) > _MOST_ELEMENTS:
        raise FileFormatError(f"A constant of the program has the shape {sizes!r:.99}.")
    if kind == "fill":
        return np.full(sizes, first, as_dtype(dtype).dtype)
    return np.asarray(np.arange(sizes[0]) + first, as_dtype(dtype).dtype)


def _place_of(tensors: Sequence[Any]) -> tuple[type, str]:
    """Return the type and the device of the arrays with which a program runs."""
    for tensor in tensors:
        array = tensor.array
        while getattr(type(array), "is_recorded", False):
            array = array.array
        return type(array), backend_of(array).device_of(array)
    # A program without inputs computes with its constants, on the device of new tensors.
    return array_type(), current_device()


class _Decoder:
    """Turns JSON values into operands and params."""

    def __init__(
        self, arrays: Mapping[str, Any], known: Mapping[int, Any], place: tuple[type, str]
    ) -> None:
        self._arrays, self._known = arrays, known
        self._array_type, self._device = place

    def __call__(self, tree: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        ((kind, content),) = tree.items()
        if kind == "value":
            return self._known[content]
        if kind in ("tuple", "list"):
            return (tuple if kind == "tuple" else list)(self(one) for one in content)
        if kind == "dict":
            return {key: self(one) for key, one in content.items()}
        if kind == "slice":
            return slice(*computed(_in_range, *[self(one) for one in content]))
        if kind == "body":
            graph = self._graph(content["graph"])
            return Body(graph, Layout(*[int(n) for n in content["layout"]]))
        if kind == "array":
            return self._arrays[content]
        return _plain(kind, content)

    def _graph(self, tree: Any) -> Graph:
        values: dict[int, Value] = {}
        inner = _Decoder(self._arrays, values, (self._array_type, self._device))

        def value(spec: Any) -> Value:
            number, shape, dtype = spec
            made = Value(int(number), tuple(shape), np.dtype(as_dtype(dtype).dtype), self._device)
            return values.setdefault(made.number, made)

        if tree["variables"] or tree["written"]:
            raise FileFormatError("A loop of the program creates variables.")
        inputs = tuple([value(spec) for spec in tree["inputs"]])
        constants = {}
        for number, spec in tree["constants"]:
            array = to_tensor(constant_of(spec, self._arrays)).array
            constants[number] = array
            values[number] = Value(number, tuple(array.shape), array.dtype, self._device)
        calls = []
        for name, operands, params, results, aliases in tree["calls"]:
            given = tuple([inner(one) for one in operands])
            kept = {key: inner(one) for key, one in params.items()}
            primitive, kept = _call_of(name, kept, len(given))
            made = tuple([value(spec) for spec in results])
            rest = self._array_type, aliases is True
            calls.append(Call(primitive, given, kept, made, *rest))
        outputs = tuple([values[number] for number in tree["outputs"]])
        return Graph(inputs, {}, constants, tuple(calls), outputs)


def _in_range(start: Any, stop: Any, step: Any) -> tuple[Any, Any, Any]:
    """Return the parts of a recorded slice, whose bounds are counted from the start of the axis.

    A negative one comes from an axis that is shorter than the slice: `x[-8:]` of 5 elements.
    """
    if start is not None and start < 0:
        start, stop = (0, stop) if step is None or step > 0 else (0, 0)
    return start, None if stop is None else max(stop, 0), step


def _plain(kind: str, content: Any) -> Any:
    if kind == "ellipsis":
        return ...
    if kind == "complex":
        return complex(*content)
    if kind == "dtype":
        return np.dtype(as_dtype(content).dtype)
    if kind == "DType":
        return as_dtype(content)
    if kind == "scalar_type":
        return np.dtype(content).type
    raise FileFormatError(f"The program holds a value of the kind {kind!r:.60}.")
