"""TensorFlow's `tf.linalg` names: solvers, decompositions, norms."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.creation import eye
from tapegrad.ops.linalg.banded import banded_triangular_solve
from tapegrad.ops.linalg.decompositions import cholesky, lu, qr
from tapegrad.ops.linalg.determinants import det, logdet, slogdet
from tapegrad.ops.linalg.eigen import eig, eigh, eigvals, eigvalsh, svdvals, tf_svd as svd
from tapegrad.ops.linalg.functions import expm, logm, matrix_power, matrix_rank, sqrtm
from tapegrad.ops.linalg.norms import (
    cond,
    global_norm,
    l2_normalize,
    matrix_norm,
    norm,
    normalize,
    vector_norm,
)
from tapegrad.ops.linalg.packed_lu import lu_matrix_inverse, lu_reconstruct, lu_solve
from tapegrad.ops.linalg.solve import cholesky_solve, inv, lstsq, pinv, solve, triangular_solve
from tapegrad.ops.linalg.sylvester import solve_sylvester
from tapegrad.ops.linalg.traces import cross, multi_dot, tensorinv, tensorsolve, trace
from tapegrad.ops.linalg.tridiagonal import (
    eigh_tridiagonal,
    tridiagonal_matmul,
    tridiagonal_solve,
)
from tapegrad.ops.products.einsum import einsum
from tapegrad.ops.products.functions import adjoint, kron, matmul, matvec, outer, tensordot
from tapegrad.ops.shape.diagonal import (
    band_part,
    matrix_diag as diag,
    matrix_diag_part as diag_part,
    set_diag,
    tensor_diag,
    tensor_diag_part,
)
from tapegrad.ops.shape.functions import matrix_transpose

if TYPE_CHECKING:
    from tapegrad.linear_operators import (
        LinearOperator,
        LinearOperatorAdjoint,
        LinearOperatorBlockDiag,
        LinearOperatorBlockLowerTriangular,
        LinearOperatorCirculant,
        LinearOperatorCirculant2D,
        LinearOperatorCirculant3D,
        LinearOperatorComposition,
        LinearOperatorDiag,
        LinearOperatorFullMatrix,
        LinearOperatorHouseholder,
        LinearOperatorIdentity,
        LinearOperatorInversion,
        LinearOperatorKronecker,
        LinearOperatorLowerTriangular,
        LinearOperatorLowRankUpdate,
        LinearOperatorPermutation,
        LinearOperatorScaledIdentity,
        LinearOperatorToeplitz,
        LinearOperatorTridiag,
        LinearOperatorZeros,
        experimental,
    )

__all__ = [
    "LinearOperator", "LinearOperatorAdjoint", "LinearOperatorBlockDiag",
    "LinearOperatorBlockLowerTriangular", "LinearOperatorCirculant",
    "LinearOperatorCirculant2D", "LinearOperatorCirculant3D", "LinearOperatorComposition",
    "LinearOperatorDiag", "LinearOperatorFullMatrix", "LinearOperatorHouseholder",
    "LinearOperatorIdentity", "LinearOperatorInversion", "LinearOperatorKronecker",
    "LinearOperatorLowRankUpdate", "LinearOperatorLowerTriangular",
    "LinearOperatorPermutation", "LinearOperatorScaledIdentity", "LinearOperatorToeplitz",
    "LinearOperatorTridiag", "LinearOperatorZeros", "adjoint", "band_part",
    "banded_triangular_solve", "cholesky", "cholesky_solve", "cond", "cross", "det", "diag",
    "diag_part", "eig", "eigh", "eigh_tridiagonal", "eigvals", "eigvalsh", "einsum",
    "experimental", "expm", "eye", "global_norm", "inv", "kron", "l2_normalize", "logdet",
    "logm", "lstsq", "lu", "lu_matrix_inverse", "lu_reconstruct", "lu_solve", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "matvec", "multi_dot",
    "norm", "normalize", "outer", "pinv", "qr", "set_diag", "slogdet", "solve",
    "solve_sylvester", "sqrtm", "svd", "svdvals", "tensor_diag", "tensor_diag_part",
    "tensordot", "tensorinv", "tensorsolve", "trace", "triangular_solve", "tridiagonal_matmul",
    "tridiagonal_solve", "vector_norm",
]  # fmt: skip

# Imported on first use: few programs need them.
_OPERATORS = {name for name in __all__ if name.startswith("LinearOperator")}

_check_calls(globals(), [name for name in __all__ if name not in _OPERATORS | {"experimental"}])


def __getattr__(name: str) -> _Any:
    if name == "experimental":
        globals()[name] = _import_module("tapegrad.linear_operators.experimental")
    elif name in _OPERATORS:
        globals()[name] = getattr(_import_module("tapegrad.linear_operators"), name)
        _check_calls(globals(), (name,))
    else:
        raise _absence("linalg", name)
    return globals()[name]
