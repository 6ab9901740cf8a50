"""Environment variables that turn parts of the CuPy backend off."""

from __future__ import annotations

import os

LIBRARY_REPLAY = os.environ.get("TAPEGRAD_LIBRARY_REPLAY") != "0"
"""Whether repeated library calls are replayed; see library_calls/library_replay.py."""

PRODUCT_SEARCH = os.environ.get("TAPEGRAD_PRODUCT_SEARCH") != "0"
"""Whether algorithms of large products are timed; see library_calls/product_search.py."""
