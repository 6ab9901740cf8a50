"""Environment variables that turn parts of the NumPy backend off."""

from __future__ import annotations

import os

DIRECT_CALLS = os.environ.get("TAPEGRAD_DIRECT_CALLS") != "0"
"""Whether compiled loops read NumPy's array structs themselves; see loops/direct_calls.py."""
