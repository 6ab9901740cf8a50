"""Kernels of many long rows as compiled loops with stages: softmax, normalisation, gradients.

Rows are the last axes of contiguous arrays. Everything else is left to the kernels of NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.trace.expression import EXPRESSIONS, Expression, array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad.errors import ShapeError
from tapegrad_numpy.eager.columns import normalize_columns, normalize_columns_gradient
from tapegrad_numpy.eager.formulas import MOST_PLANS
from tapegrad_numpy.eager.sizes import LARGE
from tapegrad_numpy.kernels.half import accumulator, is_half
from tapegrad_numpy.kernels.softmax import check_labels, places_of_labels
from tapegrad_numpy.loops.compile import make_all
from tapegrad_numpy.loops.entry_points import CLoopCompiler

Kernel = Callable[..., Any]
Run = Callable[..., Any]
"""Takes the operands of the kernel and returns its results."""

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_takes_stages = CLoopCompiler().takes_stages


class RowKernel:
    """A kernel of rows, compiled per dtype and shape of its operands."""

    def __init__(self, name: str, plain: Kernel) -> None:
        self.plain = plain
        self._make = MAKERS[name]
        self._plans: dict[Any, Run | None] = {}

    def __call__(self, *operands: Any, **params: Any) -> Any:
        for operand in operands:
            if type(operand) is not np.ndarray or not operand.flags.c_contiguous:
                return self.plain(*operands, **params)
        key = (
            tuple([(operand.dtype, operand.shape) for operand in operands]),
            tuple(params.items()),
        )
        if key not in self._plans:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = self._make(operands, params)
        run = self._plans[key]
        try:
            return self.plain(*operands, **params) if run is None else run(*operands)
        except ShapeError:  # an array that is not aligned, or whose dtype is another object
            return self.plain(*operands, **params)


class _Rows:
    """Builds a loop over rows of the first operand, in single precision if that is half."""

    def __init__(self, x: Any, axes: int) -> None:
        self.dtype = x.dtype
        self.wide = accumulator(x.dtype)
        length = math.prod(x.shape[x.ndim - axes :])
        self.shape = (x.size // max(1, length), length)
        self.inputs: list[LoopInput] = []
        self.stages: list[LoopOutput] = []

    def is_worth_it(self) -> bool:
        if self.dtype not in _FLOATS and not is_half(self.dtype):
            return False
        return self.shape[0] * self.shape[1] >= LARGE and _takes_stages(*self.shape)

    def read(self, seen: tuple[int, ...], dtype: Any) -> Any:
        """An operand, whose elements have this shape before the rows of the loop."""
        self.inputs.append(LoopInput(seen, seen, dtype))
        return EXPRESSIONS.xp.astype(array_input(len(self.inputs) - 1, dtype), self.wide)

    def elements(self) -> Any:
        return self.read(self.shape, self.dtype)

    def stage(
        self, combine: str, value: Any, finish: Callable[[Any], Any] | None = None
    ) -> Expression:
        """A value per row; all operands have been read."""
        end = None if finish is None else finish(array_input(0, value.dtype))
        self.stages.append(LoopOutput(value, self.shape[:1], combine, (1,), end))
        dtype = self.stages[-1].dtype
        return array_input(len(self.inputs) + len(self.stages) - 1, dtype)

    def sum(self, value: Any, finish: Callable[[Any], Any] | None = None) -> Any:
        return self.stage("add", value, finish)

    def mean(self, value: Any) -> Any:
        return self.sum(value, lambda total: total * (1 / self.shape[1]))

    def run(self, elements: Sequence[Any], values: Sequence[Any] = ()) -> Any:
        """Return the compiled function whose results are elements, and values per row."""
        outputs = [
            LoopOutput(EXPRESSIONS.xp.astype(value, self.dtype), self.shape) for value in elements
        ]
        outputs += [LoopOutput(value, self.shape[:1], None, (1,)) for value in values]
        loop = Loop(self.shape, tuple(self.inputs), tuple(outputs), tuple(self.stages))
        return make_all([loop])[0]


class _Softmax(NamedTuple):
    """The values of a softmax; the maximum of a row of -inf counts as 0, its sum as 1."""

    shifted: Any
    weights: Any
    top: Any
    total: Any


def _softmax_of(rows: _Rows, x: Any) -> _Softmax:
    top = rows.stage("maximum", x, lambda top: EXPRESSIONS.xp.where(top == -math.inf, 0.0, top))
    weights = EXPRESSIONS.xp.exp(x - top)
    total = rows.sum(weights, lambda total: EXPRESSIONS.xp.where(total == 0.0, 1.0, total))
    return _Softmax(x - top, weights, top, total)


def _is_last(x: Any, params: Mapping[str, Any]) -> bool:
    return bool(params["axis"] % x.ndim == x.ndim - 1)


def _softmax(operands: Sequence[Any], params: Mapping[str, Any]) -> Run | None:
    (x,) = operands
    rows = _Rows(x, 1)
    if not rows.is_worth_it() or not _is_last(x, params):
        return None
    found = _softmax_of(rows, rows.elements())
    return _of_one_result(rows.run([found.weights / found.total]))


def _log_softmax(operands: Sequence[Any], params: Mapping[str, Any]) -> Run | None:
    (x,) = operands
    rows = _Rows(x, 1)
    if not rows.is_worth_it() or not _is_last(x, params):
        return None
    found = _softmax_of(rows, rows.elements())
    return _of_one_result(rows.run([found.shifted - EXPRESSIONS.xp.log(found.total)]))


def _gradient(formula: Callable[[_Rows, Any, Any], Any]) -> Callable[..., Run | None]:
    """Return the maker of a function of a cotangent and of a result of the same kind."""

    def make(operands: Sequence[Any], params: Mapping[str, Any]) -> Run | None:
        t, y = operands
        rows = _Rows(y, 1)
        if not rows.is_worth_it() or not _is_last(y, params):
            return None
        if (t.dtype, t.shape) != (y.dtype, y.shape):
            return None
        given = rows.elements(), rows.elements()
        return _of_one_result(rows.run([formula(rows, *given)]))

    return make


def _of_one_result(run: Any) -> Run | None:
    """The function of operands of the shape of the result."""
    if run is None:
        return None

    def call(*operands: Any) -> Any:
        y = np.empty(operands[-1].shape, operands[-1].dtype)
        run(operands, (y,))
        return y

    return call


def _sparse_cross_entropy(operands: Sequence[Any], params: Mapping[str, Any]) -> Run | None:
    logits, labels = operands
    rows = _Rows(logits, 1)
    if not rows.is_worth_it() or labels.dtype.kind not in "iu":
        return None
    found = _softmax_of(rows, rows.elements())
    run = rows.run(
        [found.weights / found.total], [found.top + 0.0, EXPRESSIONS.xp.log(found.total)]
    )
    if run is None:
        return None

    def call(logits: Any, labels: Any) -> Any:
        classes = logits.shape[-1]
        check_labels(labels, classes)
        weights = np.empty(logits.shape, logits.dtype)
        _, top, log_total = run((logits,), (weights, None, None))
        picked = logits.reshape(-1)[places_of_labels(labels, classes)] - top
        loss = (log_total - picked).reshape(labels.shape)
        return loss.astype(logits.dtype, copy=False), weights

    return call


def _fits(array: Any, x: Any, axes: int) -> bool:
    """Whether an array has one element for each element of a row."""
    shape = x.shape[x.ndim - axes :]
    own = array.shape[max(0, array.ndim - axes) :]
    return bool(array.size == math.prod(shape) and own == shape)


def _normalize(operands: Sequence[Any], params: Mapping[str, Any]) -> Run | None:
    x, gain, bias = operands
    axes = params["axes"]
    rows = _Rows(x, len(axes))
    if not rows.is_worth_it() or tuple(axes) != tuple(range(x.ndim - len(axes), x.ndim)):
        return None
    x_of = rows.elements()
    used = [a for a, is_used in ((gain, params["scaled"]), (bias, params["shifted"])) if is_used]
    if not all(_fits(array, x, len(axes)) for array in used):
        return None
    factors = [rows.read(rows.shape[1:], array.dtype) for array in used]
    mean = rows.mean(x_of) if params["center"] else None
    y = x_of if mean is None else x_of - mean
    variance = rows.mean(y * y)
    y = y * (1.0 / EXPRESSIONS.xp.sqrt(variance + params["epsilon"]))
    y = y * factors.pop(0) if params["scaled"] else y
    y = y + factors.pop() if params["shifted"] else y
    run = rows.run([y], [variance + 0.0] if mean is None else [variance + 0.0, mean + 0.0])
    if run is None:
        return None

    def call(x: Any, *others: Any) -> Any:
        y = np.empty(x.shape, x.dtype)
        read = [a for a, is_used in zip(others, (params["scaled"], params["shifted"])) if is_used]
        left = x.shape[: x.ndim - len(axes)]
        _, variance, *means = run((x, *read), (y, None, *[None] * (mean is not None)))
        middle = means[0] if means else np.zeros_like(variance)
        return y, middle.reshape(left), variance.reshape(left)

    return call


def _normalize_gradient(operands: Sequence[Any], params: Mapping[str, Any]) -> Run | None:
    t, x, gain, _, _ = operands
    axes, bias_shape = params["axes"], tuple(params["bias_shape"])
    rows = _Rows(x, len(axes))
    is_last = tuple(axes) == tuple(range(x.ndim - len(axes), x.ndim))
    if not (rows.is_worth_it() and is_last and params["scaled"] and _fits(gain, x, len(axes))):
        return None
    if (t.dtype, t.shape) != (x.dtype, x.shape) or math.prod(bias_shape) != rows.shape[1]:
        return None
    t_of, x_of = rows.elements(), rows.elements()
    g_of = rows.read(rows.shape[1:], gain.dtype)
    mean, variance = [rows.read((rows.shape[0], 1), rows.wide) for _ in range(2)]
    scale = 1.0 / EXPRESSIONS.xp.sqrt(variance + params["epsilon"])
    unit, inner = (x_of - mean) * scale, t_of * g_of
    g = inner - unit * rows.mean(inner * unit)
    for_x = rows.run([(g - rows.mean(inner) if params["center"] else g) * scale])
    sums = [
        LoopOutput(
            value,
            rows.shape[1:],
            "add",
            (0,),
            EXPRESSIONS.xp.astype(array_input(0, rows.wide), dtype),
        )
        for value, dtype in ((t_of * unit, gain.dtype), (t_of, gain.dtype))
    ]
    (for_others,) = make_all([Loop(rows.shape, tuple(rows.inputs), tuple(sums))])
    if for_x is None or for_others is None:
        return None

    def call(t: Any, x: Any, gain: Any, mean: Any, variance: Any) -> Any:
        read = t, x, gain, mean, variance
        g = np.empty(x.shape, x.dtype)
        for_x(read, (g,))
        results = np.empty(gain.shape, gain.dtype), np.empty(bias_shape, gain.dtype)
        for_others(read, results)
        return g, *results

    return call


def _either(first: Callable[..., Run | None], second: Callable[..., Run | None]) -> Any:
    def make(operands: Sequence[Any], params: Mapping[str, Any]) -> Run | None:
        run = first(operands, params)
        return second(operands, params) if run is None else run

    return make


MAKERS: dict[str, Callable[[Sequence[Any], Mapping[str, Any]], Run | None]] = {
    "softmax": _softmax,
    "softmax_gradient": _gradient(lambda rows, t, y: (t - rows.sum(t * y)) * y),
    "log_softmax": _log_softmax,
    "log_softmax_gradient": _gradient(lambda rows, t, y: t - EXPRESSIONS.xp.exp(y) * rows.sum(t)),
    "sparse_cross_entropy": _sparse_cross_entropy,
    "normalize": _either(_normalize, normalize_columns),
    "normalize_gradient": _either(_normalize_gradient, normalize_columns_gradient),
}
