"""The choice of the accelerator for a sweep over raw arrays."""

from __future__ import annotations

from tapegrad.autodiff.accelerator import Accelerator, Cotangents
from tapegrad.autodiff.plan import Plan
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.engine.array_sweep import ArrayAccelerator, ReusingAccelerator


def make_accelerator(plan: Plan, cotangents: Cotangents) -> Accelerator:
    """Return the fastest accelerator for the arrays that a sweep starts with."""
    first, *others = cotangents.values()
    array_type = type(first)
    has_one_type = not others or all([type(other) is array_type for other in others])
    if has_one_type and capabilities_of(array_type).pullbacks is not None:
        # Imported here because only devices need it, and `import tapegrad` is cheap.
        from tapegrad.engine.device_sweep import DeviceAccelerator

        return DeviceAccelerator(plan, cotangents, array_type)
    if hasattr(first.dtype, "kind") and all([hasattr(other.dtype, "kind") for other in others]):
        return ArrayAccelerator(plan, cotangents)
    return ReusingAccelerator(plan, cotangents)
