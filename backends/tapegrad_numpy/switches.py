"""Environment variables that turn parts of the NumPy backend off."""

from __future__ import annotations

import os

DIRECT_CALLS = os.environ.get("TAPEGRAD_DIRECT_CALLS") != "0"
"""Whether compiled loops read NumPy's array structs themselves; see loops/direct_calls.py."""

SEQUENCES = os.environ.get("TAPEGRAD_SEQUENCES") != "0"
"""Whether steps of programs that follow each other run in one call in C; see sequences/."""

EAGER_LOOPS = os.environ.get("TAPEGRAD_EAGER_LOOPS") != "0"
"""Whether eager operations on large arrays run as compiled loops; see eager/."""
