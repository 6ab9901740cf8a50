"""DeviceMesh and TensorLayout: processes in a grid, and tensors that are divided along its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.values.device import default_device
from tapegrad.core.world import current_world
from tapegrad.errors import ArgumentError


def list_devices(device_type: str | None = None) -> list[str]:
    """Return one device per process, such as "cpu:0": the number is the rank.

    >>> list_devices("cpu")
    ['cpu:0']
    """
    kind = (device_type or default_device().partition(":")[0]).lower()
    return [f"{kind}:{rank}" for rank in range(current_world().size)]


def get_device_count(device_type: str | None = None) -> int:
    """Return the number of devices, which is that of processes.

    >>> get_device_count()
    1
    """
    return len(list_devices(device_type))


class DeviceMesh:
    """Devices in a grid with named axes, such as ("batch", "model").

    Each process has one device, and the mesh has all of them.

    >>> mesh = DeviceMesh((1, 1), ["batch", "model"])
    >>> mesh.shape, mesh.axis_names, mesh.group_along("model")
    ((1, 1), ['batch', 'model'], (0,))
    """

    def __init__(
        self, shape: Sequence[int], axis_names: Sequence[str], devices: Any = None
    ) -> None:
        if not shape or len(shape) != len(axis_names):
            raise ArgumentError(
                f"A DeviceMesh needs one name per axis. Got shape {tuple(shape)!r} and names "
                f"{list(axis_names)!r}."
            )
        found = np.array(list_devices() if devices is None else devices).flatten()
        if found.size != int(np.prod(shape)) or found.size != current_world().size:
            raise ArgumentError(
                f"A DeviceMesh of shape {tuple(shape)} needs {int(np.prod(shape))} processes with "
                f"one device each. There are {current_world().size} processes and {found.size} "
                "devices; start the program with: tapegrad run -n COUNT PROGRAM."
            )
        self.shape, self.axis_names = tuple(int(n) for n in shape), list(axis_names)
        self.devices = found.reshape(self.shape)

    def size_of(self, axis: str) -> int:
        """Return the number of processes along an axis."""
        return self.shape[self._place(axis)]

    def group_along(self, axis: str) -> tuple[int, ...]:
        """Return the ranks that differ from this process in their position along an axis only."""
        ranks = np.arange(current_world().size).reshape(self.shape)
        here = np.unravel_index(current_world().rank, self.shape)
        place = self._place(axis)
        index = tuple(slice(None) if k == place else int(n) for k, n in enumerate(here))
        return tuple(int(rank) for rank in ranks[index])

    def _place(self, axis: str) -> int:
        if axis not in self.axis_names:
            raise ArgumentError(f"The mesh has axes {self.axis_names}. Got {axis!r}.")
        return self.axis_names.index(axis)

    def __repr__(self) -> str:
        return f"<DeviceMesh shape={self.shape}, axis_names={self.axis_names}>"


class TensorLayout:
    """The axis of the mesh along which each axis of a tensor is divided, None for whole axes.

    >>> TensorLayout([None, "model"], DeviceMesh((1,), ["model"])).axes
    (None, 'model')
    """

    def __init__(self, axes: Sequence[str | None], device_mesh: DeviceMesh | None = None) -> None:
        self._axes = tuple(axes)
        self._mesh: DeviceMesh | None = None
        if device_mesh is not None:
            self.device_mesh = device_mesh

    @property
    def axes(self) -> tuple[str | None, ...]:
        """The names by axis of the tensor."""
        return self._axes

    @property
    def device_mesh(self) -> DeviceMesh | None:
        """The mesh; it can be set once."""
        return self._mesh

    @device_mesh.setter
    def device_mesh(self, mesh: DeviceMesh) -> None:
        if self._mesh is not None:
            raise ArgumentError("The mesh of a TensorLayout cannot be replaced.")
        for name in self._axes:
            if name is not None and name not in mesh.axis_names:
                raise ArgumentError(
                    f"A TensorLayout with axes {self._axes} does not fit a mesh with axes "
                    f"{mesh.axis_names}: it has no {name!r}."
                )
        self._mesh = mesh

    def __repr__(self) -> str:
        return f"<TensorLayout axes={self._axes}>"
