"""TensorFlow's `tf.random` names: generators, distributions, stateless draws."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.random.bounded_normal import stateless_parameterized_truncated_normal
from tapegrad.ops.random.candidates import (
    all_candidate_sampler,
    fixed_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from tapegrad.ops.random.functions import (
    categorical,
    gamma,
    normal,
    poisson,
    shuffle,
    truncated_normal,
    uniform,
)
from tapegrad.ops.random.generator import (
    Generator,
    get_global_generator,
    set_global_generator,
    set_seed,
)
from tapegrad.ops.random.stateless import (
    fold_in,
    split,
    stateless_categorical,
    stateless_gamma,
    stateless_normal,
    stateless_poisson,
    stateless_shuffle,
    stateless_truncated_normal,
    stateless_uniform,
)

if TYPE_CHECKING:
    from tapegrad import random_experimental as experimental

__all__ = [
    "Generator",
    "all_candidate_sampler",
    "categorical",
    "experimental",
    "fixed_unigram_candidate_sampler",
    "fold_in",
    "gamma",
    "get_global_generator",
    "log_uniform_candidate_sampler",
    "normal",
    "poisson",
    "set_global_generator",
    "set_seed",
    "shuffle",
    "split",
    "stateless_categorical",
    "stateless_gamma",
    "stateless_normal",
    "stateless_parameterized_truncated_normal",
    "stateless_poisson",
    "stateless_shuffle",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
    "uniform_candidate_sampler",
]

_check_calls(globals(), [name for name in __all__ if name != "experimental"])


def __getattr__(name: str) -> _Any:
    if name != "experimental":
        raise _absence("random", name)
    globals()[name] = _import_module("tapegrad.random_experimental")
    return globals()[name]
