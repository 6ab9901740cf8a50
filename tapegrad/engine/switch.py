"""Whether the engine is on."""

from __future__ import annotations

import os

_is_on = os.environ.get("TAPEGRAD_PLAIN", "") in ("", "0")


def is_on() -> bool:
    """Whether launches, host time and memory are saved; `TAPEGRAD_PLAIN=1` says no."""
    return _is_on
