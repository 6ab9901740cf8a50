"""SciPy's sparse matrices on tensors: gradients go to the entries and to what they multiply.

arrays      coo_array, csr_array, csc_array; base: what they share
construct   matrices from diagonals and from blocks
linalg      systems of equations
"""

from tapegrad.scipy.sparse import linalg
from tapegrad.scipy.sparse.arrays import coo_array, csc_array, csr_array, issparse
from tapegrad.scipy.sparse.construct import diags, diags_array, eye_array, hstack, kron, vstack

__all__ = [
    "coo_array",
    "csc_array",
    "csr_array",
    "diags",
    "diags_array",
    "eye_array",
    "hstack",
    "issparse",
    "kron",
    "linalg",
    "vstack",
]
