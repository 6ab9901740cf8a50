"""The hooks of tests/conftest.py that no other test would miss."""

from __future__ import annotations

import gc

import pytest


def test_the_garbage_collector_does_not_visit_collected_tests(
    request: pytest.FixtureRequest,
) -> None:
    visited = {id(thing) for thing in gc.get_objects()}

    assert gc.isenabled()
    assert not visited & {id(item) for item in request.session.items}
