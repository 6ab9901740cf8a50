"""A recorded program as a function of another library's arrays, primitive by primitive.

The generic kernel of a primitive is written in terms of an Array API namespace, so that it runs on
the arrays of any library that has one; a library has its own kernels where that fails or is slow.
This gives a program a peer that nobody has to write: an oracle for its values that shares neither
passes nor compiled loops with it, and a function for jax.jit and torch.compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.errors import ArgumentError
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.loops.body import Body
from tapegrad_bench.translation_jax import jax_kernels
from tapegrad_bench.translation_kernels import numpy_kernels, shared_kernels
from tapegrad_bench.translation_loops import LOOPS, TranslatedBody, loop_kernels
from tapegrad_bench.translation_missing import MISSING
from tapegrad_bench.translation_namespace import (
    Converting,
    WithBfloat16,
    is_dtype,
    namespace,
    special_functions,
)
from tapegrad_bench.translation_random import random_kernels
from tapegrad_bench.translation_torch import torch_kernels

Array = Any
Arrays = Sequence[Array]
Kernel = Callable[..., Any]
Translated = Callable[[Arrays, Arrays], tuple[list[Array], list[Array]]]

LIBRARIES = ("numpy", "jax", "torch")


class Peer:
    """A library that runs translated programs, on one device."""

    def __init__(self, name: str, device: str = "cpu") -> None:
        if name not in LIBRARIES:
            raise ArgumentError(f"A program is translated for numpy, jax or torch. Got {name!r}.")
        self.name, self.device = name, device
        self.xp = namespace(name)
        on = device if name == "torch" else None
        self.namespace: Any = (
            WithBfloat16() if name == "numpy" else Converting(self.xp, self.dtype, on)
        )
        self._kernels: dict[str, Kernel] = self._own_kernels()

    def _own_kernels(self) -> dict[str, Kernel]:
        special = special_functions(self.name)
        like = {"device": self.device} if self.name == "torch" else {}
        loops = loop_kernels(self.name, self.xp, self.dtype, **like)
        found = {**special, **shared_kernels(self), **loops}
        if "ndtri" in special:
            found |= random_kernels(self.namespace, special["ndtri"])
        if self.name == "jax":
            return found | jax_kernels(self._generic)
        return found | (numpy_kernels() if self.name == "numpy" else torch_kernels(self._generic))

    def _generic(self, name: str) -> Kernel:
        return PRIMITIVES[name].generic_kernel(self.namespace)

    def array(self, value: Any) -> Array:
        """Return an array, whose values may be on a GPU, as one of the library on its device."""
        host = np.asarray(value.get() if hasattr(value, "get") else value)
        if self.name == "numpy":
            return host.copy()
        if self.name == "jax":
            import jax

            return jax.device_put(host, jax.devices("gpu" if self.device == "cuda" else "cpu")[0])
        is_short = host.dtype.name == "bfloat16"  # which torch does not take from NumPy
        found = self.xp.asarray(np.array(host.view(np.int16) if is_short else host))
        return (found.view(self.xp.bfloat16) if is_short else found).to(self.device)

    def host(self, array: Array) -> np.ndarray:
        """Return an array of the library as one of NumPy."""
        if self.name != "torch":
            return np.asarray(array)
        found = array.detach().resolve_conj().resolve_neg().cpu()
        if found.dtype is not self.xp.bfloat16:
            return np.asarray(found.numpy())
        import ml_dtypes

        return np.asarray(found.view(self.xp.int16).numpy()).view(ml_dtypes.bfloat16)

    def constant(self, array: Array) -> Array:
        """Return an array through which the library propagates no gradient."""
        if self.name == "jax":
            import jax

            return jax.lax.stop_gradient(array)
        return array.detach() if self.name == "torch" else array

    def kernel(self, primitive: Primitive) -> Kernel:
        """Return the function of the library that computes a primitive."""
        if primitive.name in MISSING[self.name]:
            raise ArgumentError(f"{self.name} has no translation of {primitive.name}.")
        return self.named(primitive.name)

    def named(self, name: str) -> Kernel:
        """Return the kernel of a primitive by its name."""
        found = self._kernels.get(name)
        if found is None:
            found = self._kernels[name] = self._generic(name)
        return found

    def dtype(self, dtype: Any) -> Any:
        """Return the dtype of the library."""
        return dtype if self.name == "numpy" else getattr(self.xp, np.dtype(dtype).name)

    def param(self, value: Any) -> Any:
        """Return a parameter of a call with the dtypes and arrays of the library."""
        if is_dtype(value):
            return self.dtype(value)
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, Body):
            return self._body(value)
        return type(value)(map(self.param, value)) if type(value) in (tuple, list) else value

    def _body(self, body: Body) -> TranslatedBody:
        graph = body.recorded
        run = translated(graph, self)
        return TranslatedBody(
            body.layout, graph.inputs, graph.outputs, lambda x: run(x, [])[0], self._operand
        )

    def _operand(self, value: Any, spec: Value) -> Array:
        """Return an operand of a loop as an array with the dtype of a value."""
        if hasattr(value, "dtype"):
            return value
        return self.array(np.asarray(value, spec.dtype))


def translated(graph: Graph, peer: Peer) -> Translated:
    """Return a function of the arrays of inputs and variables, in the order of the graph.

    It returns the outputs and the new values of variables. The library can differentiate it. A
    primitive that the library cannot compute raises ArgumentError with its name.
    """
    steps = [(call, peer.kernel(call.primitive), _params(call, peer)) for call in graph.calls]
    constants = {number: peer.array(value) for number, value in graph.constants.items()}

    def run(inputs: Arrays, variables: Arrays) -> tuple[list[Array], list[Array]]:
        values: dict[int, Array] = dict(constants)
        values.update(zip([value.number for value in graph.inputs], inputs, strict=True))
        values.update(
            zip([value.number for value in graph.variables.values()], variables, strict=True)
        )
        for call, kernel, params in steps:
            operands = [values[o.number] if isinstance(o, Value) else o for o in call.operands]
            results = computed(call, kernel, operands, params, peer)
            if _is_constant(call.primitive):
                results = [peer.constant(result) for result in results]
            values.update(zip([value.number for value in call.results], results, strict=True))
        return (
            [values[value.number] for value in graph.outputs],
            [values[value.number] for value in graph.written.values()],
        )

    return run


def _is_constant(primitive: Primitive) -> bool:
    """Say whether no gradient passes; a loop passes those of its body."""
    if primitive.name in LOOPS:
        return False
    return primitive.name == "stop_gradient" or not primitive.differentiable


def _params(call: Call, peer: Peer) -> dict[str, Any]:
    return {name: peer.param(value) for name, value in call.params.items()}


def computed(
    call: Call, kernel: Kernel, operands: list[Any], params: dict[str, Any], peer: Peer
) -> list[Array]:
    """Return the results of one call, in the recorded dtypes."""
    if peer.name == "torch":  # its functions take no numbers in place of arrays
        operands = _with_arrays(call, operands, peer)
    found = kernel(*operands, **params)
    results = found if isinstance(found, tuple | list) else (found,)
    # A library may compute in a wider dtype, e.g. a mean of integers.
    wanted = [peer.dtype(value.dtype) for value in call.results]
    return [
        result if result.dtype == dtype else peer.xp.astype(result, dtype)
        for result, dtype in zip(results, wanted, strict=True)
    ]


def _with_arrays(call: Call, operands: list[Any], peer: Peer) -> list[Any]:
    """Turn numbers into arrays of the dtype that the call computes in."""
    dtypes = [value.dtype for value in call.reads if value.dtype != np.bool_]
    numbers = [type(o) for o in operands if type(o) in (complex, float, int)]
    if not numbers or not call.reads:
        return operands
    wide = np.result_type(*(dtypes or [call.results[0].dtype]))
    if complex in numbers or (float in numbers and wide.kind in "iub"):
        wide = call.results[0].dtype
    dtype = peer.dtype(wide)
    return [
        peer.xp.asarray(o, dtype=dtype, device=peer.device)
        if type(o) in (complex, float, int)
        else o
        for o in operands
    ]
