"""`py_function` and `numpy_function`: Python code on values, also inside recorded functions.

Inside a recorded function the call is a step of the program, which reads values on the host like
the effects in record/effects.py. Each replay runs the Python code again.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.autodiff.arguments import UnconnectedGradients
from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values import host
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.device import device
from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.core.values.strings import StringTensor, to_any_tensor
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, RecordingError
from tapegrad.program.graph_mode import init_scope
from tapegrad.program.record.recording import current_recording

Function = Callable[..., Any]


def py_function(
    func: Function | None = None, inp: Any = None, Tout: Any = None, name: str | None = None
) -> Any:
    """Call a Python function with tensors whose values it may read; return tensors of `Tout`.

    `Tout` is a dtype, or a list of dtypes for several results. Gradients flow to the inputs if the
    function computes with tensors. In a recorded function it runs on each call, also in a branch of
    `cond` that is not taken, once more while the function is recorded, and again for its gradient.
    Its results must keep their shapes then, and it must get variables as inputs. Without `func`
    this is a decorator: `@py_function(Tout=...)`.

    >>> import tapegrad
    >>> def power(x):
    ...     return x**3 if float(x) > 0.0 else x**2
    >>> @tapegrad.function
    ... def slope(x):
    ...     with tapegrad.GradientTape() as tape:
    ...         tape.watch(x)
    ...         y = py_function(power, [x], tapegrad.float32)
    ...     return tape.gradient(y, x)
    >>> float(slope(tapegrad.constant(2.0))), float(slope(tapegrad.constant(-2.0)))
    (12.0, -4.0)
    """
    if func is None:
        return _decorator(py_function, Tout)
    _check(func, "py_function")
    inputs = [_as_tensor(value) for value in _listed(inp)]
    call = _PythonCall("py_function", func, Tout)
    if current_recording() is None or call.is_of_text(inputs):
        return call.packed(call.results(inputs))
    return call.packed(_differentiable(call)(*inputs) if inputs else _recorded(call, []))


def numpy_function(
    func: Function | None = None,
    inp: Any = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Call a Python function with NumPy arrays; return tensors of `Tout`, without gradients.

    `Tout` is a dtype, or a list of dtypes for several results. In a recorded function it runs on
    each call, as that of `py_function` does, and its results must keep their shapes. Without `func`
    this is a decorator: `@numpy_function(Tout=...)`.

    >>> import tapegrad
    >>> x = tapegrad.constant([3.0, 1.0])
    >>> numpy_function(lambda array: array * 2, [x], tapegrad.float32).tolist()
    [6.0, 2.0]
    """
    if func is None:
        return _decorator(numpy_function, Tout)
    _check(func, "numpy_function")
    inputs = [_as_tensor(value) for value in _listed(inp)]
    call = _NumpyCall("numpy_function", func, Tout)
    if current_recording() is None or call.is_of_text(inputs):
        return call.packed(call.results(inputs))
    return call.packed(_recorded(call, inputs))


def timestamp(name: str | None = None) -> Any:
    """Return the seconds since 1970; a recorded function reads the clock on each call.

    >>> bool(timestamp() > 1.7e9)
    True
    """
    return numpy_function(lambda: np.float64(time.time()), [], "float64")


def _decorator(call: Function, dtypes: Any) -> Callable[[Function], Function]:
    """Return a decorator after which a Python function is called by `call` with its arguments."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapped(*args: Any) -> Any:
            return call(function, list(args), dtypes)

        return wrapped

    return decorate


def _check(func: Any, name: str) -> None:
    if not callable(func):
        raise ArgumentTypeError(
            f"{name} takes a Python function. Got {type(func).__name__}: {func!r}."
        )


def _listed(inp: Any) -> list[Any]:
    return list(inp) if isinstance(inp, list | tuple) else [inp]


def _as_tensor(value: Any) -> Any:
    return value.read_value() if isinstance(value, Variable) else to_any_tensor(value)


# Calls


class _PythonCall:
    """A function with the dtypes of its results, and their shapes after the first call."""

    def __init__(self, step: str, function: Function, dtypes: Any) -> None:
        self._step = step
        self._function = function
        self._is_list = isinstance(dtypes, list | tuple)
        if hasattr(dtypes, "__array__"):
            raise ArgumentTypeError(
                f"{step} takes a dtype, or a list of dtypes, as Tout. Got {type(dtypes).__name__}."
            )
        self.dtypes: list[DType] = [as_dtype(d) for d in (dtypes if self._is_list else [dtypes])]
        self._shapes: list[tuple[int, ...]] | None = None

    def __repr__(self) -> str:
        return f"{self._step}({getattr(self._function, '__name__', '')})"

    def packed(self, results: Sequence[Any]) -> Any:
        """Return the results as the caller gets them: a list if `Tout` is one."""
        return list(results[: len(self.dtypes)]) if self._is_list else results[0]

    def is_of_text(self, inputs: Sequence[Any]) -> bool:
        """Return whether a call takes text only, which is known while a function is recorded."""
        count = sum([isinstance(one, StringTensor) for one in inputs])
        has_text = count > 0 or any([dtype.name == "string" for dtype in self.dtypes])
        if has_text and count < len(inputs):
            raise RecordingError(
                f"{self._step} inside a recorded function takes and returns numbers. Got text "
                "beside numbers; call it outside, or use function(jit=False)."
            )
        return has_text

    def given(self, tensor: Any) -> Any:
        """Return an input as the function gets it."""
        return tensor

    def results(self, tensors: Sequence[Tensor]) -> list[Any]:
        """Call the function, and return its results as tensors."""
        found = self._function(*[self.given(tensor) for tensor in tensors])
        if not self._is_list:
            found = [found]
        elif not isinstance(found, list | tuple):
            found = [] if found is None and not self.dtypes else [found]
        if len(found) != len(self.dtypes):
            raise ArgumentError(
                f"The function of {self._step} must return {len(self.dtypes)} results, as Tout "
                f"says. Got {len(found)}."
            )
        return [self._result(one, dtype) for one, dtype in zip(found, self.dtypes)]

    def _result(self, value: Any, dtype: DType) -> Any:
        if value is None:
            raise ArgumentTypeError(
                f"The function of {self._step} must return a value of {dtype}. Got None. "
                "For a function without results, give Tout=[]."
            )
        tensor = _as_tensor(value) if hasattr(value, "dtype") else to_any_tensor(value, dtype)
        if tensor.dtype != dtype:
            raise DTypeError(
                f"The function of {self._step} must return values of {dtype}, as Tout says. "
                f"Got {tensor.dtype}."
            )
        return tensor

    def arrays(self, given: Sequence[Any], takes: int) -> tuple[Any, ...]:
        """Call the function on the first arrays from inside a program, on their device."""
        place = backend_of(given[0]).device_of(given[0])
        with init_scope(), device(place):
            found = self.results([wrap(array) for array in given[:takes]])
            arrays = tuple([host.move(one.array, place) for one in found])
        shapes = [tuple(array.shape) for array in arrays]
        if self._shapes is None:
            self._shapes = shapes
        elif shapes != self._shapes:
            raise RecordingError(
                f"The function of {self._step} returned shapes {shapes}, and {self._shapes} when "
                "the function around it was recorded. Results must keep their shapes there; or run "
                "the function eagerly with function(jit=False)."
            )
        return arrays or (given[0],)  # a step needs a result


class _NumpyCall(_PythonCall):
    """A function of NumPy arrays."""

    def given(self, tensor: Any) -> Any:
        if isinstance(tensor, StringTensor):
            return tensor.numpy()
        return np.array(host.fetch(tensor.array, tensor.node, "numpy_function"))[()]


class _Gradient(_PythonCall):
    """The gradient of a call: takes its inputs and the gradients of its results.

    There is one for each input that can have one.
    """

    def __init__(self, call: _PythonCall, inputs: Sequence[Any]) -> None:
        floats = [x.dtype for x in inputs if x.dtype.is_differentiable]
        super().__init__("py_function", self._gradients, floats)
        self._call = call
        self._count = len(inputs)

    def _gradients(self, *tensors: Any) -> list[Any]:
        inputs, upstream = list(tensors[: self._count]), list(tensors[self._count :])
        sources = [x for x in inputs if x.dtype.is_differentiable]
        with GradientTape() as tape:
            tape.watch(sources)
            found = self._call.results(inputs)
        pairs = [(y, t) for y, t in zip(found, upstream) if y.dtype.is_differentiable]
        targets, cotangents = [y for y, _ in pairs], [t for _, t in pairs]
        zero = UnconnectedGradients.ZERO
        return list(tape.gradient(targets, sources, cotangents, unconnected_gradients=zero))


# Calls in recorded functions


def _differentiable(call: _PythonCall) -> Function:
    """Return the recorded call as a function whose gradient is another recorded call."""

    @custom_gradient
    def recorded(*inputs: Any) -> Any:
        def gradient(*upstream: Any) -> list[Any]:
            found = iter(_differentiable(_Gradient(call, inputs))(*inputs, *upstream))
            return [next(found) if x.dtype.is_differentiable else None for x in inputs]

        return _recorded(call, inputs), gradient

    return recorded


def _recorded(call: _PythonCall, inputs: Sequence[Any]) -> list[Any]:
    """Make a call that is a step of the program which is being recorded."""
    given = [*inputs] or [to_tensor(0.0)]  # a step needs an operand
    params: dict[str, Any] = {"call": call, "takes": len(inputs)}
    recording = current_recording()
    if recording is None:  # a tape outside of the function computes the gradient eagerly
        return [wrap(array) for array in _run(None, *[x.array for x in given], **params)]
    operands = [recording.adopted(x.array) for x in given]
    return [wrap(array) for array in recording.run(host_call_p, operands, params)]


def _run(xp: Any, *arrays: Any, call: _PythonCall, takes: int) -> tuple[Any, ...]:
    return call.arrays(arrays, takes)


host_call_p = Primitive("host_call", _run, differentiable=False, many=True)
host_call_p.effects = True
