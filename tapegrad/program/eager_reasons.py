"""The reasons for which a call of a recorded function runs its Python code."""

from __future__ import annotations

from tapegrad.autodiff.batching import current_frame
from tapegrad.core.recorder import active_stack
from tapegrad.program.eager_mode import SETTINGS
from tapegrad.program.outer_tape import only_tapes
from tapegrad.program.record.recording import current_recording


def reason_to_run_eagerly(is_eager: bool) -> str:
    """Return why the Python code runs, "" if a program can: a switch, or an outer recorder."""
    if is_eager:
        return "it was made with jit=False"
    if SETTINGS["eager"]:
        return "run_functions_eagerly(True) was called"
    if current_recording() is not None:
        return "it became part of another recording"
    if current_frame() is not None or not only_tapes(active_stack()):
        return "vmap or a forward mode was active"
    return ""
