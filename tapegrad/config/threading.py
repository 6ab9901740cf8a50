"""TensorFlow's `tf.config.threading`: how many threads compute."""

from __future__ import annotations

import os

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.threads import threads_have_changed
from tapegrad.errors import ArgumentError

__all__ = [
    "get_inter_op_parallelism_threads",
    "get_intra_op_parallelism_threads",
    "set_inter_op_parallelism_threads",
    "set_intra_op_parallelism_threads",
]

_INTRA = "TAPEGRAD_THREADS"
_between = [0]


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Set how many threads large loops use, in eager mode and in functions; 0 for one per core.

    It sets $TAPEGRAD_THREADS for this process, and counts for functions that exist, too. Results do
    not depend on it. The threads of NumPy's matrix products are those of its BLAS, e.g.
    $OPENBLAS_NUM_THREADS before the start.

    >>> before = get_intra_op_parallelism_threads()
    >>> set_intra_op_parallelism_threads(2)
    >>> get_intra_op_parallelism_threads()
    2
    >>> set_intra_op_parallelism_threads(before)
    """
    _check(num_threads)
    if num_threads:
        os.environ[_INTRA] = str(num_threads)
    else:
        os.environ.pop(_INTRA, None)
    threads_have_changed()


def get_intra_op_parallelism_threads() -> int:
    """Return how many threads large loops use, 0 if that is left to tapegrad.

    >>> get_intra_op_parallelism_threads() >= 0
    True
    """
    text = os.environ.get(_INTRA, "0")
    return int(text) if text.isdecimal() else 0


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Accept TensorFlow's number and change nothing: operations run one after the other.

    >>> set_inter_op_parallelism_threads(0)
    """
    _check(num_threads)
    _between[0] = num_threads


def get_inter_op_parallelism_threads() -> int:
    """Return the number that `set_inter_op_parallelism_threads` was given, by default 0.

    >>> get_inter_op_parallelism_threads()
    0
    """
    return _between[0]


def _check(num_threads: int) -> None:
    if num_threads < 0:
        raise ArgumentError(f"num_threads must be at least 0. Got {num_threads}.")


_check_calls(globals(), __all__)
