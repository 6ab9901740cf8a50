"""A pytest plug-in that runs SciPy's array API tests on tapegrad's arrays.

The tests take the namespace from the fixture `xp` of `scipy.conftest`, whose list of namespaces is
fixed. The plug-in imports that module before pytest does, and gives the fixture another list.
"""

from __future__ import annotations

from typing import Any

import pytest
import scipy.conftest as conftest
from outcomes import NAMESPACE

import tapegrad.numpy

_mark = pytest.mark.array_api_backends
_ours = pytest.param(tapegrad.numpy, id=NAMESPACE, marks=_mark)


def _function_of(fixture: Any) -> Any:
    """Return the function that was made a fixture; its place depends on pytest's version."""
    for name in ("_fixture_function", "__wrapped__"):
        if hasattr(fixture, name):
            return getattr(fixture, name)
    raise SystemExit("This version of pytest hides the function of a fixture.")


conftest.xp_known_backends.add(NAMESPACE)
conftest.xp_available_backends[:] = [_ours]
conftest.xp = pytest.fixture(params=[_ours])(_function_of(conftest.xp))
