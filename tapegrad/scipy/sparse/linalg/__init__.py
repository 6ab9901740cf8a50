"""Sparse linear systems and eigenvalues, with gradients.

direct     spsolve, splu, factorized
solvers    cg, bicgstab, gmres, minres and norm; the iterations are in krylov
eigen      eigsh, svds; expm_multiply is in exponential
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.scipy.sparse.linalg.direct import SuperLU, factorized, splu, spsolve
from tapegrad.scipy.sparse.linalg.eigen import eigsh, svds
from tapegrad.scipy.sparse.linalg.exponential import expm_multiply
from tapegrad.scipy.sparse.linalg.functions import LinearOperator, aslinearoperator
from tapegrad.scipy.sparse.linalg.solvers import bicgstab, cg, gmres, minres, norm

__all__ = [
    "LinearOperator", "SuperLU", "aslinearoperator", "bicgstab", "cg", "eigsh", "expm_multiply",
    "factorized", "gmres", "minres", "norm", "splu", "spsolve", "svds",
]  # fmt: skip

_check_calls(globals(), __all__)
