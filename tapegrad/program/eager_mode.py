"""The switch that lets every `function` run its Python code."""

from __future__ import annotations

SETTINGS = {"eager": False}


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Set whether every `function` runs its Python code on each call, e.g. to debug it.

    >>> run_functions_eagerly(True)
    >>> functions_run_eagerly()
    True
    >>> run_functions_eagerly(False)
    """
    SETTINGS["eager"] = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Return whether functions run their Python code on each call.

    >>> functions_run_eagerly()
    False
    """
    return SETTINGS["eager"]
