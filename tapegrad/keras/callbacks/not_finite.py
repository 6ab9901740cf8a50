"""Find where in a model values become infinite or NaN, by recomputing a batch layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.commit import assign_together, store
from tapegrad.core.values import nest
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.keras.batch_data import pack
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.comparison import isfinite
from tapegrad.ops.reduction.functions import reduce_all

Kept = list[tuple[Variable, Any]]
"""Variables with their saved arrays."""


class Origin(NamedTuple):
    """The first place where values are not finite."""

    layer: str | None
    """The name of the layer, or None if it is not in a layer."""
    place: str
    """One of "input", "target", "sample weight", "weight", "output", "loss" and "gradient"."""
    sentence: str
    """A description for users."""


class _Call(NamedTuple):
    layer: Any
    inputs: list[Any]
    outputs: list[Any]
    caller: Any


def kept_of(variables: Iterable[Variable]) -> Kept:
    """Return variables with their current arrays, which later steps do not change."""
    return [(variable, variable.array) for variable in variables]


@contextmanager
def set_back(kept: Kept, others: Iterable[Variable]) -> Iterator[None]:
    """Restore saved arrays, and set the other variables to zeros, inside the block."""
    now = kept_of([*(variable for variable, _ in kept), *others])
    known = {variable.number for variable, _ in kept}
    try:
        store([variable for variable, _ in kept], [array for _, array in kept])
        zeroed = [variable for variable, _ in now if variable.number not in known]
        assign_together(zeroed, [zeros_like(variable.read_value()) for variable in zeroed])
        yield
    finally:
        store([variable for variable, _ in now], [array for _, array in now])


def find_origin(model: Any, batch: Any, is_own_step: bool) -> Origin | None:
    """Return where a batch first gives values that are not finite, or None if all are finite.

    `is_own_step` means that the model overrides `train_step`, which is then called.
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
    """Record every call of a layer; the calls of sublayers come before the call itself."""
    layers = list(_layers(model))
    open_calls: list[Any] = []
    own = {id(layer): layer.__dict__.get("call") for layer in layers}
    for layer in layers:
        layer.__dict__["call"] = _recording(layer, layer.call, calls, open_calls)
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["call"]
            if own[id(layer)] is not None:
                layer.__dict__["call"] = own[id(layer)]


def _recording(
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
    """Iterate over all layers in a model; the model itself is last."""
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
                None, place, f"The cause is in the data: {place}s of the batch are not finite."
            )
    return None


def _of_outputs(model: Any, calls: Sequence[_Call]) -> Origin:
    """Return the first output that is not finite, or else the loss itself."""
    for call in calls:
        if not _are_finite(call.outputs):
            return _of_call(call)
    for layer in _layers(model):
        if not _are_finite(layer._own_losses):
            return Origin(
                layer.name, "loss", f"The cause is a loss that layer {_named(layer)} adds."
            )
    return Origin(
        None, "loss", "The cause is the loss itself: all layers gave finite outputs for the batch."
    )


def _of_call(call: _Call) -> Origin:
    layer = call.layer
    if call.caller is not None and not _are_finite(call.inputs):
        return Origin(
            call.caller.name,
            "output",
            f"The cause is in the code of {_named(call.caller)}, before its layer "
            f"{_named(layer)}: the input of that layer is not finite, but the outputs of all "
            "layers before it are.",
        )
    return Origin(
        layer.name,
        "output",
        f"The cause is the output of layer {_named(layer)}: the weights and the outputs of all "
        "layers before it are finite.",
    )


def _of_changed_weights(calls: Sequence[_Call]) -> Origin | None:
    """Return the last layer with weights that a step made infinite.

    Gradients flow from there to the layers before it.
    """
    layers = [call.layer for call in reversed(calls)]
    return _of_weights(layers, "gradient", "got a gradient that is not finite in this batch.")


def _of_weights(layers: Iterable[Any], place: str, what: str) -> Origin | None:
    for layer in layers:
        for variable in layer._own_variables():
            if not _is_finite(variable.read_value()):
                name = variable.name.removesuffix(":0")
                return Origin(layer.name, place, f"Weight {name!r} of layer {_named(layer)} {what}")
    return None


def _of_gradients(model: Any, tape: Any, loss: Any, calls: Sequence[_Call]) -> Origin | None:
    """Return the layer in which gradients, computed backwards from the loss, become infinite."""
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
            f"The cause is the gradient of the weights of layer {_named(layer)}: the gradient of "
            "its output is finite.",
        )
    last = max(worst, key=lambda place: _depth_first(calls, place))
    return _after(calls, gradients, last)


def _depth_first(calls: Sequence[_Call], place: int) -> tuple[int, int]:
    """Sort key: later calls are larger; of calls with the same output, the innermost is."""
    same = [k for k, call in enumerate(calls) if call.outputs and calls[place].outputs
            and call.outputs[0] is calls[place].outputs[0]]  # fmt: skip
    return (min(same, default=place), -place)


def _after(calls: Sequence[_Call], gradients: Sequence[Any], place: int) -> Origin:
    """Return the user of a call's output in which its gradient becomes infinite."""
    layer = calls[place].layer
    marks = {id(output) for output in calls[place].outputs}
    for other, call in enumerate(calls):
        is_user = other != place and any(id(one) in marks for one in call.inputs)
        if is_user and _are_finite(gradients[other]):
            return Origin(
                call.layer.name,
                "gradient",
                "The loss is finite, but its gradient is not. The cause is layer "
                f"{_named(call.layer)}: the gradient of its output is finite, the gradient of its "
                "input is not.",
            )
    return Origin(
        layer.name,
        "gradient",
        "The loss is finite, but its gradient is not. The cause is a computation on the output of "
        f"layer {_named(layer)} outside of layers, or the loss.",
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
    """Whether all elements of a tensor are finite; reads one flag from the device."""
    if isinstance(value, IndexedSlices):
        value = value.values
    if not isinstance(value, Tensor) or not value.dtype.is_floating:
        return not isinstance(value, float) or value - value == 0.0
    return bool(reduce_all(isfinite(value)).numpy())
