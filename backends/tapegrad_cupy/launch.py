"""Kernel launches with packed arguments: the cheapest way from Python onto the device.

CuPy's own launch looks at the type of every argument. Here a kernel says once what it takes, as a
format of the struct module, and a launch packs plain numbers and addresses.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import cupy

from tapegrad_cupy.replay import THREAD, enter_context, packed_launch, refuse

MOST_BYTES = 4096
"""What CUDA lets a kernel take as arguments."""

_alloc = cupy.cuda.alloc
_ndarray = cupy.ndarray
_current_device = cupy.cuda.runtime.getDevice
_current_stream = cupy.cuda.get_current_stream
_launch_kernel = cupy.cuda.driver.launchKernel


class _Buffer(threading.local):
    """Where a thread packs arguments: their number of bytes first, then themselves."""

    def __init__(self) -> None:
        enter_context()
        self.bytes = bytearray(8 + MOST_BYTES)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
        self._extra = (ctypes.c_void_p * 5)(1, address + 8, 2, address, 0)
        self.extra = ctypes.addressof(self._extra)


packing_buffer = _Buffer()


class Kernel:
    """A kernel that is launched by numbers and addresses.

    `arguments` is a struct format with one letter per argument: P for an address, q for long long,
    i for int, d for double, f for float; "64P" is an array of 64 addresses passed by value.
    `make` returns CuPy's kernel; it is called, and the kernel compiled, at the first launch on a
    device.
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
        """Launch on the current stream of the current device, with a grid of one dimension."""
        self.launch(blocks, 1, threads, shared, arguments)

    def launch(
        self, blocks: int, blocks_y: int, threads: int, shared: int, arguments: tuple[Any, ...]
    ) -> None:
        """The same with a grid of two dimensions."""
        refuse()
        device = _current_device()
        function = self._functions.get(device) or self._compile(device, shared)
        buffer = packing_buffer
        self._pack(buffer.bytes, 0, self._size, *arguments)
        _launch_kernel(
            function, blocks, blocks_y, 1, threads, 1, 1, shared,
            _current_stream().ptr, 0, buffer.extra,
        )  # fmt: skip

    def launcher(self, blocks: int, threads: int) -> Callable[..., None]:
        """Return the launch on the current device with a fixed grid, as a function of arguments."""
        device = _current_device()
        function = self._functions.get(device) or self._compile(device, 0)
        pack, size, letters = self._pack, self._size, self._letters
        thread = THREAD

        def launch(*arguments: Any) -> None:
            if thread.recording is not None:
                packed_launch(function, blocks, threads, letters, arguments)
            buffer = packing_buffer
            pack(buffer.bytes, 0, size, *arguments)
            _launch_kernel(
                function, blocks, 1, 1, threads, 1, 1, 0, _current_stream().ptr, 0, buffer.extra
            )

        return launch

    def maker(
        self,
        blocks: int,
        threads: int,
        kind: tuple[tuple[int, ...], Any, tuple[int, ...] | None],
        size: int,
        constants: tuple[int, ...],
    ) -> Callable[[Sequence[Any]], Any]:
        """Return a function that makes an array and launches the kernel to fill it.

        `kind` is shape, dtype and strides of the array, and `size` its bytes. The function takes
        the kernel's first arguments; the array's address and the constants follow them.
        """
        shape, dtype, strides = kind
        launch_any = self.launcher(blocks, threads)
        function = self._functions[_current_device()]
        pack, packed = self._pack, self._size
        thread = THREAD

        # Spelled out, because most of eager work comes along here.
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

    def _compile(self, device: int, shared: int) -> int:
        kernel = self._make()
        if shared > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = shared
        self._functions[device] = address = int(kernel.kernel.ptr)
        return address
