"""The version is defined in one place, and the changelog has it."""

from __future__ import annotations

import re

import pytest

import tapegrad
from tests.house.sources import ROOT


def newest_version(changelog: str) -> str:
    """The version in the first second-level heading."""
    match = re.search(r"^## (\S+)", changelog, flags=re.MULTILINE)
    assert match is not None, "CHANGELOG.md has no heading of the form '## 1.2.3'."
    return match[1]


def literal_version(source: str) -> str:
    """The version as the build reads it from the source text, without running it."""
    match = re.search(r'^__version__ = "([^"]+)"$', source, flags=re.MULTILINE)
    assert match is not None, 'tapegrad/__init__.py must say __version__ = "..." literally.'
    return match[1]


def test_the_changelog_starts_with_the_current_version():
    assert newest_version((ROOT / "CHANGELOG.md").read_text("utf-8")) == tapegrad.__version__


def test_the_version_is_a_literal():
    source = (ROOT / "tapegrad" / "__init__.py").read_text("utf-8")

    assert literal_version(source) == tapegrad.__version__


def test_a_computed_version_and_a_bare_changelog_are_noticed():
    with pytest.raises(AssertionError, match="literally"):
        literal_version("__version__ = compute()\n")
    with pytest.raises(AssertionError, match="no heading"):
        newest_version("# Changelog\n")
