"""SciPy's sparse matrices with gradients for the stored entries and for dense operands.

arrays      coo_array, csr_array, csc_array; their base class is in base
matrices    coo_matrix, csr_matrix, csc_matrix
construct   matrices from diagonals and stacks; blocks, triangles and random matrices in blocks
linalg      linear systems, eigenvalues
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
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
from tapegrad.scipy.sparse.matrices import (
    coo_matrix,
    csc_matrix,
    csr_matrix,
    eye,
    find,
    isspmatrix,
)

__all__ = [
    "block_array", "block_diag", "bmat", "coo_array", "coo_matrix", "csc_array", "csc_matrix",
    "csr_array", "csr_matrix", "diags", "diags_array", "eye", "eye_array", "find", "hstack",
    "identity", "issparse", "isspmatrix", "kron", "linalg", "random_array", "tril", "triu",
    "vstack",
]  # fmt: skip

_check_calls(globals(), __all__)
