"""Fused loops in plain Python: every formula is computed one element after the other."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.core.trace.expression import Expression
from tapegrad.core.trace.loop import JoinedLoops, Loop, LoopOutput
from tapegrad_strict.namespace import pack, unpack

_NAMED_OTHERWISE: dict[str, Callable[..., Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "complex": lambda x, y: (x + 1j * y).astype(np.result_type(x.dtype, np.complex64)),
    "erf": lambda x: x.dtype.type(math.erf(x)),
    "erfc": lambda x: x.dtype.type(math.erfc(x)),
    "ndtr": lambda x: x.dtype.type(0.5 * math.erfc(-x / math.sqrt(2))),
    "float_exponent": lambda x: np.frexp(x)[1],
    "pow": np.power,
    "round": np.rint,
    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x),
}
_COMBINE = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


class PythonLoopCompiler:
    """Returns a Python function per loop. There is nothing to compile."""

    dtypes = None
    complex_primitives = None
    widened = frozenset[str]()
    joins = True
    definitions = frozenset({
        *("euclidean_norm", "log_softmax", "log_softmax_gradient", "logsumexp", "normalize"),
        *("normalize_gradient", "one_hot", "scatter_along_axis", "sgd_rows_update", "softmax"),
        *("softmax_gradient", "sum_of_squares", "ties"),
        *("fourier", "inverse_real_fourier", "real_fourier", "weigh_bins"),
    })  # fmt: skip
    windows: frozenset[str] = frozenset()

    def takes_stages(self, rows: int, length: int, stride: int = 1) -> bool:
        return stride == 1

    def recomputes(self, weight: int, nbytes: int) -> bool:
        return weight <= 2 * nbytes

    def gathers(self, nbytes: int) -> bool:
        return True

    def adds_rows(self, dtype: Any, entries: int, size: int) -> bool:
        return False

    def sorts_rows(self, entries: int, row: int, size: int) -> bool:
        return False

    def compile(self, loops: Sequence[Loop | JoinedLoops]) -> list[Callable[..., Any] | None]:
        return [PythonLoop(loop) for loop in loops]

    def result_buffer(self, shape: tuple[int, ...], dtype: Any) -> None:
        """Results are always new arrays."""

    def source(self, run: Callable[..., Any]) -> None:
        """There is no source text."""


class PythonLoop:
    """One loop, or several loops of one formula."""

    def __init__(self, loop: Loop | JoinedLoops) -> None:
        self._loops = loop.loops if isinstance(loop, JoinedLoops) else (loop,)

    def __call__(self, arrays: Sequence[Any], targets: Sequence[Any]) -> tuple[Any, ...]:
        left, results = [np.asarray(unpack(array)) for array in arrays], []
        for loop in self._loops:
            results += run(loop, left[: len(loop.inputs)])
            left = left[len(loop.inputs) :]
        written = [pack(result) for result in results]
        for place, target in enumerate(targets):
            if target is not None:
                target[...] = written[place]
                written[place] = target
        return tuple(written)


def run(loop: Loop, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute the outputs of a loop."""
    inputs = [
        np.broadcast_to(array.reshape(read.seen), loop.shape)
        for array, read in zip(arrays, loop.inputs, strict=True)
    ]
    for stage in loop.stages:
        rows = np.reshape(_output(stage, loop.shape, inputs), _kept(loop.shape, stage.axes))
        inputs.append(np.broadcast_to(rows, loop.shape))
    return [_output(output, loop.shape, inputs) for output in loop.outputs]


def _kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with a length of 1 along some axes."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def _output(output: LoopOutput, shape: tuple[int, ...], inputs: Sequence[np.ndarray]) -> Any:
    dtype = output.expression.dtype
    if output.combine is None and output.axes:  # one value per row, at its first element
        shape = _kept(shape, output.axes)
    values = np.empty(shape, dtype)
    with np.errstate(all="ignore"):
        for index in np.ndindex(*shape):
            values[index] = evaluate(output.expression, [array[index] for array in inputs])
        if output.combine is None:
            return values.reshape(output.shape)
        combined = _COMBINE[output.combine].reduce(values, axis=output.axes, dtype=dtype)
        result = np.empty(np.shape(combined), output.dtype)
        for index in np.ndindex(*result.shape):
            value = np.asarray(combined)[index]
            result[index] = value if output.finish is None else evaluate(output.finish, [value])
    return result.reshape(output.shape)


def evaluate(formula: Expression, inputs: Sequence[Any]) -> Any:
    """Return the value of a formula of one element; shared parts are computed once."""

    @functools.cache
    def value(node: Expression) -> Any:
        if node.name == "input":
            return inputs[node.value]
        if node.name == "constant":
            return node.value if node.dtype is None else node.dtype.type(node.value)
        operands = [value(operand) for operand in node.operands]
        if node.name == "astype":
            return np.asarray(operands[0]).astype(node.dtype or node.weak)[()]
        return _function(node.name)(*operands)

    return value(formula)


def _function(name: str) -> Callable[..., Any]:
    found = _NAMED_OTHERWISE.get(name) or getattr(np, name, None)
    return found or PRIMITIVES[name].kernel(np.ndarray)
