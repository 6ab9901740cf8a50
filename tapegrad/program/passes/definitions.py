"""Replace named functions by their definitions, which loops compute with their neighbours.

A softmax, for example, is a maximum, exponentials, a sum and a division, and one_hot compares
indices with positions. The definition is the generic kernel of the primitive, run on symbols that
note the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.core.trace.expression import Expression, UntraceableError, array_input, traced
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value
from tapegrad.program.graph.iteration_spaces import rows_of

DTYPES = ("float32", "float64")
HALF = ("bfloat16", "float16")
"""The dtypes of reductions that are replaced.

Kernels of named functions compute half precision in single precision and round once. So do their
definitions, which begin and end with casts.
"""

_TRANSFORMS = ("fourier", "inverse_real_fourier", "real_fourier", "weigh_bins")
BY_ELEMENT = frozenset({
    *("offset_index", "one_hot", "scatter_along_axis", "sgd_rows_update", *_TRANSFORMS),
})  # fmt: skip
"""Functions whose definitions reduce no rows."""

SHORT = frozenset({"euclidean_norm", "sum_of_squares", "ties"})
"""Functions with one reduction, which joins the loop that makes its operand along any axes."""

MOST_PER_ROW = 4
"""An embedding is updated as a whole if it has at most so many rows per row of its gradient."""


def with_definitions(graph: Graph, loops: LoopCompiler) -> Graph:
    """Replace the calls of `loops.definitions` that become parts of loops."""
    names = loops.definitions
    if not any(call.primitive.name in names for call in graph.calls):
        return graph
    numbers = unused_numbers(graph)
    by_loops: set[int] = set()
    calls: list[Call] = []
    positions: Positions = {}
    for call in graph.calls:
        if call.primitive.by_element:
            by_loops.update(value.number for value in call.results)
        is_replaced = (
            call.primitive.name in names and not call.region and _is_worth_it(call, loops, by_loops)
        )
        noting = _Noting(call, numbers, positions)
        defined = noting.calls_of_definition() if is_replaced else None
        calls.extend(defined or (call,))
        for one in defined or ():
            if one.primitive.name == "positions_like":
                positions[_key_of_positions(one.params, noting.device)] = one.results[0]
    return replace(graph, calls=tuple(calls))


Positions = dict[tuple[int, str, str], Value]
"""Vectors of positions that earlier definitions made, which later ones read."""


def _key_of_positions(params: Mapping[str, Any], device: str) -> tuple[int, str, str]:
    return params["length"], params["dtype"].name, device


def _is_worth_it(call: Call, loops: LoopCompiler, by_loops: Collection[int]) -> bool:
    """Whether a call becomes a part of loops, which make the values in `by_loops`."""
    dtypes = {value.dtype.name for value in (*call.reads, *call.results)}
    if loops.dtypes is not None and dtypes.difference(loops.dtypes):
        return False
    if call.primitive.name in BY_ELEMENT:
        return bool(call.results[0].size)
    if dtypes.difference((*DTYPES, *HALF)) or 0 in call.reads[0].shape:
        return False
    if call.primitive.name in SHORT and call.reads[0].number in by_loops:
        return bool(_axes_of(call, len(call.reads[0].shape)))
    return has_rows(call, loops)


def has_rows(call: Call, loops: LoopCompiler) -> bool:
    """Whether a call reduces neighbouring axes that a loop may pass over several times."""
    shape = call.reads[0].shape
    found = rows_of(shape, _axes_of(call, len(shape)))
    return found is not None and loops.takes_stages(*found)


def _axes_of(call: Call, rank: int) -> tuple[int, ...]:
    axes = call.params.get("axis", call.params.get("axes"))
    axes = (axes,) if isinstance(axes, int) else axes or ()
    return tuple(sorted(axis % rank for axis in axes))


def _scatter_one(xp: Any, t: Any, indices: Any, *, axis: int, length: int, unique: bool) -> Any:
    """Scatter one element along an axis, by comparing its index with all positions."""
    if indices.shape[axis] != 1:
        raise UntraceableError("Several elements are added.")
    shape = [1] * t.ndim
    shape[axis] = length
    positions = xp.reshape(xp.arange(length, dtype=indices.dtype), tuple(shape))
    hits = xp.where(indices < 0, indices + length, indices) == positions
    return xp.where(hits, t, xp.full((), 0, dtype=t.dtype))


def _sgd_of_many_rows(xp: Any, p: Any, rows: Any, indices: Any, rate: Any) -> Any:
    """Add up the rows of an embedding's gradient and update all of the embedding."""
    if p.shape[0] > MOST_PER_ROW * indices.shape[0]:
        raise UntraceableError("Few rows are updated.")
    total = xp.summed_rows(rows, indices, p.shape[0])
    return xp.by_element("sgd_update", p, total, rate)


def _scaled_transform(
    xp: Any, x: Any, unscaled: str, lengths: Sequence[int], params: dict[str, Any]
) -> Any:
    """Return the transform without a normalization, times the factor of the normalization."""
    norm, count = params["norm"], prod(lengths)
    if norm == unscaled or not count:
        raise UntraceableError("There is no factor.")
    factor = count**-0.5 if norm == "ortho" else 1 / count
    return xp.transform(x, {**params, "norm": unscaled}) * factor


def _fourier(xp: Any, x: Any, **params: Any) -> Any:
    lengths = [x.shape[axis] for axis in params["axes"]]
    unscaled = "forward" if params["inverse"] else "backward"
    return _scaled_transform(xp, x, unscaled, lengths, params)


def _real_fourier(xp: Any, x: Any, **params: Any) -> Any:
    return _scaled_transform(xp, x, "backward", (x.shape[params["axis"]],), params)


def _inverse_real_fourier(xp: Any, x: Any, **params: Any) -> Any:
    return _scaled_transform(xp, x, "forward", (params["n"],), params)


def _weigh_bins(xp: Any, x: Any, *, axis: int, n: int, weight: float) -> Any:
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    positions = xp.reshape(xp.arange(x.shape[axis], dtype=np.int64), tuple(shape))
    is_single = positions == 0
    if n % 2 == 0:
        is_single = is_single | (positions == n // 2)
    return xp.where(is_single, x, x * weight)


OTHERWISE: dict[str, Callable[..., Any]] = {
    "fourier": _fourier,
    "inverse_real_fourier": _inverse_real_fourier,
    "real_fourier": _real_fourier,
    "scatter_along_axis": _scatter_one,
    "sgd_rows_update": _sgd_of_many_rows,
    "weigh_bins": _weigh_bins,
}
"""Definitions that are not the generic kernel."""


class _Symbol:
    """A value of the graph with the operators of an array."""

    device = None

    def __init__(self, noting: _Noting, value: Value) -> None:
        self._noting = noting
        self.value = value
        self.shape, self.dtype, self.ndim = value.shape, value.dtype, len(value.shape)

    __hash__ = None  # type: ignore[assignment]


def _operator(name: str, *, swapped: bool = False) -> Callable[..., _Symbol]:
    def apply(self: _Symbol, other: Any) -> _Symbol:
        return self._noting.by_element(name, *((other, self) if swapped else (self, other)))

    return apply


for _method, _name in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
}.items():  # fmt: skip
    setattr(_Symbol, f"__{_method}__", _operator(_name))
    setattr(_Symbol, f"__r{_method}__", _operator(_name, swapped=True))
for _method, _name in {
    "eq": "equal", "ne": "not_equal", "lt": "less", "or": "logical_or", "and": "logical_and",
}.items():  # fmt: skip
    setattr(_Symbol, f"__{_method}__", _operator(_name))


class _Noting:
    """An array namespace whose functions note calls of primitives."""

    def __init__(self, call: Call, numbers: Iterator[int], positions: Positions) -> None:
        self._call, self._numbers, self._positions = call, numbers, positions
        self._calls: list[Call] = []

    def calls_of_definition(self) -> list[Call] | None:
        """Return the calls that a call stands for, None if its definition does anything else."""
        call = self._call
        definition = OTHERWISE.get(call.primitive.name, call.primitive.forward)
        assert definition is not None
        operands = [_Symbol(self, x) if isinstance(x, Value) else x for x in call.operands]
        is_half = call.primitive.name not in BY_ELEMENT and any(
            value.dtype.name in HALF for value in call.reads
        )
        try:
            if is_half:
                operands = [self._widened(x) for x in operands]
            results = definition(self, *operands, **call.params)
            results = results if isinstance(results, tuple) else (results,)
            if is_half:
                results = self._rounded(results)
        except (UntraceableError, AttributeError):
            return None
        return self._renamed(results)

    def _widened(self, x: Any) -> Any:
        is_half = isinstance(x, _Symbol) and x.dtype.name in HALF
        return self.astype(x, np.dtype("float32")) if is_half else x

    def _rounded(self, results: Sequence[_Symbol]) -> tuple[_Symbol, ...]:
        """Cast the results to the dtypes of those that they replace."""
        return tuple(
            result if result.dtype == value.dtype else self.astype(result, value.dtype)
            for result, value in zip(results, self._call.results, strict=True)
        )

    def _renamed(self, results: Sequence[Any]) -> list[Call] | None:
        """Return the calls, which make the results of the call that they replace."""
        made = {value.number for call in self._calls for value in call.results}
        own = [result.value.number for result in results]
        if len({*own}) < len(own) or not made.issuperset(own):
            return None
        wanted = dict(zip(own, self._call.results, strict=True))
        for result, value in zip(results, self._call.results):
            if (result.shape, result.dtype) != (value.shape, value.dtype):
                return None
        return [
            replace(
                call.with_values(tuple(_renamed(x, wanted) for x in call.operands)),
                results=tuple(_renamed(x, wanted) for x in call.results),
            )
            for call in self._calls
        ]

    # Functions

    def by_element(self, name: str, *operands: Any, **params: Any) -> _Symbol:
        symbols = [x for x in operands if isinstance(x, _Symbol)]
        places = iter(range(len(symbols)))
        given = [
            array_input(next(places), x.dtype) if isinstance(x, _Symbol) else x for x in operands
        ]
        (formula,) = traced(PRIMITIVES[name].kernel(Expression), *given, **params)
        if formula.dtype is None:
            raise UntraceableError(f"{name} has no dtype here.")
        shape = np.broadcast_shapes(*[x.shape for x in symbols])
        return self._note(name, operands, params, shape, formula.dtype)

    def _reduced(self, name: str, x: _Symbol, axis: Any, keepdims: bool) -> _Symbol:
        axes = (axis,) if isinstance(axis, int) else tuple(axis)
        axes = tuple(sorted(one % x.ndim for one in axes))
        kept = [1 if k in axes else n for k, n in enumerate(x.shape)]
        shape = tuple(kept if keepdims else [n for k, n in enumerate(x.shape) if k not in axes])
        return self._note(name, (x,), {"axis": axes, "keepdims": keepdims}, shape, x.dtype)

    def sum(self, x: _Symbol, *, axis: Any, keepdims: bool = False, dtype: Any = None) -> _Symbol:
        return self._reduced("sum", x, axis, keepdims)

    def mean(self, x: _Symbol, *, axis: Any, keepdims: bool = False) -> _Symbol:
        return self._reduced("mean", x, axis, keepdims)

    def max(self, x: _Symbol, *, axis: Any, keepdims: bool = False) -> _Symbol:
        return self._reduced("max", x, axis, keepdims)

    def summed_rows(self, x: _Symbol, indices: _Symbol, size: int) -> _Symbol:
        shape = (size, *x.shape[indices.ndim :])
        return self._note("take_add", (x, indices), {"axis": 0, "size": size}, shape, x.dtype)

    def transform(self, x: _Symbol, params: dict[str, Any]) -> _Symbol:
        """Note the same call with other parameters."""
        (result,) = self._call.results
        return self._note(self._call.primitive.name, (x,), params, result.shape, result.dtype)

    def reshape(self, x: _Symbol, shape: Shape) -> _Symbol:
        return self._note("reshape", (x,), {"shape": shape}, shape, x.dtype, aliases=True)

    def squeeze(self, x: _Symbol, *, axis: Any) -> _Symbol:
        axes = (axis,) if isinstance(axis, int) else axis
        return self.reshape(x, tuple(n for k, n in enumerate(x.shape) if k not in axes))

    def astype(self, x: _Symbol, dtype: Any) -> _Symbol:
        return self.by_element("cast", x, dtype=dtype)

    def expand_dims(self, x: _Symbol, *, axis: int) -> _Symbol:
        return self.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))

    def moveaxis(self, x: _Symbol, source: int, target: int) -> _Symbol:
        if source % x.ndim != target % x.ndim:
            raise UntraceableError("Axes are exchanged.")
        return x

    def arange(self, length: int, *, dtype: Any, device: Any = None) -> _Symbol:
        kind = np.dtype(dtype)
        most = 2 ** (np.finfo(kind).nmant + 1) if kind.kind == "f" else np.iinfo(kind).max
        if length - 1 > most:
            raise UntraceableError("Not all positions are numbers of the dtype.")
        # A call, not a constant: programs are built in the background, where no work may be given
        # to a device that another thread captures.
        params = {"length": length, "dtype": np.dtype(dtype)}
        known = self._positions.get(_key_of_positions(params, self.device))
        if known is not None:
            return _Symbol(self, known)
        return self._note("positions_like", self._call.reads[:1], params, (length,), dtype)

    def full(self, shape: Shape, number: Any, *, dtype: Any, device: Any = None) -> _Symbol:
        params = {"shape": shape, "value": number, "dtype": np.dtype(dtype)}
        return self._note("full_like", self._call.reads[:1], params, shape, dtype)

    def zeros_like(self, x: _Symbol) -> _Symbol:
        return self._filled(x, 0)

    def ones_like(self, x: _Symbol) -> _Symbol:
        return self._filled(x, 1)

    def _filled(self, x: _Symbol, number: int) -> _Symbol:
        return self.full(x.shape, number, dtype=x.dtype)

    def isdtype(self, dtype: Any, kind: str) -> bool:
        return kind == "real floating"  # see DTYPES

    def where(self, condition: _Symbol, x: Any, y: Any) -> _Symbol:
        return self.by_element("where", condition, x, y)

    def exp(self, x: _Symbol) -> _Symbol:
        return self.by_element("exp", x)

    def log(self, x: _Symbol) -> _Symbol:
        return self.by_element("log", x)

    def sqrt(self, x: _Symbol) -> _Symbol:
        return self.by_element("sqrt", x)

    def isfinite(self, x: _Symbol) -> _Symbol:
        return self.by_element("isfinite", x)

    def _note(
        self,
        name: str,
        operands: Sequence[Any],
        params: dict[str, Any],
        shape: Shape,
        dtype: Any,
        *,
        aliases: bool = False,
    ) -> _Symbol:
        value = Value(next(self._numbers), tuple(shape), np.dtype(dtype), self.device)
        plain = tuple(x.value if isinstance(x, _Symbol) else x for x in operands)
        call = replace(
            self._call,
            primitive=PRIMITIVES[name],
            operands=plain,
            params=params,
            results=(value,),
            aliases=aliases,
        )
        self._calls.append(call)
        return _Symbol(self, value)

    @property
    def device(self) -> str:
        """The device of the results."""
        return self._call.results[0].device


def _renamed(value: Any, wanted: dict[int, Value]) -> Any:
    return wanted.get(value.number, value) if isinstance(value, Value) else value
