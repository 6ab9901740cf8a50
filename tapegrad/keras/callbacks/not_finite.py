"""Where in a model numbers stopped being finite: a batch is gone through again, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core import nest
from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.tensor import Tensor
from tapegrad.core.variable import Variable
from tapegrad.keras.batch_data import pack
from tapegrad.ops.comparison import isfinite
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.reduce import reduce_all

Kept = list[tuple[Variable, Any]]
"""Variables with the arrays that they held."""


class Origin(NamedTuple):
    """Where numbers stopped being finite first."""

    layer: str | None
    """The name of the layer; None where it is not in a layer."""
    place: str
    """One of "input", "target", "sample weight", "weight", "output", "loss" and "gradient"."""
    sentence: str
    """The same for people."""


class _Call(NamedTuple):
    layer: Any
    inputs: list[Any]
    outputs: list[Any]
    caller: Any


def kept_of(variables: Iterable[Variable]) -> Kept:
    """Return variables with their present arrays, which later steps do not change."""
    return [(variable, variable.array) for variable in variables]


@contextmanager
def set_back(kept: Kept, others: Iterable[Variable]) -> Iterator[None]:
    """Let variables hold what they held before, and the others zeros, inside the block."""
    now = kept_of([*(variable for variable, _ in kept), *others])
    known = {variable.number for variable, _ in kept}
    try:
        for variable, array in kept:
            variable.array = array
        for variable, _ in now:
            if variable.number not in known:
                variable.assign(zeros_like(variable.value()), read_value=False)
        yield
    finally:
        for variable, array in now:
            variable.array = array


def find_origin(model: Any, batch: Any, is_own_step: bool) -> Origin | None:
    """Return where a batch first gives numbers that are not finite; None where it does not.

    `is_own_step` says that the model defines `train_step` itself: it is run as it is then.
    """
    calls: list[_Call] = []
    given = _of_data(batch) or _of_weights(_layers(model), "weight", "is not finite.")
    if is_own_step:
        with _watched(model, calls):
            loss = model.train_step(pack(*batch)).get("loss")
        if loss is None or _is_finite(loss):
            return given or _of_changed_weights(calls)
        return given or _of_outputs(model, calls)
    x, y, sample_weight = batch
    with GradientTape(persistent=True) as tape, _watched(model, calls):
        y_pred = model(x, training=True)
        loss = model.compute_loss(x, y, y_pred, sample_weight)
    if not _is_finite(loss):
        return given or _of_outputs(model, calls)
    return _of_gradients(model, tape, loss, calls)


@contextmanager
def _watched(model: Any, calls: list[_Call]) -> Iterator[None]:
    """Note every call of a layer; inner calls come before the call that they are part of."""
    layers = list(_layers(model))
    open_calls: list[Any] = []
    own = {id(layer): layer.__dict__.get("call") for layer in layers}
    for layer in layers:
        layer.__dict__["call"] = _noting(layer, layer.call, calls, open_calls)
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["call"]
            if own[id(layer)] is not None:
                layer.__dict__["call"] = own[id(layer)]


def _noting(
    layer: Any, call: Callable[..., Any], calls: list[_Call], open_calls: list[Any]
) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        caller = open_calls[-1] if open_calls else None
        open_calls.append(layer)
        try:
            outputs = call(*args, **kwargs)
        finally:
            open_calls.pop()
        calls.append(_Call(layer, nest.flatten((args, kwargs)), nest.flatten(outputs), caller))
        return outputs

    return run


def _layers(model: Any) -> Iterator[Any]:
    """All layers in a model, itself last."""
    seen: set[int] = set()

    def walk(layer: Any) -> Iterator[Any]:
        seen.add(id(layer))
        for inner in layer._inner_layers():
            if id(inner) not in seen:
                yield from walk(inner)
        yield layer

    return walk(model)


def _of_data(batch: Any) -> Origin | None:
    for place, part in zip(("input", "target", "sample weight"), batch):
        if not _are_finite(part):
            return Origin(
                None, place, f"It began in the data: {place}s of the batch are not finite."
            )
    return None


def _of_outputs(model: Any, calls: Sequence[_Call]) -> Origin:
    """The first output that is not finite, else the loss itself."""
    for call in calls:
        if not _are_finite(call.outputs):
            return _of_call(call)
    for layer in _layers(model):
        if not _are_finite(layer._own_losses):
            return Origin(
                layer.name, "loss", f"It began in a loss that layer {_named(layer)} adds."
            )
    return Origin(
        None, "loss", "It began in the loss itself: all layers gave finite outputs for the batch."
    )


def _of_call(call: _Call) -> Origin:
    layer = call.layer
    if call.caller is not None and not _are_finite(call.inputs):
        return Origin(
            call.caller.name,
            "output",
            f"It began in what {_named(call.caller)} itself computes, before its layer "
            f"{_named(layer)}: the input of that one is not finite, the outputs of all layers "
            "before it are.",
        )
    return Origin(
        layer.name,
        "output",
        f"It began in the output of layer {_named(layer)}: the weights, and the outputs of all "
        "layers before it, are finite.",
    )


def _of_changed_weights(calls: Sequence[_Call]) -> Origin | None:
    """The last layer whose weights a step made infinite: gradients go from there to the input."""
    layers = [call.layer for call in reversed(calls)]
    return _of_weights(layers, "gradient", "got a gradient that is not finite in this batch.")


def _of_weights(layers: Iterable[Any], place: str, what: str) -> Origin | None:
    for layer in layers:
        for variable in layer._own_variables():
            if not _is_finite(variable.value()):
                name = variable.name.removesuffix(":0")
                return Origin(layer.name, place, f"Weight {name!r} of layer {_named(layer)} {what}")
    return None


def _of_gradients(model: Any, tape: Any, loss: Any, calls: Sequence[_Call]) -> Origin | None:
    """The layer in which gradients, on their way back from the loss, stopped being finite."""
    variables = model.trainable_variables
    if not variables:
        return None
    bad = [v for v, g in zip(variables, tape.gradient(loss, variables)) if not _are_finite(g)]
    if not bad:
        return None
    gradients = [_gradients(tape, loss, call.outputs) for call in calls]
    worst = [place for place, some in enumerate(gradients) if not _are_finite(some)]
    if not worst:
        numbers = {variable.number for variable in bad}
        owners = [call.layer for call in calls if numbers & _numbers(call.layer)]
        layer = owners[-1] if owners else model
        return Origin(
            layer.name,
            "gradient",
            f"It began in the gradient of the weights of layer {_named(layer)}: the gradient of "
            "its output is finite.",
        )
    last = max(worst, key=lambda place: _depth_first(calls, place))
    return _after(calls, gradients, last)


def _depth_first(calls: Sequence[_Call], place: int) -> tuple[int, int]:
    """Later calls first; of calls that return the same tensor, the innermost."""
    same = [k for k, call in enumerate(calls) if call.outputs and calls[place].outputs
            and call.outputs[0] is calls[place].outputs[0]]  # fmt: skip
    return (min(same, default=place), -place)


def _after(calls: Sequence[_Call], gradients: Sequence[Any], place: int) -> Origin:
    """What happens to the output of a call, where its gradient is made."""
    layer = calls[place].layer
    marks = {id(output) for output in calls[place].outputs}
    for other, call in enumerate(calls):
        is_user = other != place and any(id(one) in marks for one in call.inputs)
        if is_user and _are_finite(gradients[other]):
            return Origin(
                call.layer.name,
                "gradient",
                "The loss is finite, its gradient is not: it began in layer "
                f"{_named(call.layer)}, whose output has a finite gradient and whose input has "
                "not.",
            )
    return Origin(
        layer.name,
        "gradient",
        "The loss is finite, its gradient is not: it began in what is computed from the output of "
        f"layer {_named(layer)}, outside of layers or in the loss.",
    )


def _gradients(tape: Any, loss: Any, outputs: Sequence[Any]) -> list[Any]:
    floating = [x for x in outputs if isinstance(x, Tensor) and x.dtype.is_floating]
    return list(tape.gradient(loss, floating)) if floating else []


def _numbers(layer: Any) -> set[int]:
    return {variable.number for variable in layer._own_variables()}


def _named(layer: Any) -> str:
    return f"{layer.name!r} ({type(layer).__name__})"


def _are_finite(values: Any) -> bool:
    return all(_is_finite(value) for value in nest.flatten(values))


def _is_finite(value: Any) -> bool:
    """Whether all numbers of a tensor are finite; one flag is read from the device."""
    if isinstance(value, IndexedSlices):
        value = value.values
    if not isinstance(value, Tensor) or not value.dtype.is_floating:
        return not isinstance(value, float) or value - value == 0.0
    return bool(reduce_all(isfinite(value)).numpy())
