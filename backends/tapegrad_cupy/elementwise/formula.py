"""Elementwise primitives on CuPy: their generic kernels and rules, compiled into one launch each.

A formula is traced once per combination of dtypes, compiled once per layout, and planned once per
combination of shapes; after that a call packs addresses and launches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cupy
import numpy as np

from tapegrad.core.expression import (
    Expression,
    UntraceableError,
    array_input,
    number_input,
    rounded_number,
    traced,
)
from tapegrad_cupy.compiled import Source
from tapegrad_cupy.elementwise.layout import (
    Layout,
    dense_order,
    find_layout,
    full_width,
    vector_length,
)
from tapegrad_cupy.elementwise.source import (
    THREADS,
    Operand,
    is_plain,
    joined_source,
    kernel_source,
)
from tapegrad_cupy.launch import Kernel

Array = Any
Run = Callable[[Sequence[Any]], Any]
"""Takes addresses and numbers of the operands, returns the result or a tuple of results."""

MOST_PLANS = 4096
_JOINED = 40
_OPTIONS = ("-std=c++17",)
_NUMBERS = {float: "double", int: "long long", bool: "bool"}
_LETTERS = {"double": "d", "long long": "q", "bool": "?"}

_ndarray = cupy.ndarray
_alloc = cupy.cuda.alloc
_current_device = cupy.cuda.runtime.getDevice


class Formula:
    """A function of elements that is called with CuPy arrays and Python numbers.

    `function` is run on expressions, with the params; `otherwise` takes its place for operands and
    functions that cannot be traced.
    """

    def __init__(self, function: Callable[..., Any], otherwise: Callable[..., Any]) -> None:
        self._function = function
        self._otherwise = otherwise
        self._plans: dict[Any, Run | None] = {}
        self._bakes_numbers = False

    def __call__(self, *operands: Any, **params: Any) -> Any:
        # One or two contiguous operands that were met before are the usual case, spelled out.
        x = operands[0]
        if params or len(operands) > 2 or type(x) is not _ndarray or not x._c_contiguous:
            return self._any(operands, params)
        here = _current_device()
        data = x.data
        address = data.ptr
        if data.device_id != here:
            return self._any(operands, params)
        if len(operands) == 1:
            run = self._plans.get((address & 15, here, x.dtype, x.shape))
            return self._any(operands, params) if run is None else run((address,))
        y = operands[1]
        if type(y) is not _ndarray:
            run = self._plans.get((address & 15, here, x.dtype, x.shape, type(y)))
            return self._any(operands, params) if run is None else run((address, y))
        data = y.data
        other = data.ptr
        if not y._c_contiguous or data.device_id != here:
            return self._any(operands, params)
        key = ((address | other) & 15, here, x.dtype, x.shape, y.dtype, y.shape)
        run = self._plans.get(key)
        return self._any(operands, params) if run is None else run((address, other))

    def bound(self, params: dict[str, Any]) -> Callable[..., Any]:
        """Return the formula with these params, so that plans are looked up by operands alone."""
        if any(type(value) is float for value in params.values()):
            return functools.partial(self, **params)  # one plan serves all numbers
        function = functools.partial(self._function, **params)
        return Formula(function, functools.partial(self._otherwise, **params))

    def _any(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        key: list[Any] = []
        values: list[Any] = []
        low = 0
        here = _current_device()
        for operand in operands:
            if type(operand) is _ndarray:
                data = operand.data
                address = data.ptr
                if data.device_id != here:
                    return self._elsewhere(operands, params)
                low |= address
                values.append(address)
                key.append(operand.dtype)
                key.append(operand.shape)
                if not operand._c_contiguous:
                    key.append(operand.strides)
            else:
                key.append(type(operand))
                values.append(operand)
        if params:
            for name, value in params.items():
                if type(value) is float and not self._bakes_numbers:
                    key.append(name)
                    values.append(value)
                else:
                    key.append((name, value))
        full_key = (low & 15, here, *key)
        try:
            run = self._plans[full_key]
        except KeyError:
            return self._first(full_key, operands, values, params)
        return self._other(operands, params) if run is None else run(values)

    def _other(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        dtype, places = _half_beside_numbers(operands)
        if dtype is None:
            return self._otherwise(*operands, **params)
        given = list(operands)
        for i in places:
            given[i] = rounded_number(given[i], dtype)
        result = self._otherwise(*given, **params)
        # CuPy takes a Python number beside bfloat16 for a float32.
        return result.astype(dtype) if result.dtype == np.float32 else result

    def _elsewhere(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute on the operands' own device, which is not the current one."""
        devices = {o.data.device_id for o in operands if type(o) is _ndarray}
        if len(devices) > 1:
            raise ValueError("the operands lie on different devices")
        with cupy.cuda.Device(devices.pop()):
            return self(*operands, **params)

    def _first(
        self, key: Any, operands: Sequence[Any], values: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Make a plan, keep it and run it; the plan is None if nothing can be compiled."""
        floats = [name for name, value in params.items() if type(value) is float]
        passed = [] if self._bakes_numbers else floats
        try:
            inputs = [_input(i, operand) for i, operand in enumerate(operands)]
            numbers = {name: number_input(len(inputs) + k, float) for k, name in enumerate(passed)}
            outputs = traced(self._function, *inputs, **{**params, **numbers})
            run = _plan(outputs, operands, len(passed), low_bits=key[0])
            run = _with_rounded_numbers(run, operands)
        except UntraceableError:
            if passed:
                # The function looks at the numbers themselves: each gets a kernel of its own.
                self._bakes_numbers = True
                return self(*operands, **params)
            run = None
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[key] = run
        return self._other(operands, params) if run is None else run(values)


def _half_beside_numbers(operands: Sequence[Any]) -> tuple[Any, list[int]]:
    """The dtype of arrays of half precision, and where numbers stand beside them; else None."""
    dtypes = {operand.dtype for operand in operands if type(operand) is _ndarray}
    places = [i for i, operand in enumerate(operands) if type(operand) in (float, int)]
    dtype = dtypes.pop() if len(dtypes) == 1 and places else None
    is_half = dtype is not None and dtype.itemsize == 2 and dtype.kind not in "iu"
    return (dtype if is_half else None), places


def _with_rounded_numbers(run: Run, operands: Sequence[Any]) -> Run:
    """Let numbers beside arrays of half precision have that precision, as NumPy does it."""
    dtype, places = _half_beside_numbers(operands)
    if dtype is None:
        return run

    def rounded(values: Sequence[Any]) -> Any:
        values = list(values)
        for i in places:
            values[i] = rounded_number(values[i], dtype)
        return run(values)

    return rounded


def _input(index: int, operand: Any) -> Expression:
    if type(operand) is _ndarray:
        return array_input(index, operand.dtype)
    if type(operand) in _NUMBERS:
        return number_input(index, type(operand))
    raise UntraceableError(f"{type(operand).__name__} is no operand of a kernel.")


def _plan(
    outputs: tuple[Expression, ...], operands: Sequence[Any], floats: int, low_bits: int
) -> Run:
    """Find the layout and the kernel for operands like these, and return the launch."""
    if any(output.name == "input" for output in outputs):
        raise UntraceableError("The result is an operand itself.")
    arrays = [operand for operand in operands if type(operand) is _ndarray]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    itemsizes = [array.dtype.itemsize for array in arrays]
    order = _common_order(arrays, shape)
    if order is None:
        layout = find_layout(
            shape, [a.shape for a in arrays], [a.strides for a in arrays], itemsizes
        )
    else:
        flat = (int(np.prod(shape, dtype=np.int64)),)
        layout = Layout(flat, tuple((int(a.shape == shape),) for a in arrays))
    if layout is None:
        raise UntraceableError("The elements of an operand do not lie at multiples of their size.")
    dtypes = [_dtype_of(output) for output in outputs]
    count = int(np.prod(shape, dtype=np.int64))
    sizes = [*itemsizes, *(dtype.itemsize for dtype in dtypes)]
    width = vector_length(layout, sizes, aligned=not low_bits)
    described = _described(operands, layout, floats)
    kernel = _kernel_for(outputs, described, layout, width, count) if count else None
    strides = [
        None if order is None else tuple(step * dtype.itemsize for step in order)
        for dtype in dtypes
    ]
    constants = _constants(described, layout, count)
    return _runner(shape, dtypes, strides, kernel, _blocks(count, width), constants)


def _common_order(arrays: Sequence[Array], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The steps, in elements, of operands that all lie in one order other than that of rows.

    The results get that order too, so that a transposed array is read as it lies.
    """
    found: set[tuple[int, ...]] = set()
    for array in arrays:
        if array.shape == shape:
            itemsize = array.dtype.itemsize
            if array._c_contiguous or not dense_order(shape, array.strides, itemsize):
                return None
            found.add(tuple(stride // itemsize for stride in array.strides))
        elif array.size != 1:
            return None
    return found.pop() if len(found) == 1 else None


def _dtype_of(output: Expression) -> np.dtype[Any]:
    assert output.dtype is not None
    return output.dtype


def _described(operands: Sequence[Any], layout: Layout, floats: int) -> list[Operand]:
    """The operands as a kernel sees them, params that are passed as numbers last."""
    steps = iter(layout.inner)
    described = []
    for operand in operands:
        if type(operand) is _ndarray:
            step = next(steps)
            described.append(Operand(operand.dtype, step if step in (0, 1) else 2))
        else:
            described.append(Operand(None, 0, _NUMBERS[type(operand)]))
    return described + [Operand(None, 0, "double")] * floats


def _constants(described: list[Operand], layout: Layout, count: int) -> tuple[int, ...]:
    if is_plain(described, len(layout.sizes)):
        return (count,)
    return (count, *layout.sizes, *(step for steps in layout.steps for step in steps))


def _kernel_for(
    outputs: tuple[Expression, ...],
    described: list[Operand],
    layout: Layout,
    width: int,
    count: int,
) -> Kernel:
    furthest = [
        sum((size - 1) * abs(step) for size, step in zip(layout.sizes, steps))
        for steps in layout.steps
    ]
    backwards = any(step < 0 for steps in layout.steps for step in steps)
    wide_index = backwards or max([count + THREADS * width, *furthest]) >= 2**31
    source = kernel_source(outputs, described, len(layout.sizes), width, wide_index)
    constants = len(_constants(described, layout, count))
    return _kernel_of(source, outputs, described, constants)


def single_kernel(
    outputs: tuple[Expression, ...], described: list[Operand], width: int, count: int
) -> Callable[..., None]:
    """Return the launch for `count` elements that lie one after the other in every operand."""
    source = kernel_source(outputs, described, 1, width, count + THREADS * width >= 2**31)
    kernel = _kernel_of(source, outputs, described, 1)
    return kernel.launcher(_blocks(count, width), THREADS)


def _kernel_of(
    source: str, outputs: tuple[Expression, ...], described: list[Operand], constants: int
) -> Kernel:
    letters = "".join(
        "P" if operand.dtype is not None else _LETTERS[operand.number] for operand in described
    )
    return _kernel(source, letters + "P" * len(outputs) + "q" * constants)


def _blocks(count: int, width: int) -> int:
    threads = count // width + (count % width if width > 1 else 0)
    return -(-threads // THREADS)


@functools.lru_cache(maxsize=MOST_PLANS)
def _kernel(source: str, arguments: str) -> Kernel:
    def make() -> Any:
        return cupy.RawModule(code=source, options=_OPTIONS).get_function("elementwise")

    return Kernel(make, arguments)


def _runner(
    shape: tuple[int, ...],
    dtypes: list[np.dtype[Any]],
    strides: list[tuple[int, ...] | None],
    kernel: Kernel | None,
    blocks: int,
    constants: tuple[int, ...],
) -> Run:
    """The part of a plan that runs at every call."""
    if kernel is None:
        return lambda values: _only_if_many([_ndarray(shape, dtype) for dtype in dtypes])
    count = int(np.prod(shape, dtype=np.int64))
    sizes = [count * dtype.itemsize for dtype in dtypes]
    if len(dtypes) == 1:
        kind = (shape, dtypes[0], strides[0])
        return kernel.maker(blocks, THREADS, kind, sizes[0], constants)
    makers = list(zip(dtypes, sizes, strides))
    return functools.partial(_run_many, shape, makers, kernel.launcher(blocks, THREADS), constants)


def _run_many(
    shape: tuple[int, ...],
    makers: list[tuple[np.dtype[Any], int, tuple[int, ...] | None]],
    launch: Callable[..., None],
    constants: tuple[int, ...],
    values: Sequence[Any],
) -> Any:
    results = [_ndarray(shape, dtype, _alloc(size), order) for dtype, size, order in makers]
    launch(*values, *[result.data.ptr for result in results], *constants)
    return tuple(results)


Formulas = list[tuple[tuple[Expression, ...], list[Operand]]]
"""What kernels compute and from what, for `joined_variants`."""

DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
"""The dtypes whose formulas are compiled where there is no device; others differ in nothing."""


def joined_variants(label: str, formulas: dict[str, Formulas]) -> Iterator[Source]:
    """Yield the kernels of formulas, by dtype, for whole arrays; some of them for any layout too.

    At run time each is compiled by itself, from the same parts.
    """
    for dtype, found in formulas.items():
        width = full_width(np.dtype(dtype).itemsize)
        for start in range(0, len(found), _JOINED):
            some = found[start : start + _JOINED]
            text = joined_source(some, 1, width)
            yield Source(f"{label} {dtype} from {start}", text, _OPTIONS)
        mixed = [
            (outputs, [operand._replace(step=k % 3) for k, operand in enumerate(operands)])
            for outputs, operands in found[:_JOINED]
        ]
        yield Source(
            f"{label} {dtype} in three dimensions", joined_source(mixed, 3, width), _OPTIONS
        )


def whole_operands(inputs: Sequence[Expression]) -> list[Operand]:
    """The operands of a formula, arrays whole, in the order of `inputs`."""
    return [Operand(None, 0, "double") if x.dtype is None else Operand(x.dtype, 1) for x in inputs]


def _only_if_many(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
