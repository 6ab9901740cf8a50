"""The schedule and the source of any loop whose arrays have known layouts."""

from __future__ import annotations

from collections.abc import Sequence

from tapegrad.core.trace.loop import Loop
from tapegrad_cupy.kernels.loops.geometry import Geometry
from tapegrad_cupy.kernels.loops.schedule import Schedule, schedule
from tapegrad_cupy.kernels.loops.source import loop_source
from tapegrad_cupy.kernels.loops.stages_schedule import stages_schedule
from tapegrad_cupy.kernels.loops.stages_source import stages_source


def scheduled_source(
    loop: Loop, geometry: Geometry, in_place: Sequence[int | None]
) -> tuple[Schedule, str]:
    """Return the schedule and the source of the kernel `loop`.

    Raise UntraceableError if there is no CUDA code for the loop.
    """
    if loop.stages:
        plan = stages_schedule(loop, geometry)
        return plan, stages_source(loop, geometry, plan, in_place)
    plan = schedule(geometry, loop.writes)
    return plan, loop_source(loop, geometry, plan, in_place)
