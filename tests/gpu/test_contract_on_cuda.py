"""The optional parts of the backend contract that CuPy implements, against NumPy."""

from __future__ import annotations

import pytest

from tapegrad.core.backend.capabilities import NO_CAPABILITIES
from tapegrad.core.backend.registry import capabilities_of, get_backend
from tapegrad.testing.battery import check_protocol
from tapegrad.testing.capability_checks import check_capabilities

cupy = pytest.importorskip("cupy")
PARTS = NO_CAPABILITIES._fields


def test_the_members_of_a_backend() -> None:
    check_protocol(get_backend("cupy"))


@pytest.mark.parametrize("name", PARTS)
def test_an_optional_part(name: str) -> None:
    part = getattr(capabilities_of(cupy.ndarray), name)

    check_capabilities(get_backend("cupy"), NO_CAPABILITIES._replace(**{name: part}))

    assert (part is None) == (name in ("specializer", "adoption", "sequences"))
