"""Which arrays are large."""

from __future__ import annotations

LARGE = 1 << 15
"""The number of elements from which a compiled loop takes at most as long as NumPy.

It says alone which form computes, so that results do not depend on the number of threads.
"""
