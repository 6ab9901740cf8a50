"""Call cuBLASLt through ctypes: the library, handles and workspaces, and prepared products.

CuPy's calls of cuBLAS are not allowed during stream capture, and lack stacks in bfloat16.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from ctypes import byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

import cupy

from tapegrad.errors import BackendUnavailableError
from tapegrad_cupy.library_calls import product_search
from tapegrad_cupy.library_calls.library_replay import ReplayedCall, is_capturing
from tapegrad_cupy.library_calls.product_steps import Gemm
from tapegrad_cupy.library_calls.replay_check import Output

WORKSPACE_BYTES = 32 * 2**20
"""Scratch memory per stream, of the size that NVIDIA's manual recommends for Hopper."""


# The library

_SIGNATURES: dict[str, list[Any]] = {
    "cublasLtCreate": [c_void_p],
    "cublasLtMatmulDescCreate": [c_void_p, c_int, c_int],
    "cublasLtMatmulDescSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatmulDescDestroy": [c_void_p],
    "cublasLtMatrixLayoutCreate": [c_void_p, c_int, c_uint64, c_uint64, c_int64],
    "cublasLtMatrixLayoutSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatrixLayoutDestroy": [c_void_p],
    "cublasLtMatmulPreferenceCreate": [c_void_p],
    "cublasLtMatmulPreferenceSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatmulPreferenceDestroy": [c_void_p],
    "cublasLtMatmulAlgoGetHeuristic": [*[c_void_p] * 7, c_int, c_void_p, c_void_p],
    "cublasLtMatmul": [*[c_void_p] * 14, c_size_t, c_void_p],
}


def _load() -> tuple[Any, str]:
    """Return the library and "", or None and the reason why it cannot be loaded."""
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
        found = pathfinder.load_nvidia_dynamic_lib("cublasLt")
        library = ctypes.CDLL(found.abs_path)
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
        library.cublasLtGetStatusString.argtypes = [c_int]
        library.cublasLtGetStatusString.restype = c_char_p
        library.cublasLtGetVersion.restype = c_size_t
    except (ImportError, OSError, AttributeError, RuntimeError) as error:
        return None, f"cuBLASLt cannot be loaded: {error}"
    return library, ""


LIBRARY, REASON = _load()
"""The library, or None and the reason why it cannot be loaded."""

_multiply: Any = getattr(LIBRARY, "cublasLtMatmul", None)
_describe: Any = getattr(LIBRARY, "cublasLtMatmulDescSetAttribute", None)

_SUCCESS, _INVALID, _NOT_SUPPORTED = 0, 7, 15


class UnsupportedError(Exception):
    """The library has no algorithm for a product."""


def check(status: int, what: str) -> None:
    """Raise an error unless a call of the library returned success."""
    if status == _SUCCESS:
        return
    if status == _NOT_SUPPORTED:
        raise UnsupportedError(what)
    text = (LIBRARY.cublasLtGetStatusString(status) or b"unknown status").decode()
    raise BackendUnavailableError(f"cuBLASLt failed to {what}: {text} (status {status}).")


# Number formats: cudaDataType_t of the elements and of the scale factors, cublasComputeType_t


class Numbers(NamedTuple):
    """The constants by which elements of one dtype are stored, multiplied and added."""

    data: int
    scale: int
    compute: int
    reductions: int
    one: Any
    zero: Any


_R32, _R64, _R16, _C32, _C64, _RB16 = 0, 1, 2, 4, 5, 14
_COMPUTE_32, _COMPUTE_64, _COMPUTE_TF32 = 68, 70, 77
# Partial sums along the depth are added in float32, never in the 16 bits of the result.
_ADD_ANYWHERE, _ADD_IN_FLOAT32 = 7, 2
_FLOAT = (ctypes.c_float(1), ctypes.c_float(0))
_DOUBLE = (ctypes.c_double(1), ctypes.c_double(0))
_COMPLEX = ((ctypes.c_float * 2)(1, 0), (ctypes.c_float * 2)())
_DOUBLE_COMPLEX = ((ctypes.c_double * 2)(1, 0), (ctypes.c_double * 2)())

NUMBERS = {
    "float16": Numbers(_R16, _R32, _COMPUTE_32, _ADD_IN_FLOAT32, *_FLOAT),
    "bfloat16": Numbers(_RB16, _R32, _COMPUTE_32, _ADD_IN_FLOAT32, *_FLOAT),
    "float32": Numbers(_R32, _R32, _COMPUTE_32, _ADD_ANYWHERE, *_FLOAT),
    "float64": Numbers(_R64, _R64, _COMPUTE_64, _ADD_ANYWHERE, *_DOUBLE),
    "complex64": Numbers(_C32, _C32, _COMPUTE_32, _ADD_ANYWHERE, *_COMPLEX),
    "complex128": Numbers(_C64, _C64, _COMPUTE_64, _ADD_ANYWHERE, *_DOUBLE_COMPLEX),
}

ITEM_SIZES = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip


# Handles and workspaces

_handles: dict[int, int] = {}
_workspaces: dict[tuple[int, int], Any] = {}


def handle_of(device: int) -> int:
    """Return the handle of the current device, whose number is `device`."""
    if device not in _handles:
        handle = c_void_p()
        check(LIBRARY.cublasLtCreate(byref(handle)), f"start on device {device}")
        _handles[device] = handle.value or 0
    return _handles[device]


def workspace_of(device: int, stream: int) -> int:
    """Return the address of a stream's scratch memory, which is allocated at its first use.

    Streams run concurrently, so each has its own.
    """
    space = _workspaces.get((device, stream))
    if space is None:
        space = _workspaces[device, stream] = cupy.empty(WORKSPACE_BYTES, cupy.uint8)
    address: int = space.data.ptr
    return address


def exchange_workspace(device: int, stream: int, space: Any) -> Any:
    """Replace the scratch memory of a stream, and return the previous one; both may be None.

    Captured products keep using the memory that the stream had during the capture.
    """
    before = _workspaces.pop((device, stream), None)
    if space is not None:
        _workspaces[device, stream] = space
    return before


# One product

_TRANSPOSE_A, _TRANSPOSE_B = 3, 4  # cublasLtMatmulDescAttributes_t
_EPILOGUE, _VECTOR_POINTER, _VECTOR_TYPE = 7, 8, 26
_BATCH_COUNT, _BATCH_STRIDE = 5, 6  # cublasLtMatrixLayoutAttribute_t
_MOST_WORKSPACE, _REDUCTIONS, _ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # cublasLtMatmulPreference...


# cublasLtEpilogue_t: operations on D = A B + C before it is stored. A bias has one element per row
# of D. The sums of op(A) or op(B) over the depth are an additional result.
PLAIN, RELU, BIAS, GELU, SUMS_OF_A, SUMS_OF_B = 1, 2, 4, 32, 256, 512

VECTOR_ALIGNMENT = 16
"""The alignment in bytes of a bias or of sums."""

_SMALL = 1 << 25
"""Multiplications of a product that takes a few microseconds."""

_DEEP = 512
"""The depth from which two launches are faster than one (measured on an H200)."""


class _Choice(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""

    _fields_ = [
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", ctypes.c_float),
        ("reserved", c_int * 4),
    ]


class Product:
    """A product prepared for one device; a call passes only addresses.

    The descriptors and the algorithm are created once. The vector is the bias that an epilogue
    reads, or the sums that it writes.
    """

    __slots__ = (
        "__weakref__", "_a", "_b", "_c", "_choice", "_choices", "_d", "_description", "_device",
        "_handle", "_key", "_lock", "_numbers", "_one", "_product", "_sum", "_vector", "_zero",
    )  # fmt: skip

    def __init__(
        self, gemm: Gemm, dtype: str, tf32: bool, device: int, epilogue: int = PLAIN
    ) -> None:
        numbers = self._numbers = NUMBERS[dtype]
        tf32 = tf32 and numbers.data in (_R32, _C32)
        self._device = device
        self._handle = handle_of(device)
        self._description = _create("MatmulDesc", _COMPUTE_TF32 if tf32 else numbers.compute,
                                    numbers.scale)  # fmt: skip
        weakref.finalize(self, _destroy, "MatmulDesc", self._description).atexit = False
        _set("MatmulDesc", self._description, _TRANSPOSE_A, c_int32(gemm.transpose_a))
        _set("MatmulDesc", self._description, _TRANSPOSE_B, c_int32(gemm.transpose_b))
        self._lock = threading.Lock()
        self._vector = c_void_p()
        if epilogue != PLAIN:
            self._end_with(epilogue)
        a = (gemm.rows, gemm.depth)
        b = (gemm.depth, gemm.columns)
        self._a = self._layout(a[::-1] if gemm.transpose_a else a, gemm.lda, gemm, gemm.stride_a)
        self._b = self._layout(b[::-1] if gemm.transpose_b else b, gemm.ldb, gemm, gemm.stride_b)
        self._d = self._layout((gemm.rows, gemm.columns), gemm.rows, gemm, gemm.stride_d)
        self._c = self._d
        if gemm.ldc:
            self._c = self._layout((gemm.rows, gemm.columns), gemm.ldc, gemm, gemm.stride_d)
        # Without scratch memory a product is one launch. A second launch, which adds partial
        # products, pays only for large or deep products. Sums may need scratch memory.
        work = gemm.batch * gemm.rows * gemm.columns * gemm.depth
        shallow = gemm.depth < _DEEP
        alone = work <= _SMALL and shallow and not epilogue & (SUMS_OF_A | SUMS_OF_B)
        space = 0 if alone else WORKSPACE_BYTES
        most = product_search.MOST if product_search.is_searched(work) else 1
        choices = self._choose(gemm.alignment, space, epilogue, most)
        self._choice = choices[0]
        self._choices = choices if len(choices) > 1 else None
        self._key = (gemm, dtype, tf32, epilogue)
        self._one, self._zero = ctypes.addressof(numbers.one), ctypes.addressof(numbers.zero)
        outputs = _outputs(gemm, ITEM_SIZES[dtype], epilogue)
        self._product = ReplayedCall(self._by_library, outputs)
        self._sum = ReplayedCall(self._by_library, outputs)

    def _layout(self, shape: tuple[int, int], leading: int, gemm: Gemm, stride: int) -> int:
        layout = _create("MatrixLayout", self._numbers.data, *shape, leading)
        weakref.finalize(self, _destroy, "MatrixLayout", layout).atexit = False
        if gemm.batch > 1:
            _set("MatrixLayout", layout, _BATCH_COUNT, c_int32(gemm.batch))
            _set("MatrixLayout", layout, _BATCH_STRIDE, c_int64(stride))
        return layout

    def _end_with(self, epilogue: int) -> None:
        _set("MatmulDesc", self._description, _EPILOGUE, c_uint32(epilogue))
        if epilogue & (BIAS | SUMS_OF_A | SUMS_OF_B):
            _set("MatmulDesc", self._description, _VECTOR_TYPE, c_int32(self._numbers.data))
            # The heuristic reads the alignment of the vector from this address.
            self._vector.value = VECTOR_ALIGNMENT
            _set("MatmulDesc", self._description, _VECTOR_POINTER, self._vector)

    def _choose(
        self, alignment: int, workspace: int, epilogue: int, most: int
    ) -> Sequence[_Choice]:
        """Return the algorithms that the library recommends for at most this much scratch memory.

        The one that it expects to be the fastest is the first, and there is at least one.
        """
        name = "MatmulPreference"
        preference = _create(name)
        try:
            _set(name, preference, _MOST_WORKSPACE, c_uint64(workspace))
            _set(name, preference, _REDUCTIONS, c_uint32(self._numbers.reductions))
            for attribute in _ALIGNMENTS:
                _set(name, preference, attribute, c_uint32(alignment))
            choices, count = (_Choice * most)(), c_int()
            status = LIBRARY.cublasLtMatmulAlgoGetHeuristic(
                self._handle, self._description, self._a, self._b, self._c, self._d, preference,
                most, byref(choices), byref(count),
            )  # fmt: skip
        finally:
            _destroy(name, preference)
        if status == _INVALID and epilogue != PLAIN:
            status = _NOT_SUPPORTED  # epilogues are not available in all dtypes
        check(status, "choose an algorithm")
        found = [choice for choice in choices[: count.value] if choice.state == _SUCCESS]
        check(_SUCCESS if found else _NOT_SUPPORTED, "choose an algorithm")
        return found

    def __call__(self, a: int, b: int, d: int, stream: int, c: int = 0, vector: int = 0) -> None:
        """Multiply what lies at `a` and `b` into `d`, in the stream's order.

        What lies at `c`, which may be `d`, is added if it is given. The bias, or the sums, of an
        epilogue lie at `vector`.
        """
        if self._choices is not None and c != d and not is_capturing():
            self._search((a, b, d, c, vector, workspace_of(self._device, stream)), stream)
        space = workspace_of(self._device, stream) if self._choice.workspace else 0
        call = self._sum if c else self._product
        call((a, b, d, c, vector, space), a | b | d | c | vector, stream)

    @property
    def why_not_replayed(self) -> str:
        """Why calls without a sum go through the library, or "" if they do not."""
        return self._product.reason

    def _search(self, addresses: Sequence[int], stream: int) -> None:
        """Time the recommended algorithms on the operands of the first call; keep the fastest."""
        choices, self._choices = self._choices, None
        if choices is None:
            return  # another thread does it

        def run(number: int) -> bool:
            try:
                self._run(addresses, stream, choices[number])
            except (UnsupportedError, BackendUnavailableError):
                return False
            return True

        name = cupy.cuda.runtime.getDeviceProperties(self._device)["name"]
        key = product_search.key_of(self._key, name, LIBRARY.cublasLtGetVersion())
        self._choice = choices[product_search.find_fastest(len(choices), run, key)]

    def _by_library(self, addresses: Sequence[int], stream: int) -> None:
        self._run(addresses, stream, self._choice)

    def _run(self, addresses: Sequence[int], stream: int, choice: _Choice) -> None:
        a, b, d, c, vector, space = addresses
        with self._lock if vector else nullcontext():
            if vector and vector != self._vector.value:
                # The address is part of the descriptor, which the call reads. The lock keeps other
                # threads from changing it in between.
                self._vector.value = vector
                check(_describe(self._description, _VECTOR_POINTER, byref(self._vector), 8),
                      "set up a bias")  # fmt: skip
            status = _multiply(
                self._handle, self._description, self._one, a, self._a, b, self._b,
                self._one if c else self._zero,
                c or d, self._c if c else self._d, d, self._d, ctypes.addressof(choice),
                space or None, choice.workspace, stream,
            )  # fmt: skip
        if status:
            check(status, "multiply matrices")


def _outputs(gemm: Gemm, item: int, epilogue: int) -> list[Output]:
    """What a product writes, by the positions of addresses in `_by_library`."""
    matrices = (gemm.batch - 1) * gemm.stride_d + gemm.rows * gemm.columns
    has_gaps = gemm.batch > 1 and gemm.stride_d != gemm.rows * gemm.columns
    outputs = [Output(2, item * matrices, has_gaps)]
    if epilogue & SUMS_OF_A:
        outputs.append(Output(4, item * gemm.rows))
    if epilogue & SUMS_OF_B:
        outputs.append(Output(4, item * gemm.columns))
    return outputs


def _create(kind: str, *arguments: int) -> int:
    made = c_void_p()
    check(getattr(LIBRARY, f"cublasLt{kind}Create")(byref(made), *arguments), f"create a {kind}")
    return made.value or 0


def _set(kind: str, target: int, attribute: int, value: Any) -> None:
    function = getattr(LIBRARY, f"cublasLt{kind}SetAttribute")
    check(function(target, attribute, byref(value), ctypes.sizeof(value)), f"set up a {kind}")


def _destroy(kind: str, made: int) -> None:
    getattr(LIBRARY, f"cublasLt{kind}Destroy")(made)
