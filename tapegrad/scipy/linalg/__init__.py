"""SciPy's linear algebra with gradients: solvers, decompositions, special matrices."""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.scipy.linalg.banded import (
    cho_solve_banded,
    cholesky_banded,
    eig_banded,
    eigh_tridiagonal,
    eigvals_banded,
    eigvalsh_tridiagonal,
    solveh_banded,
)
from tapegrad.scipy.linalg.decompositions import (
    eig,
    eigh,
    eigvals,
    eigvalsh,
    expm,
    expm_frechet,
    hessenberg,
    logm,
    lu,
    norm,
    polar,
    qr,
    schur,
    sqrtm,
    svd,
    svdvals,
)
from tapegrad.scipy.linalg.matrices import block_diag, circulant, companion, hankel, toeplitz
from tapegrad.scipy.linalg.matrix_functions import (
    coshm,
    cosm,
    fractional_matrix_power,
    signm,
    sinhm,
    sinm,
    tanhm,
    tanm,
)
from tapegrad.scipy.linalg.named_matrices import (
    convolution_matrix,
    dft,
    fiedler,
    hadamard,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    khatri_rao,
    leslie,
    pascal,
)
from tapegrad.scipy.linalg.riccati import solve_continuous_are, solve_discrete_are
from tapegrad.scipy.linalg.solvers import (
    cho_factor,
    cho_solve,
    cholesky,
    det,
    inv,
    lstsq,
    lu_factor,
    lu_solve,
    matmul_toeplitz,
    pinv,
    pinvh,
    solve,
    solve_banded,
    solve_circulant,
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_lyapunov,
    solve_sylvester,
    solve_toeplitz,
    solve_triangular,
)
from tapegrad.scipy.linalg.spaces import null_space, orth, orthogonal_procrustes, subspace_angles

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cho_solve_banded", "cholesky", "cholesky_banded",
    "circulant", "companion", "convolution_matrix", "coshm", "cosm", "det", "dft", "eig",
    "eig_banded", "eigh", "eigh_tridiagonal", "eigvals", "eigvals_banded", "eigvalsh",
    "eigvalsh_tridiagonal", "expm", "expm_frechet", "fiedler", "fractional_matrix_power",
    "hadamard", "hankel", "helmert", "hessenberg", "hilbert", "inv", "invhilbert", "invpascal",
    "khatri_rao", "leslie", "logm", "lstsq", "lu", "lu_factor", "lu_solve", "matmul_toeplitz",
    "norm", "null_space", "orth", "orthogonal_procrustes", "pascal", "pinv", "pinvh", "polar",
    "qr", "schur", "signm", "sinhm", "sinm", "solve", "solve_banded", "solve_circulant",
    "solve_continuous_are", "solve_continuous_lyapunov", "solve_discrete_are",
    "solve_discrete_lyapunov", "solve_lyapunov", "solve_sylvester", "solve_toeplitz",
    "solve_triangular", "solveh_banded", "sqrtm", "subspace_angles", "svd", "svdvals", "tanhm",
    "tanm", "toeplitz",
]  # fmt: skip

_check_calls(globals(), __all__)
