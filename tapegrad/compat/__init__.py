"""Interfaces of other libraries, implemented by tapegrad: only the import line changes."""

from __future__ import annotations

import importlib
from typing import Any

from tapegrad.absent import absence

__all__ = ["autograd"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        # Submodules are imported on first use.
        return importlib.import_module(f"tapegrad.compat.{name}")
    raise absence("compat", name)
