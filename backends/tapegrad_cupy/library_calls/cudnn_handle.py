"""Load cuDNN through the optional package nvidia-cudnn-frontend, and keep its handles."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import os
import threading
from typing import Any

import cupy

OLDEST = 90000
"""The lowest supported version of cuDNN: 9.0."""

_NO_ENGINE = ("No execution plans support the graph", "No valid engine configs")

_current_device = cupy.cuda.runtime.getDevice
_current_stream = cupy.cuda.get_current_stream


def lacks_engine(error: Exception) -> bool:
    """Whether cuDNN says that none of its kernels supports a call, which is not a failure."""
    return any([sentence in str(error) for sentence in _NO_ENGINE])


@functools.cache
def library() -> tuple[Any, str]:
    """Return the package and "", or None and the reason why cuDNN is not used."""
    if os.environ.get("TAPEGRAD_CUDNN") == "0":
        return None, "the environment variable TAPEGRAD_CUDNN turns it off"
    if importlib.util.find_spec("cudnn") is None:
        return None, "the package nvidia-cudnn-frontend is not installed"
    try:
        _load_shared_libraries()
        package = importlib.import_module("cudnn")
        version = package.backend_version()
        if version < OLDEST:
            return None, f"it is older than 9.0 (its version number is {version})"
        _handle(package, _current_device())
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return None, f"it cannot be loaded: {str(error).rstrip('.')}"
    return package, ""


def _load_shared_libraries() -> None:
    """Load CUDA's libraries and cuDNN, which the package looks up by name only."""
    pathfinder = importlib.import_module("cuda.pathfinder")
    for name in ("cudart", "cublasLt", "nvrtc"):
        # A library that is not found here may still be on the loader's path.
        with contextlib.suppress(RuntimeError):
            pathfinder.load_nvidia_dynamic_lib(name)
    ctypes.CDLL(_find_cudnn())


def _find_cudnn() -> str:
    """Return the path of cuDNN in an installed package, or its name for the loader."""
    spec = None
    with contextlib.suppress(ImportError):
        spec = importlib.util.find_spec("nvidia.cudnn")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = os.path.join(folder, "lib", "libcudnn.so.9")
        if os.path.exists(path):
            return path
    return "libcudnn.so.9"


class _Handles(threading.local):
    """The handles of a thread by device, and their streams. Threads must not share handles."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}
        self.stream: dict[int, int] = {}


_handles = _Handles()


def _handle(package: Any, device: int) -> int:
    handle = _handles.of.get(device)
    if handle is None:
        handle = _handles.of[device] = package.create_handle()
    return handle


def current_handle(package: Any) -> int:
    """Return the handle of the current device, set to the current stream."""
    device, stream = _current_device(), _current_stream().ptr
    handle = _handle(package, device)
    if _handles.stream.get(device) != stream:
        package.set_stream(handle, stream)
        _handles.stream[device] = stream
    return handle


def new_graph(package: Any, dtype: Any) -> Any:
    """Return an empty graph of operations that accumulate in single precision."""
    single = package.data_type.FLOAT
    return package.pygraph(
        io_data_type=dtype,
        intermediate_data_type=single,
        compute_data_type=single,
        handle=current_handle(package),
    )


def find_plans(package: Any, graph: Any) -> None:
    """Let cuDNN create execution plans for a complete graph."""
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([package.heur_mode.A, package.heur_mode.FALLBACK])
