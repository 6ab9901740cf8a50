"""The vector spaces of arrays, under the name of the module that HIPS autograd has them in."""

from tapegrad.compat.autograd.vspaces import ArrayVSpace, ComplexArrayVSpace

__all__ = ["ArrayVSpace", "ComplexArrayVSpace"]
