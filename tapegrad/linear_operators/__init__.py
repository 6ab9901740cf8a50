"""The operators of tf.linalg: matrices that compute by their structure.

`base` has what every operator can do, with defaults that use the dense matrix; each other module
has one kind of matrix. No operator declares derivatives: operators are composed of functions
that have them.
"""

from tapegrad.linear_operators.base import LinearOperator
from tapegrad.linear_operators.block_diag import LinearOperatorBlockDiag
from tapegrad.linear_operators.block_lower_triangular import LinearOperatorBlockLowerTriangular
from tapegrad.linear_operators.circulant import (
    LinearOperatorCirculant,
    LinearOperatorCirculant2D,
    LinearOperatorCirculant3D,
)
from tapegrad.linear_operators.composed import (
    LinearOperatorAdjoint,
    LinearOperatorComposition,
    LinearOperatorInversion,
)
from tapegrad.linear_operators.dense import (
    LinearOperatorFullMatrix,
    LinearOperatorLowerTriangular,
)
from tapegrad.linear_operators.diagonal import LinearOperatorDiag
from tapegrad.linear_operators.householder import LinearOperatorHouseholder
from tapegrad.linear_operators.identity import (
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
    LinearOperatorZeros,
)
from tapegrad.linear_operators.kronecker import LinearOperatorKronecker
from tapegrad.linear_operators.low_rank import LinearOperatorLowRankUpdate
from tapegrad.linear_operators.permutation import LinearOperatorPermutation
from tapegrad.linear_operators.toeplitz import LinearOperatorToeplitz
from tapegrad.linear_operators.tridiag import LinearOperatorTridiag

__all__ = [
    "LinearOperator",
    "LinearOperatorAdjoint",
    "LinearOperatorBlockDiag",
    "LinearOperatorBlockLowerTriangular",
    "LinearOperatorCirculant",
    "LinearOperatorCirculant2D",
    "LinearOperatorCirculant3D",
    "LinearOperatorComposition",
    "LinearOperatorDiag",
    "LinearOperatorFullMatrix",
    "LinearOperatorHouseholder",
    "LinearOperatorIdentity",
    "LinearOperatorInversion",
    "LinearOperatorKronecker",
    "LinearOperatorLowRankUpdate",
    "LinearOperatorLowerTriangular",
    "LinearOperatorPermutation",
    "LinearOperatorScaledIdentity",
    "LinearOperatorToeplitz",
    "LinearOperatorTridiag",
    "LinearOperatorZeros",
]
