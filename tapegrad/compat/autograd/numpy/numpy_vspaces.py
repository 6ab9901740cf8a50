"""The vector spaces of arrays, under HIPS autograd's module name."""

from tapegrad.compat.autograd.vspaces import ArrayVSpace, ComplexArrayVSpace

__all__ = ["ArrayVSpace", "ComplexArrayVSpace"]
