"""Replaces optional parts of a backend for one test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tapegrad.core.backend import registry
from tapegrad.core.backend.capabilities import Capabilities


def use(monkeypatch: pytest.MonkeyPatch, name: str = "numpy", **parts: Any) -> Capabilities:
    """Let a backend have these parts (None: not have them); return what it had before."""
    registry.get_backend(name)
    old = registry._capabilities[name]
    monkeypatch.setitem(registry._capabilities, name, old._replace(**parts))
    return old


def grouped_updates(
    prepare: Callable[..., Any],
    clip: Callable[..., Any] | None = None,
    averages: Callable[..., Any] | None = None,
) -> Any:
    """Grouped updates made of functions."""
    clip = clip or (lambda *_: None)
    return SimpleNamespace(prepare=prepare, prepare_averages=averages, clip=clip)


class Overwriting:
    """In-place kernels of which only `overwrite` has entries."""

    def __init__(self, **kernels: Callable[..., Any]) -> None:
        self._kernels = kernels

    def add(self, total: Any, addend: Any) -> None:
        total += addend

    def accumulate(self, primitive: str) -> None:
        return None

    def overwrite(self, primitive: str) -> Callable[..., Any] | None:
        return self._kernels.get(primitive)


class Capture:
    """A program capture made of one function."""

    launches_graphs = True

    def __init__(self, function: Callable[[Any, Sequence[int], Sequence[int]], Any]) -> None:
        self.capture = function
