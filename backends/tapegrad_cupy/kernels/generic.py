"""The generic kernels of primitives, for operands that no kernel of this backend takes."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad_cupy.launch.replay import prevent_replay
from tapegrad_cupy.runtime.namespace import CupyNamespace

Array = Any

_xp = CupyNamespace()


def run_generic(name: str, *arrays: Array, **params: Any) -> Any:
    """Run the generic kernel of a primitive on CuPy arrays."""
    prevent_replay()
    return PRIMITIVES[name].generic_kernel(_xp)(*arrays, **params)
