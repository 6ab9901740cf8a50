"""A pytest plug-in that runs SciPy's tests with tapegrad's functions in place of SciPy's.

A test counts if it calls a stand-in at least once. Words of errors and warnings are not compared, a
test may take `SECONDS`, and the process may take `GIBIBYTES` of memory.
"""

from __future__ import annotations

import os
import resource
import signal
import types
from collections.abc import Iterator
from typing import Any

import outcomes
import pytest
import stand_ins

SECONDS = int(os.environ.get("ARRAY_API_SUITE_SECONDS", "20"))
GIBIBYTES = 6

resource.setrlimit(resource.RLIMIT_AS, (GIBIBYTES << 30, GIBIBYTES << 30))
outcomes.kept_by(lambda item: True)
_found, _held = stand_ins.replacements()
_raises, _warns = pytest.raises, pytest.warns


def _raises_any_words(*positional: Any, match: Any = None, **options: Any) -> Any:
    """Stand in for `pytest.raises`: errors have words of their own."""
    return _raises(*positional, **options)


def _warns_any_words(*positional: Any, match: Any = None, **options: Any) -> Any:
    """Stand in for `pytest.warns`."""
    return _warns(*positional, **options)


pytest.raises = _raises_any_words
pytest.warns = _warns_any_words


class TooSlow(BaseException):
    """The test took more than its time; no `except Exception` of a test stops this."""


def _ring(*_: Any) -> None:
    raise TooSlow(f"The test took more than {SECONDS} s.")


def _parameter(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(map(_parameter, value))
    return _found.get(id(value), value)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the stand-ins into the modules of the tests, their classes and parameters."""
    modules: dict[int, types.ModuleType] = {}
    for item in items:
        module = getattr(item, "module", None)
        if module is not None:
            modules[id(module)] = module
        call = getattr(item, "callspec", None)
        if call is not None:
            call.params.update({name: _parameter(value) for name, value in call.params.items()})
    for module in modules.values():
        stand_ins.replace_in(module, _found)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Run a test within its time, and note how often it called a stand-in."""
    before = stand_ins.Count.calls
    signal.signal(signal.SIGALRM, _ring)
    signal.alarm(SECONDS)
    try:
        return (yield)
    except TooSlow as error:
        raise RuntimeError(str(error)) from error
    finally:
        signal.alarm(0)
        item.user_properties.append(("calls", stand_ins.Count.calls - before))
