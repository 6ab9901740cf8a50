"""What is not checked, with the reason."""

from __future__ import annotations

NOT_CHECKED: dict[tuple[str, str], str] = {}
"""By sample and mode."""
