"""The on-disk cache of compiled loops."""

from __future__ import annotations

from tapegrad.core.files.private_cache import PrivateCache

CACHE = PrivateCache("TAPEGRAD_CACHE", "tapegrad", ".so", most_bytes=2**28, most_days=90)
"""A library takes about 30 kB, so that this is room for thousands of programs."""
