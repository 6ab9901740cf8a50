"""Import scripts of the repository that are no modules of a package."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from tests.house.sources import ROOT


def imported(path: str) -> ModuleType:
    """Return the script at a path from the root of the repository as a module."""
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
