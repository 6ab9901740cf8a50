"""What Keras' tests import from the `conftest` of its repository, which its wheel does not have."""

from __future__ import annotations

from typing import Any

import pytest


def skip_if_backend(given_backend: str, reason: str) -> Any:
    """Return the mark that skips a test for one of Keras' own backends."""
    from keras.src.backend import backend  # after the environment has chosen one

    return pytest.mark.skipif(backend() == given_backend, reason=reason)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks of Keras' tests."""
    config.addinivalue_line("markers", "requires_trainable_backend: needs gradients")
    config.addinivalue_line("markers", "multi_device: needs several devices")
    config.addinivalue_line("markers", "expensive: takes long")
