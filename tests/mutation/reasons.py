"""Mutants that no test can catch, because the program behaves the same with them."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
"""Why each is equivalent, by its name."""
