"""Write the graph of a recorded program as JSON values; arrays are kept apart.

A call is the name of a primitive, its operands, its params and its results. Nothing in a file is
code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tapegrad.core.values import host
from tapegrad.core.values.dtypes import DType
from tapegrad.errors import ArgumentError
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.loops.body import Body
from tapegrad.program.saved.effects import effect_as_data
from tapegrad.program.saved.extensions import encoded_extension, is_extension

_LARGEST_RANGE = 2**24


class Encoder:
    """Encodes graphs; `arrays` collects the constants by names that their content determines."""

    def __init__(self, names: Mapping[int, str], whose: str) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.used: set[str] = set()
        """The names of the variables that the programs read or write."""
        self.lengths: list[int] = []
        """The lengths of the variables' axes, which an unknown length may have to be."""
        self._names = names
        self._whose = whose

    def graph(self, graph: Graph) -> dict[str, Any]:
        """Return a graph as JSON values."""
        return {
            "inputs": [self._value(value) for value in graph.inputs],
            "variables": {
                self._variable(number): self._value(value)
                for number, value in graph.variables.items()
            },
            "constants": [[n, self.constant(array)] for n, array in graph.constants.items()],
            "calls": [self._call(call) for call in graph.calls],
            "outputs": [value.number for value in graph.outputs],
            "written": {self._variable(n): value.number for n, value in graph.written.items()},
        }

    def _variable(self, number: int) -> str:
        if number not in self._names:
            raise ArgumentError(
                f"{self._whose} uses a variable that is not an attribute of the object that is "
                "saved. Make it an attribute."
            )
        name = self._names[number]
        self.used.add(name)
        return name

    def _value(self, value: Value) -> list[Any]:
        return [value.number, list(value.shape), value.dtype.name]

    def _call(self, call: Call) -> list[Any]:
        name, given = call.primitive.name, call.params
        if call.primitive.effects:
            try:
                name, given = effect_as_data(given.get("action"))
            except TypeError:
                self._refuse(call, "has an effect in Python")
        try:
            operands = [self.encoded(operand) for operand in call.operands]
            params = {name: self.encoded(value) for name, value in given.items()}
        except _Unknown as error:
            self._refuse(call, f"needs a {error.args[0]}, which is not data")
        results = [self._value(value) for value in call.results]
        return [name, operands, params, results, call.aliases]

    def _refuse(self, call: Call, why: str) -> Any:
        place = f" at {call.site}" if call.site else ""
        raise ArgumentError(
            f"{self._whose} cannot be saved: {call.function or call.primitive.name}{place} {why}. "
            "Leave it out of the function that is saved."
        )

    def constant(self, array: Any) -> Any:
        value = array
        if not isinstance(array, np.ndarray | np.generic):
            value = host.fetch(array, None, "saved_model.save()")
        value = np.asarray(value)
        first = value.reshape(-1)[0] if value.size else value.dtype.type(0)
        plain = value.dtype.kind in "biuf" and value.dtype.name != "bfloat16"
        if plain and (value.size == 0 or (value.size > 1 and bool((value == first).all()))):
            return {"fill": [first.item(), value.dtype.name, list(value.shape)]}
        may_count = plain and value.ndim == 1 and 1 < value.size < _LARGEST_RANGE
        if may_count and np.array_equal(value, np.arange(value.size) + first):
            return {"range": [first.item(), value.dtype.name, value.size]}
        return {"array": self.kept(value)}

    def kept(self, value: np.ndarray) -> str:
        """Keep an array, and return its name."""
        content = np.ascontiguousarray(value)
        digest = hashlib.sha256(content.tobytes())
        digest.update(f"{value.dtype.name}{value.shape}".encode())
        name = f"constants/{digest.hexdigest()[:32]}"
        self.arrays[name] = value
        return name

    def structure(self, value: Any) -> Any:
        """Return arguments or results as JSON values."""
        try:
            return self.encoded(value)
        except _Unknown as error:
            raise ArgumentError(
                f"{self._whose} cannot be saved: a function takes or returns a {error.args[0]}, "
                "which is not data."
            ) from None

    def encoded(self, value: Any) -> Any:
        """Return an operand or a parameter as JSON values."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int) and not isinstance(value, np.generic):
            return int(value)
        if isinstance(value, float) and not isinstance(value, np.generic):
            return float(value)
        if isinstance(value, Value):
            return {"value": value.number}
        if isinstance(value, tuple | list):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [self.encoded(one) for one in value]}
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {"dict": {key: self.encoded(one) for key, one in value.items()}}
        return self._other(value)

    def _other(self, value: Any) -> Any:
        if isinstance(value, slice):
            return {"slice": [self.encoded(v) for v in (value.start, value.stop, value.step)]}
        if value is ...:
            return {"ellipsis": None}
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, np.dtype):
            return {"dtype": value.name}
        if isinstance(value, DType):
            return {"DType": value.name}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"scalar_type": np.dtype(value).name}
        if isinstance(value, np.ndarray | np.generic):
            return {"array": self.kept(np.asarray(value))}
        if isinstance(value, Body):
            layout = value.layout
            sizes = [layout.carried, layout.entries, layout.shared, layout.made]
            return {"body": {"graph": self.graph(value.recorded), "layout": sizes}}
        if is_extension(value):
            return encoded_extension(value, self.encoded)
        raise _Unknown(type(value).__name__)


class _Unknown(Exception):  # noqa: N818  # it never leaves the module
    """A value that JSON cannot hold."""
