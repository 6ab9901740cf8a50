"""Elementwise functions traced to expressions and compiled to one CUDA kernel each.

A formula is traced once per combination of dtypes, compiled once per layout, and planned once per
combination of shapes. Later calls only pack addresses and launch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cupy
import numpy as np

from tapegrad.core.trace.expression import (
    Expression,
    UntraceableError,
    array_input,
    number_input,
    rounded_number,
    traced,
)
from tapegrad_cupy.kernels.elementwise.source import (
    THREADS,
    Operand,
    is_plain,
    joined_source,
    kernel_source,
)
from tapegrad_cupy.launch.cuda_source import Source
from tapegrad_cupy.launch.launch import Kernel, kernel_from
from tapegrad_cupy.launch.strided_layout import (
    Layout,
    find_layout,
    full_vector_length,
    is_dense,
    vector_length,
)
from tapegrad_cupy.runtime.array_limits import broadcast_shape

Array = Any
Run = Callable[[Sequence[Any]], Any]
"""Takes the operands (addresses and numbers) and returns the result or a tuple of results."""

MOST_PLANS = 4096
_JOINED = 40
_NUMBERS = {float: "double", int: "long long", bool: "bool"}
_LETTERS = {"double": "d", "long long": "q", "bool": "?"}

_ndarray = cupy.ndarray
_alloc = cupy.cuda.alloc
_current_device = cupy.cuda.runtime.getDevice


class Formula:
    """An elementwise function of CuPy arrays and Python numbers.

    `function` is traced: it is called with expressions and the params. `otherwise` is called with
    the arrays instead if the function or the operands cannot be traced.
    """

    def __init__(self, function: Callable[..., Any], otherwise: Callable[..., Any]) -> None:
        self._function = function
        self._otherwise = otherwise
        self._plans: dict[Any, Run | None] = {}
        self._specializes = False  # to the values of params that are numbers

    def __call__(self, *operands: Any, **params: Any) -> Any:
        # Fast path: one or two contiguous operands and no params, with a cached plan.
        x = operands[0]
        if params or len(operands) > 2 or type(x) is not _ndarray or not x._c_contiguous:
            return self._call(operands, params)
        here = _current_device()
        data = x.data
        address = data.ptr
        if data.device_id != here:
            return self._call(operands, params)
        if len(operands) == 1:
            run = self._plans.get((address & 15, here, x.dtype, x.shape))
            return self._call(operands, params) if run is None else run((address,))
        y = operands[1]
        if type(y) is not _ndarray:
            run = self._plans.get((address & 15, here, x.dtype, x.shape, type(y)))
            return self._call(operands, params) if run is None else run((address, y))
        data = y.data
        other = data.ptr
        if not y._c_contiguous or data.device_id != here:
            return self._call(operands, params)
        key = ((address | other) & 15, here, x.dtype, x.shape, y.dtype, y.shape)
        run = self._plans.get(key)
        return self._call(operands, params) if run is None else run((address, other))

    def bound(self, params: dict[str, Any]) -> Callable[..., Any]:
        """Return the formula with fixed params; its plans are looked up by operands alone."""
        if any(type(value) is float for value in params.values()):
            return functools.partial(self, **params)  # one plan serves all values of the number
        function = functools.partial(self._function, **params)
        return Formula(function, functools.partial(self._otherwise, **params))

    def _call(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        """Call with any operands and params."""
        key: list[Any] = []
        values: list[Any] = []
        low = 0
        here = _current_device()
        for operand in operands:
            if type(operand) is _ndarray:
                data = operand.data
                address = data.ptr
                if data.device_id != here:
                    return self._on_other_device(operands, params)
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
                if type(value) is float and not self._specializes:
                    key.append(name)
                    values.append(value)
                else:
                    key.append((name, value))
        full_key = (low & 15, here, *key)
        try:
            run = self._plans[full_key]
        except KeyError:
            return self._plan_and_run(full_key, operands, values, params)
        return self._fall_back(operands, params) if run is None else run(values)

    def _fall_back(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        dtype, numbers = _half_precision_and_numbers(operands)
        if dtype is None:
            return self._otherwise(*operands, **params)
        rounded = list(operands)
        for i in numbers:
            rounded[i] = rounded_number(rounded[i], dtype)
        result = self._otherwise(*rounded, **params)
        # CuPy promotes bfloat16 and a Python number to float32.
        return result.astype(dtype) if result.dtype == np.float32 else result

    def _on_other_device(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        """Compute on the device of the operands, which is not the current one."""
        devices = {o.data.device_id for o in operands if type(o) is _ndarray}
        if len(devices) > 1:
            raise ValueError("the operands lie on different devices")
        with cupy.cuda.Device(devices.pop()):
            return self(*operands, **params)

    def _plan_and_run(
        self, key: Any, operands: Sequence[Any], values: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Make a plan, keep it and run it; the plan is None if the function cannot be traced."""
        floats = [name for name, value in params.items() if type(value) is float]
        passed = [] if self._specializes else floats
        try:
            inputs = [_input(i, operand) for i, operand in enumerate(operands)]
            numbers = {name: number_input(len(inputs) + k, float) for k, name in enumerate(passed)}
            outputs = traced(self._function, *inputs, **{**params, **numbers})
            run = _plan(outputs, operands, len(passed), low_bits=key[0])
            run = _with_rounded_numbers(run, operands)
        except UntraceableError:
            if passed:
                # The function depends on the values of numbers: compile a kernel for each value.
                self._specializes = True
                return self(*operands, **params)
            run = None
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[key] = run
        return self._fall_back(operands, params) if run is None else run(values)


def _half_precision_and_numbers(operands: Sequence[Any]) -> tuple[Any, list[int]]:
    """Return the dtype of arrays in half precision, and the positions of Python numbers.

    The dtype is None if there are no numbers, or the arrays are not all of one such dtype.
    """
    dtypes = {operand.dtype for operand in operands if type(operand) is _ndarray}
    numbers = [i for i, operand in enumerate(operands) if type(operand) in (float, int)]
    dtype = dtypes.pop() if len(dtypes) == 1 and numbers else None
    is_half = dtype is not None and dtype.itemsize == 2 and dtype.kind not in "iu"
    return (dtype if is_half else None), numbers


def _with_rounded_numbers(run: Run, operands: Sequence[Any]) -> Run:
    """Round numbers to the half precision of the arrays, as NumPy does."""
    dtype, numbers = _half_precision_and_numbers(operands)
    if dtype is None:
        return run

    def rounded(values: Sequence[Any]) -> Any:
        values = list(values)
        for i in numbers:
            values[i] = rounded_number(values[i], dtype)
        return run(values)

    return rounded


def _input(index: int, operand: Any) -> Expression:
    if type(operand) is _ndarray:
        return array_input(index, operand.dtype)
    if type(operand) in _NUMBERS:
        return number_input(index, type(operand))
    raise UntraceableError(f"A kernel takes no operand of type {type(operand).__name__}.")


def _plan(
    outputs: tuple[Expression, ...], operands: Sequence[Any], floats: int, low_bits: int
) -> Run:
    """Choose the layout and the kernel for such operands, and return the launch."""
    if any(output.name == "input" for output in outputs):
        raise UntraceableError("The result is one of the operands.")
    arrays = [operand for operand in operands if type(operand) is _ndarray]
    shape = broadcast_shape([array.shape for array in arrays])
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
        raise UntraceableError("A stride of an operand is not a multiple of its item size.")
    dtypes = [_dtype_of(output) for output in outputs]
    count = int(np.prod(shape, dtype=np.int64))
    sizes = [*itemsizes, *(dtype.itemsize for dtype in dtypes)]
    width = vector_length(layout, sizes, aligned=not low_bits)
    described = _describe(operands, layout, floats)
    kernel = _kernel_for(outputs, described, layout, width, count) if count else None
    strides = [
        None if order is None else tuple(step * dtype.itemsize for step in order)
        for dtype in dtypes
    ]
    constants = _constants(described, layout, count)
    return _runner(shape, dtypes, strides, kernel, _blocks(count, width), constants)


def _common_order(arrays: Sequence[Array], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the steps, in elements, of operands that share one order of axes but row-major.

    The results get that order too, so that transposed arrays are processed in memory order.
    """
    found: set[tuple[int, ...]] = set()
    for array in arrays:
        if array.shape == shape:
            itemsize = array.dtype.itemsize
            if array._c_contiguous or not is_dense(shape, array.strides, itemsize):
                return None
            found.add(tuple(stride // itemsize for stride in array.strides))
        elif array.size != 1:
            return None
    return found.pop() if len(found) == 1 else None


def _dtype_of(output: Expression) -> np.dtype[Any]:
    assert output.dtype is not None
    return output.dtype


def _describe(operands: Sequence[Any], layout: Layout, floats: int) -> list[Operand]:
    """Return the operands of the kernel; params that are passed as numbers come last."""
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
    """Return the launch of a formula for `count` contiguous elements of every operand."""
    source = kernel_source(outputs, described, 1, width, count + THREADS * width >= 2**31)
    kernel = _kernel_of(source, outputs, described, 1)
    return kernel.launcher(_blocks(count, width), THREADS)


def _kernel_of(
    source: str, outputs: tuple[Expression, ...], described: list[Operand], constants: int
) -> Kernel:
    letters = "".join(
        "P" if operand.dtype is not None else _LETTERS[operand.number] for operand in described
    )
    return kernel_from(source, "elementwise", letters + "P" * len(outputs) + "q" * constants)


def _blocks(count: int, width: int) -> int:
    threads = count // width + (count % width if width > 1 else 0)
    return -(-threads // THREADS)


def _runner(
    shape: tuple[int, ...],
    dtypes: list[np.dtype[Any]],
    strides: list[tuple[int, ...] | None],
    kernel: Kernel | None,
    blocks: int,
    constants: tuple[int, ...],
) -> Run:
    """Return the part of a plan that runs at every call."""
    if kernel is None:
        return lambda values: _unpack_single([_ndarray(shape, dtype) for dtype in dtypes])
    count = int(np.prod(shape, dtype=np.int64))
    sizes = [count * dtype.itemsize for dtype in dtypes]
    if len(dtypes) == 1:
        array_type = (shape, dtypes[0], strides[0])
        return kernel.allocating_launcher(blocks, THREADS, array_type, sizes[0], constants)
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
"""The expressions and operands of kernels, for `batched_variants`."""

DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
"""The dtypes that `variants` covers; kernels of other dtypes are written in the same way."""


def batched_variants(label: str, formulas: dict[str, Formulas]) -> Iterator[Source]:
    """Yield the kernels of formulas by dtype, for contiguous arrays and some for strided ones.

    Each source holds many kernels. At run time each kernel is compiled alone, from the same parts.
    """
    for dtype, found in formulas.items():
        width = full_vector_length(np.dtype(dtype).itemsize)
        for start in range(0, len(found), _JOINED):
            some = found[start : start + _JOINED]
            text = joined_source(some, 1, width)
            yield Source(f"{label} {dtype} from {start}", text)
        mixed = [
            (outputs, [operand._replace(step=k % 3) for k, operand in enumerate(operands)])
            for outputs, operands in found[:_JOINED]
        ]
        yield Source(f"{label} {dtype} in three dimensions", joined_source(mixed, 3, width))


def whole_operands(inputs: Sequence[Expression]) -> list[Operand]:
    """Return the operands of a formula with contiguous arrays, in the order of `inputs`."""
    return [Operand(None, 0, "double") if x.dtype is None else Operand(x.dtype, 1) for x in inputs]


def _unpack_single(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
