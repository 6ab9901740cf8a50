"""The switch for results that are the same bits in every run, as TensorFlow names it."""

from __future__ import annotations

import os

_settings = {"on": os.environ.get("TF_DETERMINISTIC_OPS", "").lower() in ("1", "true")}


def enable_op_determinism() -> None:
    """Let every operation give the same bits in each run on the same machine.

    On a GPU, sums of entries with equal indices are then added in a fixed order, which takes
    longer; functions wait for their compiled form. The environment variable
    `TF_DETERMINISTIC_OPS=1` does the same.

    >>> import tapegrad
    >>> tapegrad.config.experimental.enable_op_determinism()
    >>> tapegrad.config.experimental.is_op_determinism_enabled()
    True
    >>> tapegrad.config.experimental.disable_op_determinism()
    """
    _settings["on"] = True


def disable_op_determinism() -> None:
    """Allow faster operations whose last bits differ between runs, which is the default.

    >>> import tapegrad
    >>> tapegrad.config.experimental.disable_op_determinism()
    >>> tapegrad.config.experimental.is_op_determinism_enabled()
    False
    """
    _settings["on"] = False


def is_op_determinism_enabled() -> bool:
    """Return whether operations give the same bits in each run.

    >>> is_op_determinism_enabled()
    False
    """
    return _settings["on"]
