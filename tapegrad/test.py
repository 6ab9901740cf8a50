"""TensorFlow's `tf.test`: compare gradients with differences, and ask which devices are here."""

from __future__ import annotations

import importlib.util
import unittest
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapegrad.absent import absence as _absence
from tapegrad.autodiff.arguments import UnconnectedGradients
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.config.devices import list_logical_devices
from tapegrad.core.exports import list_exports as _list_exports
from tapegrad.core.values import host
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.test_case import TestCase

Matrix = np.ndarray

__all__ = [
    "TestCase",
    "compute_gradient",
    "gpu_device_name",
    "is_built_with_cuda",
    "is_built_with_gpu_support",
    "is_built_with_rocm",
    "is_built_with_xla",
    "is_gpu_available",
    "main",
    "max_error",
]

_list_exports(globals())


def compute_gradient(
    f: Callable[..., Any], x: Sequence[Any], delta: float | None = None
) -> tuple[tuple[Matrix, ...], tuple[Matrix, ...]]:
    """Return the analytic and the numeric Jacobians of `f` at `x`.

    There is one matrix of shape [y_size, x_size] per argument. A complex number counts as two
    reals.

    >>> analytic, numeric = compute_gradient(lambda x: x * x, [[1.0, 2.0]])
    >>> max_error(analytic, numeric) < 1e-2
    True
    """
    if not isinstance(x, list | tuple):
        raise ArgumentError(
            f"compute_gradient takes a list or tuple of arguments. Got {type(x).__name__}."
        )
    step = 1.0 / 1024 if delta is None else delta
    # New tensors: the same one may be given twice, and each argument is perturbed alone.
    arguments = [wrap(to_tensor(value).array) for value in x]
    for position, argument in enumerate(arguments):
        if not argument.dtype.is_differentiable:
            raise ArgumentTypeError(
                f"Argument {position} must have a floating dtype. Got {argument.dtype}."
            )
    analytic = tuple(_analytic(f, arguments, k) for k in range(len(arguments)))
    numeric = tuple(_numeric(f, arguments, k, step) for k in range(len(arguments)))
    return analytic, numeric


def max_error(analytic: Sequence[Matrix], numeric: Sequence[Matrix]) -> float:
    """Return the largest absolute difference between two lists of Jacobians.

    >>> max_error([np.array([[1.0, 2.0]])], [np.array([[1.0, 2.5]])])
    0.5
    """
    errors = [
        float(np.max(np.abs(a - n), initial=0.0)) for a, n in zip(analytic, numeric, strict=True)
    ]
    return max(errors, default=0.0)


def _as_reals(value: Any) -> Matrix:
    """Flatten to reals; a complex number becomes its two parts."""
    array = np.asarray(value).reshape(-1)
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], axis=1).reshape(-1)


def _analytic(f: Callable[..., Any], arguments: list[Tensor], k: int) -> Matrix:
    """Each row is the gradient of one real component of the result."""
    source = arguments[k]
    with GradientTape(persistent=True) as tape:
        tape.watch(source)
        result = f(*arguments)
    units: list[complex] = [1.0, 1j] if result.dtype.is_complex else [1.0]
    rows = []
    for index in np.ndindex(*result.shape):
        for unit in units:
            seed = np.zeros(tuple(result.shape), result.dtype.dtype)
            seed[index] = unit
            upstream = wrap(host.place_like(seed, result.array))
            gradient = tape.gradient(result, source, upstream, UnconnectedGradients.ZERO)
            rows.append(_as_reals(gradient.numpy()))
    width = source.size * (2 if source.dtype.is_complex else 1)
    return np.array(rows).reshape(len(rows), width)


def _numeric(f: Callable[..., Any], arguments: list[Tensor], k: int, delta: float) -> Matrix:
    """Each column is a central difference in one real component of the argument."""
    base = arguments[k].numpy()
    units: list[complex] = [1.0, 1j] if base.dtype.kind == "c" else [1.0]
    columns = []
    for index in np.ndindex(*base.shape):
        for unit in units:
            high, low = np.array(base), np.array(base)
            high[index] += delta * unit
            low[index] -= delta * unit
            above, below = _at(f, arguments, k, high), _at(f, arguments, k, low)
            columns.append((above - below) / (2 * delta))
    height = _as_reals(f(*arguments).numpy()).size
    return np.array(columns).reshape(len(columns), height).T


def _at(f: Callable[..., Any], arguments: list[Tensor], k: int, value: Matrix) -> Matrix:
    moved = list(arguments)
    moved[k] = wrap(host.place_like(value, arguments[k].array))
    return _as_reals(f(*moved).numpy())


# Devices


def gpu_device_name() -> str:
    """Return the name of the first visible GPU, which `device` takes, or "" if there is none.

    >>> gpu_device_name() in ("", "/device:GPU:0")
    True
    """
    found = list_logical_devices("GPU")
    return found[0].name if found else ""


def is_gpu_available(
    cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None
) -> bool:
    """Return whether there is a visible GPU; all that tapegrad uses are CUDA GPUs.

    >>> is_gpu_available() == bool(gpu_device_name())
    True
    """
    if min_cuda_compute_capability is not None:
        raise ArgumentError(
            "is_gpu_available does not know compute capabilities. Leave out "
            "min_cuda_compute_capability; tapegrad uses the GPUs that CuPy supports."
        )
    return bool(gpu_device_name())


def is_built_with_cuda() -> bool:
    """Return whether CuPy is installed, with which tapegrad uses CUDA GPUs.

    >>> is_built_with_cuda() or not is_gpu_available()
    True
    """
    return importlib.util.find_spec("cupy") is not None


def is_built_with_rocm() -> bool:
    """Return False: tapegrad uses CUDA GPUs.

    >>> is_built_with_rocm()
    False
    """
    return False


def is_built_with_xla() -> bool:
    """Return False: `function` compiles with NumPy and CUDA.

    >>> is_built_with_xla()
    False
    """
    return False


def main(argv: Any = None) -> None:
    """Run the tests of the program that calls this, as `unittest.main` does.

    >>> callable(main)
    True
    """
    unittest.main(argv=argv)


def is_built_with_gpu_support() -> bool:
    """Return whether CuPy is installed, with which tapegrad uses CUDA GPUs.

    >>> is_built_with_gpu_support() == is_built_with_cuda()
    True
    """
    return is_built_with_cuda()


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absence("test", name)
