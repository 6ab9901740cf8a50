"""Testing tools: samples, gradient checks, and the battery that every backend must pass."""

from tapegrad.testing.battery import check_backend

__all__ = ["check_backend"]
