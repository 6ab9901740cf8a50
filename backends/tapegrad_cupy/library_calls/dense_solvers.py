"""Call cuBLAS and cuSOLVER through ctypes: triangular solves and factorizations.

CuPy refuses to call these libraries during stream capture, although they allow it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import threading
from ctypes import byref, c_int, c_size_t, c_void_p
from typing import Any

import cupy

from tapegrad.errors import BackendUnavailableError
from tapegrad_cupy.library_calls import cublaslt

LOWER, UPPER = 0, 1  # cublasFillMode_t
LEFT, RIGHT = 0, 1  # cublasSideMode_t
PLAIN, TRANSPOSED, ADJOINT = 0, 1, 2  # cublasOperation_t
_NON_UNIT = 0  # cublasDiagType_t

LETTERS = {"float32": "S", "float64": "D", "complex64": "C", "complex128": "Z"}
"""The dtypes that the libraries take, with the letter in the names of their functions."""

# The arguments after the handle: P for an address, i for an int, n for a size.
_CUBLAS = {
    "trsm": "iiiiiiPPiPi",
    "trsmBatched": "iiiiiiPPiPii",
    "getrfBatched": "iPiPPi",
    "getrsBatched": "iiiPiPPiPi",
}
_CUSOLVER = {
    "potrf_bufferSize": "iiPiP",
    "potrf": "iiPiPiP",
    "potrfBatched": "iiPiPi",
    "getrf_bufferSize": "iiPiP",
    "getrf": "iiPiPPP",
    "getrs": "iiiPiPPiP",
}
_TYPES = {"P": c_void_p, "i": c_int, "n": c_size_t}


class _Library:
    """One of the two libraries, with a handle for each device."""

    def __init__(self, name: str, prefix: str, create: str, set_stream: str) -> None:
        self._name, self._prefix = name, prefix
        self._create, self._set_stream = create, set_stream
        self._handles: dict[int, int] = {}
        self._loaded: Any = None

    @property
    def library(self) -> Any:
        if self._loaded is None:
            pathfinder = importlib.import_module("cuda.pathfinder")
            found = pathfinder.load_nvidia_dynamic_lib(self._name)
            self._loaded = ctypes.CDLL(found.abs_path)
        return self._loaded

    def handle(self, device: int, stream: int) -> int:
        """Return the handle of the current device, set to a stream."""
        handle = self._handles.get(device)
        if handle is None:
            made = c_void_p()
            function = getattr(self.library, self._create)
            function.argtypes, function.restype = [c_void_p], c_int
            self.check(function(byref(made)), "start")
            handle = self._handles[device] = made.value or 0
        self.check(self.function(self._set_stream, "P")(handle, stream), "use a stream")
        return handle

    @functools.cache  # noqa: B019 (there are two libraries, which live forever)
    def function(self, name: str, arguments: str) -> Any:
        function = getattr(self.library, name)
        function.argtypes = [c_void_p, *(_TYPES[letter] for letter in arguments)]
        function.restype = c_int
        return function

    def routine(self, letter: str, name: str, arguments: str) -> Any:
        suffix = "_v2" if name == "trsm" else ""
        return self.function(f"{self._prefix}{letter}{name}{suffix}", arguments)

    def check(self, status: int, what: str) -> None:
        """Raise an error unless a call returned success.

        During a capture the error says that the call cannot be captured, so that the program is
        split there.
        """
        if not status:
            return
        text = f"{self._name} failed to {what}: status {status}."
        if cupy.cuda.get_current_stream().is_capturing():
            raise NotImplementedError(f"A call of a library cannot be captured: {text}")
        raise BackendUnavailableError(text)


_cublas = _Library("cublas", "cublas", "cublasCreate_v2", "cublasSetStream_v2")
_cusolver = _Library("cusolver", "cusolverDn", "cusolverDnCreate", "cusolverDnSetStream")

_lock = threading.Lock()
"""Held from choosing the stream of a handle to the end of a call."""

_ONES = {
    "S": cublaslt.NUMBERS["float32"].one,
    "D": cublaslt.NUMBERS["float64"].one,
    "C": cublaslt.NUMBERS["complex64"].one,
    "Z": cublaslt.NUMBERS["complex128"].one,
}


@functools.cache
def why_missing() -> str:
    """Return why the libraries cannot be used, or "" if they can."""
    try:
        for library in (_cublas, _cusolver):
            _ = library.library
    except (ImportError, OSError, RuntimeError) as error:
        return f"cuBLAS or cuSOLVER cannot be loaded: {error}"
    return ""


def _call_cublas(letter: str, name: str, *arguments: Any) -> None:
    stream: int = cupy.cuda.get_current_stream().ptr
    device: int = cupy.cuda.runtime.getDevice()
    space = cublaslt.workspace_of(device, stream)
    with _lock:
        handle = _cublas.handle(device, stream)
        # The scratch memory of the library itself could be shared by graphs that run concurrently.
        use = _cublas.function("cublasSetWorkspace_v2", "Pn")
        _cublas.check(use(handle, space, cublaslt.WORKSPACE_BYTES), "use scratch memory")
        status = _cublas.routine(letter, name, _CUBLAS[name])(handle, *arguments)
    _cublas.check(status, f"run {name}")


def _call_cusolver(letter: str, name: str, *arguments: Any) -> None:
    stream: int = cupy.cuda.get_current_stream().ptr
    device: int = cupy.cuda.runtime.getDevice()
    with _lock:
        handle = _cusolver.handle(device, stream)
        status = _cusolver.routine(letter, name, _CUSOLVER[name])(handle, *arguments)
    _cusolver.check(status, f"run {name}")


def solve_triangular(
    letter: str, side: int, uplo: int, op: int, sizes: tuple[int, int], a: int, lda: int, b: int,
    ldb: int, count: int = 0,
) -> None:  # fmt: skip
    """Solve op(A) X = B, or X op(A) = B from the right; X replaces B, which has these sizes.

    With a `count`, `a` and `b` are the addresses of arrays of so many addresses on the device.
    """
    one = ctypes.addressof(_ONES[letter])
    arguments = (side, uplo, op, _NON_UNIT, *sizes, one, a, lda, b, ldb)
    if count:
        _call_cublas(letter, "trsmBatched", *arguments, count)
    else:
        _call_cublas(letter, "trsm", *arguments)


@functools.cache
def _space(letter: str, name: str, uplo_or_rows: int, n: int, device: int) -> int:
    elements = c_int()
    _call_cusolver(letter, name, uplo_or_rows, n, None, n, ctypes.addressof(elements))
    return elements.value


def factor_cholesky(letter: str, uplo: int, n: int, a: int, info: int) -> None:
    """Replace a matrix by its Cholesky factor.

    The number at `info` becomes 0, or the order of the minor that is not positive definite.
    """
    elements = _space(letter, "potrf_bufferSize", uplo, n, cupy.cuda.runtime.getDevice())
    scratch = _scratch(letter, elements)
    _call_cusolver(letter, "potrf", uplo, n, a, n, scratch.data.ptr, elements, info)


def factor_cholesky_stack(letter: str, uplo: int, n: int, a: int, info: int, count: int) -> None:
    """Replace matrices, whose addresses are at `a`, by their Cholesky factors."""
    _call_cusolver(letter, "potrfBatched", uplo, n, a, n, info, count)


def factor_lu(letter: str, n: int, a: int, pivots: int, info: int) -> None:
    """Replace a matrix by its LU factors."""
    elements = _space(letter, "getrf_bufferSize", n, n, cupy.cuda.runtime.getDevice())
    scratch = _scratch(letter, elements)
    _call_cusolver(letter, "getrf", n, n, a, n, scratch.data.ptr, pivots, info)


def solve_lu(
    letter: str, op: int, n: int, columns: int, a: int, pivots: int, b: int, info: int
) -> None:
    """Solve op(A) X = B from the LU factors of A; X replaces B."""
    _call_cusolver(letter, "getrs", op, n, columns, a, n, pivots, b, n, info)


def factor_lu_stack(letter: str, n: int, a: int, pivots: int, info: int, count: int) -> None:
    """Replace matrices, whose addresses are at `a`, by their LU factors."""
    _call_cublas(letter, "getrfBatched", n, a, n, pivots, info, count)


def solve_lu_stack(
    letter: str, op: int, n: int, columns: int, a: int, pivots: int, b: int, count: int
) -> None:
    """Solve op(A) X = B for matrices and right-hand sides whose addresses are at `a` and `b`."""
    state = c_int()
    address = ctypes.addressof(state)
    _call_cublas(letter, "getrsBatched", op, n, columns, a, n, pivots, b, n, address, count)


def _scratch(letter: str, elements: int) -> Any:
    # Memory is reused in the order of the stream, so it may be freed after the call.
    size = {"S": 4, "D": 8, "C": 8, "Z": 16}[letter]
    return cupy.empty(max(1, elements) * size, cupy.uint8)
