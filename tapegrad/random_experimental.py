"""TensorFlow's `tf.random.experimental` names."""

from typing import TYPE_CHECKING, Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.random.generator import Generator, get_global_generator, set_global_generator
from tapegrad.ops.random.stateless import (
    fold_in as stateless_fold_in,
    split as stateless_split,
    stateless_shuffle,
)

__all__ = [
    "Generator",
    "get_global_generator",
    "set_global_generator",
    "stateless_fold_in",
    "stateless_shuffle",
    "stateless_split",
]

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> _Any:
        raise _absence("random.experimental", name)
