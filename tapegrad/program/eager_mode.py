"""The switch that lets every `function` run its Python code."""

from __future__ import annotations

from tapegrad.core.eager_hooks import is_hooked, on_hooks

SETTINGS = {"eager": False, "slow": False}
"""Whether functions run eagerly, and whether calls must not take the fast path."""


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Set whether every `function` runs its Python code on each call, e.g. to debug it.

    >>> run_functions_eagerly(True)
    >>> functions_run_eagerly()
    True
    >>> run_functions_eagerly(False)
    """
    SETTINGS["eager"] = bool(run_eagerly)
    _note_hooks()


def functions_run_eagerly() -> bool:
    """Return whether functions run their Python code on each call.

    >>> functions_run_eagerly()
    False
    """
    return SETTINGS["eager"]


def _note_hooks() -> None:
    SETTINGS["slow"] = SETTINGS["eager"] or is_hooked("numbers") or is_hooked("events")


on_hooks(_note_hooks)
_note_hooks()  # a switch may be on when this module is imported
