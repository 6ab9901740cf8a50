"""Flattening, optimizers, fixed points and graphs."""

from tapegrad.compat.autograd.misc.flatten import flatten
from tapegrad.compat.autograd.misc.tracers import const_graph

__all__ = ["const_graph", "flatten"]
