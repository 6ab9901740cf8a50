"""TensorFlow's `tf.compat.v1`: names of its first version, as far as they need no graph.

Names that have not changed since are those of tapegrad. Functions run at once: there are no graphs,
sessions and placeholders, and the error for such a name says so.
"""

from __future__ import annotations

import importlib
from functools import reduce
from typing import Any

from tapegrad import lazy
from tapegrad.absent import absence
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.compat.v1.functions import (
    Print,
    argmax,
    argmin,
    div,
    expand_dims,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    squeeze,
    to_double,
    to_float,
    to_int32,
    to_int64,
)
from tapegrad.compat.v1.session import (
    ConfigProto,
    GPUOptions,
    InteractiveSession,
    Session,
    disable_eager_execution,
    disable_v2_behavior,
    enable_eager_execution,
    enable_v2_behavior,
)
from tapegrad.compat.v1.variables import (
    AUTO_REUSE,
    get_variable,
    global_variables_initializer,
    local_variables_initializer,
    tables_initializer,
    variable_scope,
)
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values import dtypes
from tapegrad.core.values.device import device
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.tensor_shape import TensorShape
from tapegrad.core.values.variable import Variable
from tapegrad.first_version import MOVED
from tapegrad.module import Module

__all__ = [
    "AUTO_REUSE", "ConfigProto", "GPUOptions", "GradientTape", "IndexedSlices",
    "InteractiveSession", "Module", "Print", "Session", "Tensor", "TensorShape", "Variable",
    "argmax", "argmin", "device", "disable_eager_execution", "disable_v2_behavior", "div",
    "enable_eager_execution", "enable_v2_behavior", "expand_dims", "get_variable",
    "global_variables_initializer", "local_variables_initializer", "reduce_all", "reduce_any",
    "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_sum",
    "squeeze", "tables_initializer", "to_double", "to_float", "to_int32", "to_int64",
    "variable_scope",
]  # fmt: skip

_PARTS = ("data", "gfile", "image", "keras", "logging", "losses", "nn", "train")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        # On first use, so that programs which need one part do not import all.
        return importlib.import_module(f"tapegrad.compat.v1.{name}")
    if name in MOVED:
        places = MOVED[name].replace(".", " ").split()
        return reduce(getattr, places[1:], lazy.load(places[0]))
    found = getattr(dtypes, "bool_" if name == "bool" else name, None)
    if isinstance(found, dtypes.DType):
        return found
    try:
        return lazy.load(name)
    except AttributeError:
        raise absence("compat.v1", name) from None


_UNCHANGED = (
    "GradientTape", "IndexedSlices", "Module", "Tensor", "TensorShape", "Variable", "device",
)  # fmt: skip
"""Names of tapegrad itself, which has chosen the checks of their calls."""

_check_calls(globals(), [name for name in __all__ if name not in _UNCHANGED])
