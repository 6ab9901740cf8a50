"""Solving sparse systems: spsolve, cg, bicgstab, gmres, with gradients by an adjoint solve."""

from tapegrad.scipy.sparse.linalg.functions import LinearOperator
from tapegrad.scipy.sparse.linalg.solvers import bicgstab, cg, gmres, norm, spsolve

__all__ = ["LinearOperator", "bicgstab", "cg", "gmres", "norm", "spsolve"]
