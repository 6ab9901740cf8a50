"""Launch kernels with packed arguments, which is faster than CuPy's own launch.

CuPy inspects the type of every argument. Here a kernel declares its arguments once, as a format of
the struct module, and a launch packs plain numbers and addresses.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import cupy

from tapegrad_cupy.launch.replay import THREAD, enter_context, prevent_replay, record_packed_launch

OPTIONS = ("-std=c++17",)
"""The compiler options of all kernels but the row kernels."""

MOST_BYTES = 4096
"""The most bytes of arguments that CUDA passes to a kernel."""

_MOST_KERNELS = 8192

_alloc = cupy.cuda.alloc
_ndarray = cupy.ndarray
_current_device = cupy.cuda.runtime.getDevice
_current_stream = cupy.cuda.get_current_stream
_launch_kernel = cupy.cuda.driver.launchKernel


class _Buffer(threading.local):
    """The buffer of a thread for packed arguments: their size in bytes, then the arguments."""

    def __init__(self) -> None:
        enter_context()
        self.bytes = bytearray(8 + MOST_BYTES)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
        self._extra = (ctypes.c_void_p * 5)(1, address + 8, 2, address, 0)
        self.extra = ctypes.addressof(self._extra)


packing_buffer = _Buffer()


class Kernel:
    """A kernel whose arguments are numbers and addresses.

    `arguments` is a struct format with one letter per argument: P for an address, q for long long,
    i for int, d for double, f for float; "64P" is an array of 64 addresses passed by value.
    `make` returns CuPy's kernel. It is called at the first launch on each device, which compiles
    the kernel.
    """

    __slots__ = ("_functions", "_letters", "_make", "_pack", "_size")

    def __init__(self, make: Callable[[], Any], arguments: str) -> None:
        packer = struct.Struct("@Q" + arguments)
        self._make = make
        self._pack = packer.pack_into
        self._size = packer.size - 8
        self._letters = arguments
        self._functions: dict[int, int] = {}

    def __call__(self, blocks: int, threads: int, *arguments: Any, shared: int = 0) -> None:
        """Launch a one-dimensional grid on the current stream of the current device."""
        self.launch(blocks, 1, threads, shared, arguments)

    def launch(
        self, blocks: int, blocks_y: int, threads: int, shared: int, arguments: tuple[Any, ...]
    ) -> None:
        """Launch a two-dimensional grid, with dynamic shared memory of `shared` bytes."""
        prevent_replay()
        device = _current_device()
        function = self._functions.get(device) or self._compile(device, shared)
        buffer = packing_buffer
        self._pack(buffer.bytes, 0, self._size, *arguments)
        _launch_kernel(
            function, blocks, blocks_y, 1, threads, 1, 1, shared,
            _current_stream().ptr, 0, buffer.extra,
        )  # fmt: skip

    def launcher(self, blocks: int, threads: int) -> Callable[..., None]:
        """Return a function of the arguments that launches a fixed grid on the current device."""
        device = _current_device()
        function = self._functions.get(device) or self._compile(device, 0)
        pack, size, letters = self._pack, self._size, self._letters
        thread = THREAD

        def launch(*arguments: Any) -> None:
            if thread.recording is not None:
                record_packed_launch(function, blocks, threads, letters, arguments)
            buffer = packing_buffer
            pack(buffer.bytes, 0, size, *arguments)
            _launch_kernel(
                function, blocks, 1, 1, threads, 1, 1, 0, _current_stream().ptr, 0, buffer.extra
            )

        return launch

    def allocating_launcher(
        self,
        blocks: int,
        threads: int,
        array_type: tuple[tuple[int, ...], Any, tuple[int, ...] | None],
        size: int,
        constants: tuple[int, ...],
    ) -> Callable[[Sequence[Any]], Any]:
        """Return a function that allocates an array and launches the kernel to fill it.

        `array_type` is the shape, dtype and strides of the array, and `size` its bytes. The
        function takes the first arguments of the kernel. The address of the array and the
        constants follow them.
        """
        shape, dtype, strides = array_type
        launch_any = self.launcher(blocks, threads)
        function = self._functions[_current_device()]
        pack, packed = self._pack, self._size
        thread = THREAD

        # The launch is inlined, because most eager operations run this function.
        def make(values: Sequence[Any]) -> Any:
            memory = _alloc(size)
            if thread.recording is not None:
                launch_any(*values, memory.ptr, *constants)
            else:
                buffer = packing_buffer
                pack(buffer.bytes, 0, packed, *values, memory.ptr, *constants)
                _launch_kernel(
                    function, blocks, 1, 1, threads, 1, 1, 0, _current_stream().ptr, 0,
                    buffer.extra,
                )  # fmt: skip
            return _ndarray(shape, dtype, memory, strides)

        return make

    def is_compiled(self, device: int) -> bool:
        """Return whether the kernel has been compiled for a device."""
        return device in self._functions

    def prepare(self, device: int) -> None:
        """Compile the kernel for a device, the current one; launches use no dynamic memory."""
        self._compile(device, 0)

    def _compile(self, device: int, shared: int) -> int:
        kernel = self._make()
        if shared > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = shared
        self._functions[device] = address = int(kernel.kernel.ptr)
        return address


@functools.lru_cache(maxsize=_MOST_KERNELS)
def kernel_from(source: str, name: str, arguments: str) -> Kernel:
    """Return the kernel `name` of a complete source; equal sources share one kernel."""
    return Kernel(
        lambda: cupy.RawModule(code=source, options=OPTIONS).get_function(name), arguments
    )
