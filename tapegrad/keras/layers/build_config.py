"""The arguments of `build` in model files, for layers whose `build` needs more than a shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class HasBuildConfig:
    """Layers that override these methods are built with the arguments in a file.

    Others need no entry in the file: they are built by the first call, or by their model.
    """

    def get_build_config(self) -> dict[str, Any] | None:
        """Return the arguments for `build_from_config`, or None if a call is enough."""
        return None

    def build_from_config(self, config: Mapping[str, Any]) -> None:
        """Build the layer from the result of `get_build_config`."""
        build: Any = getattr(self, "build")  # noqa: B009  # a method of the layer
        build(**config)
