"""TensorFlow's `tf.sparse`: tensors that hold only the entries that are not zero."""

from typing import Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
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
from tapegrad.sparse.tensor import SparseTensor

__all__ = [
    "SparseTensor",
    "add",
    "concat",
    "expand_dims",
    "eye",
    "from_dense",
    "map_values",
    "maximum",
    "minimum",
    "reduce_max",
    "reduce_sum",
    "reorder",
    "reshape",
    "retain",
    "slice",
    "sparse_dense_matmul",
    "to_dense",
    "transpose",
]

_check_calls(globals(), __all__)


def __getattr__(name: str) -> Any:
    raise _absence("sparse", name)
