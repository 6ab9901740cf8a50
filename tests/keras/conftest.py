"""Tests here use devices that come and go."""

from tests.neighbours import alone

__all__ = ["alone"]
