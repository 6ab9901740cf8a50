"""LayoutMap: layouts of variables by patterns of their paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.keras.distribution.mesh import DeviceMesh, TensorLayout


class LayoutMap(MutableMapping[str, Any]):
    """A dictionary of layouts, whose keys are regular expressions for paths of variables.

    >>> layouts = LayoutMap(DeviceMesh((1,), ["model"]))
    >>> layouts["dense.*kernel"] = (None, "model")
    >>> layouts["dense_1/kernel"].axes, layouts["conv/kernel"]
    ((None, 'model'), None)
    """

    def __init__(self, device_mesh: DeviceMesh) -> None:
        self.device_mesh = device_mesh
        self._layouts: dict[str, TensorLayout] = {}

    def __getitem__(self, key: str) -> Any:
        if key in self._layouts:
            return self._layouts[key]
        found = [pattern for pattern in self._layouts if re.search(pattern, key)]
        if len(found) > 1:
            raise ArgumentError(
                f"The path {key!r} matches several keys of the LayoutMap: {found}. "
                "Write keys that match one path each."
            )
        return self._layouts[found[0]] if found else None

    def __setitem__(self, key: str, layout: Any) -> None:
        if key in self._layouts:
            raise ArgumentError(f"The LayoutMap already has a layout for {key!r}.")
        if isinstance(layout, tuple | list):
            layout = TensorLayout(tuple(layout))
        if not isinstance(layout, TensorLayout):
            raise ArgumentError(
                f"A layout is a TensorLayout or a tuple of names. Got {type(layout).__name__}."
            )
        if layout.device_mesh is None:
            layout.device_mesh = self.device_mesh
        self._layouts[key] = layout

    def __delitem__(self, key: str) -> None:
        del self._layouts[key]

    def __len__(self) -> int:
        return len(self._layouts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layouts)
