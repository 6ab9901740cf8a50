"""Interfaces of other libraries, implemented by tapegrad: only the import line changes."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from tapegrad.absent import absence
from tapegrad.compat.dimensions import dimension_at_index, dimension_value
from tapegrad.compat.texts import as_bytes, as_str_any, as_text, as_text as as_str
from tapegrad.core.checked_calls import check_calls as _check_calls

__all__ = [
    "as_bytes",
    "as_str",
    "as_str_any",
    "as_text",
    "autograd",
    "dimension_at_index",
    "dimension_value",
    "horovod",
    "v1",
]


def __getattr__(name: str) -> Any:
    if name in ("autograd", "horovod", "v1"):
        # Submodules are imported on first use.
        return importlib.import_module(f"tapegrad.compat.{name}")
    if name == "v2":
        # The names of the package itself; it has been imported, as this is a part of it.
        return sys.modules["tapegrad"]
    raise absence("compat", name)


_check_calls(
    globals(),
    ("as_bytes", "as_str", "as_str_any", "as_text", "dimension_at_index", "dimension_value"),
)
