"""Products of complex matrices in sequences, by the functions of BLAS that LAPACK calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.sequences.functions import Functions, Made, for_dtypes
from tapegrad_numpy.sequences.lapack import LETTERS, lapack, whole_text
from tapegrad_numpy.sequences.stacks import WALK, matrices, matrix_form, stack_axes, walk

_OPERATIONS_PER_ELEMENT = 4
_DTYPES = ("complex64", "complex128")

# In the order of columns, an array has the transpose of its matrix, and C^T = B^T A^T.
_TEXT = r"""
typedef void Gemm_$N(const char *, const char *, const WHOLE *, const WHOLE *, const WHOLE *,
                     const $T *, const $T *, const WHOLE *, const $T *, const WHOLE *, const $T *,
                     $T *, const WHOLE *, size_t, size_t);
/* The function, which operands are transposed, the sizes, and the leading dimensions. */
static int product_one_$N(const int64_t *h, char **data) {
    const WHOLE m = h[3], n = h[4], k = h[5], la = h[6], lb = h[7];
    const $T one = 1, zero = 0;
    ((Gemm_$N *)h[0])(h[2] ? "T" : "N", h[1] ? "T" : "N", &n, &m, &k, &one, ($T *)data[1], &lb,
                      ($T *)data[0], &la, &zero, ($T *)data[2], &n, 1, 1);
    return 0;
}
int product_$N(const int64_t *h, char **data) { return over_stack(product_one_$N, h, data); }
"""

FUNCTIONS = Functions(lambda: whole_text() + WALK + for_dtypes(_TEXT, _DTYPES))


def complex_product(
    operands: Sequence[Layout], results: Sequence[Layout], params: Mapping[str, Any]
) -> Made:
    """Return the product of stacks of complex matrices; None if they lie in another way."""
    library, (a, b), (c,) = lapack(), operands, results
    name = a.dtype.name
    if library is None or name not in _DTYPES or not a.dtype == b.dtype == c.dtype:
        return None
    if min(len(a.shape), len(b.shape)) < 2 or not (a.size and b.size):
        return None
    axes = stack_axes(c.shape[:-2], [matrices(a), matrices(b), matrices(c)])
    left = matrix_form(a, params["transpose_a"])
    right = matrix_form(b, params["transpose_b"])
    if axes is None or left is None or right is None:
        return None
    (is_a, rows, deep, la), (is_b, _, columns, lb) = left, right
    own = (library.address[f"{LETTERS[name]}gemm"], int(is_a), int(is_b), rows, columns, deep)
    work = prod(c.shape) * deep // _OPERATIONS_PER_ELEMENT
    return FUNCTIONS.step(f"product_{name}", (0, 1, 2), walk(axes, *own, la, lb), work)
