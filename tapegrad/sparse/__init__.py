"""TensorFlow's `tf.sparse`: tensors that hold only the entries that are not zero."""

from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.sparse.crosses import cross, cross_hashed
from tapegrad.sparse.functions import (
    add,
    concat,
    expand_dims,
    eye,
    from_dense,
    map_values,
    maximum,
    minimum,
    reduce_max,
    reduce_sum,
    reorder,
    reshape,
    retain,
    slice,
    sparse_dense_matmul,
    to_dense,
    transpose,
)
from tapegrad.sparse.rows import (
    bincount,
    fill_empty_rows,
    mask,
    reset_shape,
    segment_mean,
    segment_sqrt_n,
    segment_sum,
    softmax,
    split,
    to_indicator,
)
from tapegrad.sparse.tensor import SparseTensor

__all__ = [
    "SparseTensor",
    "add",
    "bincount",
    "concat",
    "cross",
    "cross_hashed",
    "expand_dims",
    "eye",
    "fill_empty_rows",
    "from_dense",
    "map_values",
    "mask",
    "maximum",
    "minimum",
    "reduce_max",
    "reduce_sum",
    "reorder",
    "reset_shape",
    "reshape",
    "retain",
    "segment_mean",
    "segment_sqrt_n",
    "segment_sum",
    "slice",
    "softmax",
    "sparse_dense_matmul",
    "split",
    "to_dense",
    "to_indicator",
    "transpose",
]

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absence("sparse", name)
