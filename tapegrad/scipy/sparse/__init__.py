"""SciPy's sparse matrices on tensors: gradients go to the entries and to what they multiply.

arrays      coo_array, csr_array, csc_array; base: what they share
construct   matrices from diagonals and stacks; blocks: from blocks, triangles, random ones
linalg      systems of equations, eigenvalues
"""

from tapegrad.scipy.sparse import linalg
from tapegrad.scipy.sparse.arrays import coo_array, csc_array, csr_array, issparse
from tapegrad.scipy.sparse.blocks import (
    block_array,
    block_diag,
    bmat,
    identity,
    random_array,
    tril,
    triu,
)
from tapegrad.scipy.sparse.construct import diags, diags_array, eye_array, hstack, kron, vstack

__all__ = [
    "block_array", "block_diag", "bmat", "coo_array", "csc_array", "csr_array", "diags",
    "diags_array", "eye_array", "hstack", "identity", "issparse", "kron", "linalg",
    "random_array", "tril", "triu", "vstack",
]  # fmt: skip
