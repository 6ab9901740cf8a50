"""Weights of a file into the variables of a model.

The attributes of a model have the names of Hugging Face's files: `h.0.attn.c_attn.weight` is the
kernel of the layer `model.h[0].attn.c_attn`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values.variable import Variable
from tapegrad.errors import FileFormatError
from tapegrad.keras.layers import BatchNormalization, Conv2D, Dense, Embedding, LayerNormalization

Turn = Callable[[np.ndarray], np.ndarray]


class Conv1D(Dense):
    """A dense layer whose kernel GPT-2's files hold as (inputs, outputs)."""


def _same(array: np.ndarray) -> np.ndarray:
    return array


_NORM = {"weight": ("gamma", _same), "bias": ("beta", _same), "gamma": ("gamma", _same),
         "beta": ("beta", _same)}  # fmt: skip
_BIAS = ("bias", _same)
_VARIABLES: Sequence[tuple[type[Any], Any]] = (
    (Conv1D, {"weight": ("kernel", _same), "bias": _BIAS}),
    (Dense, {"weight": ("kernel", np.transpose), "bias": _BIAS}),
    (Conv2D, {"weight": ("kernel", lambda a: a.transpose(2, 3, 1, 0)), "bias": _BIAS}),
    (Embedding, {"weight": ("embeddings", _same)}),
    (LayerNormalization, _NORM),
    (BatchNormalization, _NORM | {
        "running_mean": ("moving_mean", _same), "running_var": ("moving_variance", _same),
    }),
)  # fmt: skip


def place_weights(
    model: Any, weights: Mapping[str, Any], prefix: str, ignored: str, where: str
) -> None:
    """Assign all weights to the variables of a built model; raise if names do not fit.

    Names may begin with `prefix`. Those that match the pattern `ignored` have no variable.
    """
    missing = {id(variable): variable for variable in model.weights}
    unknown = []
    for name, value in weights.items():
        short = name.removeprefix(prefix)
        if re.fullmatch(ignored, short):
            continue
        found = _variable(model, short.split("."))
        if found is None:
            unknown.append(name)
            continue
        variable, turn = found
        array = turn(np.asarray(value))
        if tuple(array.shape) != tuple(variable.shape):
            raise FileFormatError(
                f"{where} holds {name} with shape {tuple(np.shape(value))}, which does not fit the "
                f"variable of shape {tuple(variable.shape)} that config.json implies."
            )
        variable.assign(array.astype(variable.dtype.as_numpy_dtype))
        missing.pop(id(variable), None)
    if unknown:
        raise FileFormatError(f"{where} holds weights that the model lacks: {_some(unknown)}.")
    if missing:
        names = [variable.path if hasattr(variable, "path") else variable.name
                 for variable in missing.values()]  # fmt: skip
        raise FileFormatError(f"{where} lacks weights of the model: {_some(names)}.")


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(sorted(names)[:5]) + more


def _variable(model: Any, path: list[str]) -> tuple[Variable, Turn] | None:
    """Return the variable at a path of attributes, and how its array is turned."""
    here = model
    for step in path[:-1]:
        if step.isdigit():
            is_place = isinstance(here, Sequence) and int(step) < len(here)
            here = here[int(step)] if is_place else None
        else:
            # A layer's own `output` is a symbolic tensor.
            here = getattr(here, "output_layer" if step == "output" else step, None)
        if here is None:
            return None
    own = getattr(here, path[-1], None)
    if isinstance(own, Variable) and not isinstance(here, tuple(kind for kind, _ in _VARIABLES)):
        return own, _same
    for kind, names in _VARIABLES:
        if isinstance(here, kind):
            attribute, turn = names.get(path[-1], ("", _same))
            variable = getattr(here, attribute, None) if attribute else None
            return None if variable is None else (variable, turn)
    return None
