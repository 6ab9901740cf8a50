"""A recorded program as a function of another library's arrays, primitive by primitive.

The generic kernel of a primitive is written in terms of an Array API namespace, so that it runs on
the arrays of any library that has one. This gives a program a peer that nobody has to write: an
oracle for its values that shares neither passes nor compiled loops with it, and a function for
jax.jit and torch.compile. Generic kernels that write into arrays, those of convolutions and pooling
among them, do not run on JAX, whose arrays are not written to.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError, MissingRuleError
from tapegrad.program.graph.graph import Call, Graph, Value

Array = Any
Arrays = Sequence[Array]
Translated = Callable[[Arrays, Arrays], tuple[list[Array], list[Array]]]

_IN_SCIPY = (
    "erf", "erfc", "erfinv", "ndtr", "ndtri", "log_ndtr", "digamma", "polygamma", "zeta", "betainc",
    "spence",
)  # fmt: skip


class Peer:
    """A library that runs translated programs."""

    def __init__(self, name: str) -> None:
        if name not in ("numpy", "jax", "torch"):
            raise ArgumentError(f"A program is translated for numpy, jax or torch. Got {name!r}.")
        self.name = name
        self.xp = _namespace(name)
        self._converting = self.xp if name == "numpy" else _Converting(self.xp, self.dtype)
        self._special = _special_functions(name)
        self._kernels: dict[str, Callable[..., Any]] = {}

    def array(self, value: Any) -> Array:
        """Return a NumPy array as one of the library."""
        return self.xp.asarray(np.asarray(value))

    def kernel(self, primitive: Primitive) -> Callable[..., Any]:
        """Return the function of the library that computes a primitive."""
        found = self._kernels.get(primitive.name)
        if found is None:
            own = {**self._special, **{n: make(self._converting) for n, make in _OWN.items()}}
            found = own.get(primitive.name) or primitive.generic_kernel(self._converting)
            self._kernels[primitive.name] = found
        return found

    def dtype(self, dtype: Any) -> Any:
        """Return the dtype of the library."""
        return dtype if self.name == "numpy" else getattr(self.xp, np.dtype(dtype).name)

    def param(self, value: Any) -> Any:
        """Return a parameter of a call with the dtypes and arrays of the library."""
        if isinstance(value, np.dtype) or (
            isinstance(value, type) and issubclass(value, np.generic)
        ):
            return self.dtype(value)
        if isinstance(value, np.ndarray):
            return self.array(value)
        return type(value)(map(self.param, value)) if type(value) in (tuple, list) else value


def translated(graph: Graph, peer: Peer) -> Translated:
    """Return a function of the arrays of inputs and variables, in the order of the graph.

    It returns the outputs and the new values of variables. A primitive that the library cannot
    compute raises ArgumentError with its name.
    """
    kernels = [(call, _kernel_of(call, peer)) for call in graph.calls]
    constants = {number: peer.array(value) for number, value in graph.constants.items()}

    def run(inputs: Arrays, variables: Arrays) -> tuple[list[Array], list[Array]]:
        values: dict[int, Array] = dict(constants)
        values.update(zip([value.number for value in graph.inputs], inputs, strict=True))
        values.update(
            zip([value.number for value in graph.variables.values()], variables, strict=True)
        )
        for call, kernel in kernels:
            _run_call(call, kernel, values, peer)
        return (
            [values[value.number] for value in graph.outputs],
            [values[value.number] for value in graph.written.values()],
        )

    return run


def _kernel_of(call: Call, peer: Peer) -> Callable[..., Any]:
    try:
        return peer.kernel(call.primitive)
    except (MissingRuleError, AttributeError) as error:
        raise ArgumentError(f"{peer.name} has no translation of {call.primitive.name}.") from error


def _run_call(call: Call, kernel: Callable[..., Any], values: dict[int, Array], peer: Peer) -> None:
    operands = [values[o.number] if isinstance(o, Value) else o for o in call.operands]
    if peer.name == "torch":  # its functions take no numbers in place of arrays
        operands = _with_arrays(call, operands, peer)
    params = {name: peer.param(value) for name, value in call.params.items()}
    found = kernel(*operands, **params)
    results = found if isinstance(found, tuple | list) else (found,)
    for value, result in zip(call.results, results, strict=True):
        # A library may compute in a wider dtype, e.g. a mean of integers.
        wanted = peer.dtype(value.dtype)
        right = result if result.dtype == wanted else peer.xp.astype(result, wanted)
        values[value.number] = right


def _with_arrays(call: Call, operands: list[Any], peer: Peer) -> list[Any]:
    """Turn numbers into arrays of the dtype that the call computes in."""
    dtypes = [value.dtype for value in call.reads if value.dtype != np.bool_]
    numbers = [type(o) for o in operands if type(o) in (complex, float, int)]
    if not numbers or not call.reads:
        return operands
    computed = np.result_type(*(dtypes or [call.results[0].dtype]))
    if complex in numbers or (float in numbers and computed.kind in "iub"):
        computed = call.results[0].dtype
    dtype = peer.dtype(computed)
    return [
        peer.xp.asarray(o, dtype=dtype) if type(o) in (complex, float, int) else o for o in operands
    ]


def _namespace(name: str) -> Any:
    if name == "torch":
        return importlib.import_module("array_api_compat.torch")
    if name == "jax":
        # Kernels ask for the device of an array, which a value inside jit does not have.
        tracer: Any = importlib.import_module("jax.core").Tracer
        tracer.device = None
    return importlib.import_module("jax.numpy" if name == "jax" else "numpy")


def _special_functions(name: str) -> Mapping[str, Callable[..., Any]]:
    """Return special functions under the names of primitives."""
    try:
        if name == "jax":
            module = importlib.import_module("jax.scipy.special")
            others = {"lgamma": "gammaln", "igamma": "gammainc", "igammac": "gammaincc"}
        elif name == "torch":
            module = importlib.import_module("torch.special")
            others = {"lgamma": "gammaln", "igamma": "gammainc", "igammac": "gammaincc"}
        else:
            module = importlib.import_module("scipy.special")
            others = {"lgamma": "gammaln", "igamma": "gammainc", "igammac": "gammaincc"}
            others["digamma"] = "psi"
    except ImportError:
        return {}
    names = {**{n: n for n in _IN_SCIPY}, **others}
    return {n: getattr(module, theirs) for n, theirs in names.items() if hasattr(module, theirs)}


class _Converting:
    """A namespace whose functions take NumPy's dtypes, and no devices: all arrays are on one."""

    def __init__(self, xp: Any, to_dtype: Callable[[Any], Any]) -> None:
        self._xp, self._to_dtype = xp, to_dtype

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._xp, name)
        if not callable(found) or isinstance(found, type):
            return _Converting(found, self._to_dtype) if isinstance(found, ModuleType) else found

        @functools.wraps(found)
        def call(*operands: Any, **params: Any) -> Any:
            operands = tuple(map(self._converted, operands))
            params = {k: self._converted(v) for k, v in params.items() if k != "device"}
            return found(*operands, **params)

        setattr(self, name, call)
        return call

    def _converted(self, value: Any) -> Any:
        is_dtype = isinstance(value, np.dtype) or (
            isinstance(value, type) and issubclass(value, np.generic)
        )
        return self._to_dtype(value) if is_dtype else value


def _cast(xp: Any, x: Array, dtype: Any) -> Array:
    is_complex = xp.isdtype(x.dtype, "complex floating")
    return xp.astype(xp.real(x) if is_complex and not _is_complex(dtype) else x, dtype)


def _is_complex(dtype: Any) -> bool:
    return "complex" in str(dtype)


def _unslice(xp: Any, t: Array, index: tuple[Any, ...], shape: tuple[int, ...]) -> Array:
    """Return zeros with `t` in a part; arrays of JAX are not written to."""
    zeros = xp.zeros(shape, dtype=t.dtype)
    if hasattr(zeros, "at"):
        return zeros.at[index].set(t)
    zeros[index] = t
    return zeros


def _erf(xp: Any, x: Array) -> Array:
    name = getattr(xp, "__name__", getattr(getattr(xp, "_xp", None), "__name__", ""))
    library = "jax" if "jax" in name else "torch" if "torch" in name else "numpy"
    return _special_functions(library)["erf"](x)


_OWN: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "square": lambda xp: lambda x: x * x,
    "reciprocal": lambda xp: lambda x: 1 / x,
    "pow": lambda xp: lambda x, y: x**y,
    "bitwise_invert": lambda xp: lambda x: ~x,
    "cast": lambda xp: lambda x, *, dtype: _cast(xp, x, dtype),
    "cast_to_integer": lambda xp: lambda x, *, dtype: _cast(xp, x, dtype),
    "gelu": lambda xp: lambda x: 0.5 * x * (1 + _erf(xp, x * 0.5**0.5)),
    "unslice": lambda xp: lambda t, *, index, shape: _unslice(xp, t, index, shape),
}
"""Primitives whose generic kernels are not for arrays of other libraries."""
