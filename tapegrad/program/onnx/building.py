"""Build an ONNX model from nodes as plain values; lengths are computed from the inputs' shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import combinations
from math import lcm
from typing import Any

import numpy as np

from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.errors import ArgumentError, BackendUnavailableError

LOWEST_OPSET, HIGHEST_OPSET = 18, 22
_IR_VERSION = 10
"""The version of the file format that runtimes since 2024 read."""


def checked_onnx(opset: int) -> Any:
    """Return the module `onnx`, after a check of the version of the operators."""
    if opset not in range(LOWEST_OPSET, HIGHEST_OPSET + 1):
        raise ArgumentError(f"opset must be from {LOWEST_OPSET} to {HIGHEST_OPSET}. Got {opset!r}.")
    try:
        return import_module("onnx")
    except ImportError as error:
        raise BackendUnavailableError(
            "Exporting to ONNX needs the package onnx: pip install 'tapegrad[onnx]'."
        ) from error


class Builder:
    """Collects the nodes and constants of one model."""

    def __init__(
        self, symbols: Sequence[Sequence[Any]], arrays: Mapping[str, Any], opset: int
    ) -> None:
        self._onnx = checked_onnx(opset)
        self._symbols, self._arrays, self._opset = symbols, arrays, opset
        self._order = sorted({n for row in symbols for n in row if isinstance(n, str)})
        self._nodes: list[Any] = []
        self._initializers: dict[Any, Any] = {}
        self._made: dict[Any, str] = {}
        """Names of values that were computed for lengths and constants."""
        self._inputs: list[str] = []
        self._taken: set[str] = set()

    def model(self, tree: Any, name: str) -> Any:
        """Return the model of a description for all lengths."""
        helper = self._onnx.helper
        self._inputs = [row[0] for row in tree["inputs"]]
        self._taken.update(self._inputs, (row[0] for row in tree["outputs"]))
        for _, _, _, made in tree["nodes"]:
            self._taken.update(made)
        for kind, inputs, attributes, made in tree["nodes"]:
            given = [self._input(one) for one in inputs]
            plain = {key: self._attribute(kind, one) for key, one in attributes.items()}
            self._nodes.append(helper.make_node(kind, given, made, **plain))
        inputs = [
            helper.make_tensor_value_info(row[0], self._dtype(row[2]), list(dims))
            for row, dims in zip(tree["inputs"], self._symbols, strict=True)
        ]
        outputs = [
            helper.make_tensor_value_info(row[0], self._dtype(row[2]), self._dims(row[1]))
            for row in tree["outputs"]
        ]
        graph = helper.make_graph(
            self._nodes, name, inputs, outputs, [*self._initializers.values()]
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self._opset)],
            ir_version=_IR_VERSION,
            producer_name="tapegrad",
        )

    def _dims(self, shape: Sequence[Any]) -> list[Any]:
        """Return an output's shape: a length that is an input's has its name, others have none."""
        found: list[Any] = []
        for size in shape:
            if isinstance(size, int):
                found.append(size)
                continue
            terms = [k for k, term in enumerate(size["size"]) if term[0]]
            is_symbol = len(terms) == 1 and 1 <= terms[0] <= len(self._order)
            is_symbol = is_symbol and size["size"][terms[0]] == [1, 1]
            found.append(self._order[terms[0] - 1] if is_symbol else None)
        return found

    def _dtype(self, name: str) -> int:
        dtype = numpy_dtype(name)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _attribute(self, kind: str, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        ((form, content),) = value.items()
        if form == "dtype":
            return self._dtype(content)
        whole = content if isinstance(content, list) else [content]
        if form in ("size", "ratio") or any(isinstance(one, dict) for one in whole):
            raise ArgumentError(
                f"The operator {kind} of ONNX needs lengths that are known when the model is "
                "exported. Export the function for fixed shapes."
            )
        return content

    # Inputs of nodes

    def _input(self, given: Any) -> str:
        if isinstance(given, str):
            return given
        key = repr(given)
        if key not in self._made:
            ((form, content),) = given.items()
            self._made[key] = getattr(self, f"_of_{form}")(content)
        return self._made[key]

    def _of_ints(self, values: Sequence[Any]) -> str:
        if all(isinstance(value, int) for value in values):
            return self._initializer(np.array(values, np.int64), "shape")
        parts = [
            self._of_ints([value]) if isinstance(value, int) else self._size(value["size"])
            for value in values
        ]
        return parts[0] if len(parts) == 1 else self._op("Concat", *parts, axis=0)

    def _of_number(self, content: Any) -> str:
        value, name = content
        if not isinstance(value, dict):
            return self._initializer(np.asarray(value, numpy_dtype(name)), "number")
        ((form, terms),) = value.items()
        scalar = self._op("Squeeze", self._size(terms), self._of_ints([0]))
        scalar = self._op("Cast", scalar, to=self._dtype(name))
        return scalar if form == "size" else self._op("Reciprocal", scalar)

    def _of_special(self, content: Any) -> str:
        value, name = content
        return self._initializer(np.asarray(float(value), numpy_dtype(name)), "number")

    def _of_constant(self, content: Any) -> str:
        ((form, rest),) = content.items()
        if form == "array":
            return self._initializer(np.asarray(self._arrays[rest]), rest)
        value, name, shape = rest
        if form == "fill":
            return self._op("Expand", self._of_number([value, name]), self._of_ints(shape))
        ends = [self._of_number([one, "int64"]) for one in (0, shape, 1)]
        counted = self._op("Cast", self._op("Range", *ends), to=self._dtype(name))
        return self._op("Add", counted, self._of_number([value, name]))

    # Lengths

    def _size(self, coefficients: Sequence[Sequence[int]]) -> str:
        """Return a vector with one length: a sum of products of the symbols' lengths."""
        key = f"size {coefficients}"
        if key in self._made:
            return self._made[key]
        common = lcm(*(below for _, below in coefficients))
        products = [
            chosen
            for count in range(len(self._order) + 1)
            for chosen in combinations(self._order, count)
        ]
        total: str | None = None
        for (above, below), chosen in zip(coefficients, products, strict=True):
            if not above:
                continue
            term: str | None = None
            for symbol in chosen:
                length = self._length(symbol)
                term = length if term is None else self._op("Mul", term, length)
            factor = above * (common // below)
            if term is None:
                term = self._of_ints([factor])
            elif factor != 1:
                term = self._op("Mul", term, self._of_ints([factor]))
            total = term if total is None else self._op("Add", total, term)
        assert total is not None
        if common != 1:
            total = self._op("Div", total, self._of_ints([common]))
        self._made[key] = total
        return total

    def _length(self, symbol: str) -> str:
        """Return a vector with the length of an open axis, read from the first input with it."""
        key = f"length {symbol}"
        if key not in self._made:
            position, row = next((k, row) for k, row in enumerate(self._symbols) if symbol in row)
            axis = list(row).index(symbol)
            source = self._inputs[position]
            self._made[key] = self._op("Shape", source, start=axis, end=axis + 1)
        return self._made[key]

    def _op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = self._unused(kind.lower())
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _initializer(self, array: np.ndarray, name: str) -> str:
        key = (array.dtype.name, array.shape, array.tobytes()) if array.size < 64 else name
        if key not in self._initializers:
            made = self._onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(
                array.shape), self._unused(name))  # fmt: skip
            self._initializers[key] = made
        return str(self._initializers[key].name)

    def _unused(self, name: str) -> str:
        found, count = name, 1
        while found in self._taken:
            found, count = f"{name}_{count}", count + 1
        self._taken.add(found)
        return found
