"""The checks that run on every sample and backend.

Derivatives are compared with central differences in float64 along random directions, so the cost
does not depend on the number of elements. Inner products are real: Re(sum(conj(a) b)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.autodiff.batching import vmap
from tapegrad.autodiff.forward import ForwardAccumulator
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.values import host
from tapegrad.core.values.device import current_device
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.testing.sample import Sample

Array = np.ndarray
STEP = 1e-5


def check_forward(sample: Sample) -> None:
    """Check the function against its reference."""
    if sample.reference is None:
        return
    arrays = sample.make()
    expected = sample.reference(*arrays)
    expected = expected if isinstance(expected, list | tuple) else (expected,)
    results = _outputs(sample, _tensors(arrays))
    assert len(results) == len(expected)
    for result, want in zip(results, expected, strict=True):
        assert tuple(result.shape) == np.shape(want), f"shape {result.shape} != {np.shape(want)}"
        np.testing.assert_allclose(
            result.numpy(), want, rtol=max(sample.rtol, 1e-9), atol=max(sample.rtol, 1e-9)
        )


def check_vjp(sample: Sample) -> None:
    """Check reverse mode against finite differences."""
    arrays = sample.make()
    seeds = _seeds(sample, arrays)
    directions = _directions(arrays)
    slope = _slope(_vjp(sample, arrays, seeds), directions)
    expected = _difference(lambda x: _weighted(sample, x, seeds), arrays, directions)
    _agree(slope, expected, sample, "vjp")


def check_jvp(sample: Sample) -> None:
    """Check forward mode against finite differences."""
    arrays = sample.make()
    seeds = _seeds(sample, arrays)
    directions = _directions(arrays)
    slope = _slope(_jvp(sample, arrays, directions), seeds)
    expected = _difference(lambda x: _weighted(sample, x, seeds), arrays, directions)
    _agree(slope, expected, sample, "jvp")


def check_second_order(sample: Sample) -> None:
    """Check reverse over reverse and forward over reverse against differences of the gradient."""
    if sample.order < 2:
        return
    arrays = sample.make()
    seeds = _seeds(sample, arrays)
    directions, weights = _directions(arrays, 1), _directions(arrays, 2)

    def slope_of_gradient(point: Sequence[Array]) -> float:
        return _slope(_vjp(sample, point, seeds), weights)

    expected = _difference(slope_of_gradient, arrays, directions)
    _agree(_reverse_reverse(sample, arrays, seeds, directions, weights), expected, sample, "vv")
    _agree(_forward_reverse(sample, arrays, seeds, directions, weights), expected, sample, "jv")


def check_batching(sample: Sample) -> None:
    """Check a batched call against a loop, with all arguments batched and with each alone."""
    if not sample.batches:
        return
    examples = [sample.make(seed) for seed in (1, 2, 3)]
    count = len(sample.args)
    choices = {tuple(True for _ in range(count))}
    if count > 1:
        choices |= {tuple(i == k for i in range(count)) for k in range(count)}
    for batched in sorted(choices):
        _check_batching(sample, examples, batched)


def check_dtypes(sample: Sample) -> None:
    """Check that results and gradients keep single precision."""
    arrays = [_single(array) for array in sample.make()]
    tensors = _tensors(arrays)
    sources = _followed(tensors)
    with GradientTape() as tape:
        if sources:
            tape.watch(sources)
        results = _outputs(sample, tensors)
    for result in results:
        assert result.dtype.name not in ("float64", "complex128"), f"result is {result.dtype}"
    if not sample.differentiable:
        return
    targets = [result for result in results if result.dtype.is_differentiable]
    for source, gradient in zip(sources, tape.gradient(targets, sources), strict=True):
        if gradient is not None:
            assert gradient.dtype == source.dtype
            assert gradient.shape == source.shape
            assert gradient.device == source.device


ALL_CHECKS: tuple[Callable[[Sample], None], ...] = (
    check_forward,
    check_vjp,
    check_jvp,
    check_second_order,
    check_batching,
    check_dtypes,
)


def _tensors(arrays: Sequence[Array]) -> list[Tensor]:
    return [wrap(host.place(array, current_device())) for array in arrays]


def _outputs(sample: Sample, tensors: Sequence[Any]) -> tuple[Any, ...]:
    result = sample.function(*tensors)
    return tuple(result) if isinstance(result, list | tuple) else (result,)


def _followed(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor for tensor in tensors if tensor.dtype.is_differentiable]


def _is_float(array: Array) -> bool:
    return array.dtype.kind in "fc"


def _directions(arrays: Sequence[Array], seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(100 + seed)
    return [
        _random_like(rng, array) if _is_float(array) else np.zeros(array.shape) for array in arrays
    ]


def _random_like(rng: np.random.Generator, array: Array) -> Array:
    value = rng.normal(size=array.shape)
    return np.asarray(
        value + 1j * rng.normal(size=array.shape) if array.dtype.kind == "c" else value
    )


def _seeds(sample: Sample, arrays: Sequence[Array]) -> list[Array]:
    rng = np.random.default_rng(7)
    outputs = [np.asarray(r.numpy()) for r in _outputs(sample, _tensors(arrays))]
    return [_random_like(rng, out) if _is_float(out) else np.zeros(out.shape) for out in outputs]


def _inner(first: Any, second: Any) -> float:
    return float(np.real(np.sum(np.conj(np.asarray(first)) * np.asarray(second))))


def _slope(derivatives: Sequence[Any], directions: Sequence[Any]) -> float:
    pairs = zip(derivatives, directions, strict=True)
    return sum(_inner(derivative, d) for derivative, d in pairs if derivative is not None)


def _weighted(sample: Sample, arrays: Sequence[Array], seeds: Sequence[Array]) -> float:
    outputs = _outputs(sample, _tensors(arrays))
    return sum(
        _inner(u, out.numpy())
        for u, out in zip(seeds, outputs, strict=True)
        if out.dtype.is_differentiable
    )


def _shifted(arrays: Sequence[Array], directions: Sequence[Array], h: float) -> list[Array]:
    return [
        np.asarray(x + h * d) if _is_float(x) else x
        for x, d in zip(arrays, directions, strict=True)
    ]


def _difference(
    function: Callable[[Sequence[Array]], float],
    arrays: Sequence[Array],
    directions: Sequence[Array],
) -> float:
    """Return the fourth-order central difference of a scalar function along a direction."""

    def at(h: float) -> float:
        return function(_shifted(arrays, directions, h))

    h = STEP * 10
    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)


def _agree(value: float, expected: float, sample: Sample, what: str) -> None:
    np.testing.assert_allclose(
        value,
        expected,
        rtol=sample.rtol * 10,
        atol=sample.rtol * 10,
        err_msg=f"{sample.name}: {what}",
    )


def _vjp(sample: Sample, arrays: Sequence[Array], seeds: Sequence[Array]) -> list[Any]:
    """Return the gradients per argument as NumPy arrays, or None where there is none."""
    tensors = _tensors(arrays)
    gradients = iter(_inner_gradients(sample, tensors, seeds))
    found = [next(gradients) if t.dtype.is_differentiable else None for t in tensors]
    return _numbers(found)


def _numbers(tensors: Sequence[Any]) -> list[Any]:
    return [None if tensor is None else tensor.numpy() for tensor in tensors]


def _weigh(results: Sequence[Any], seeds: Sequence[Array], sources: Sequence[Any]) -> Any:
    pairs = [(r, s) for r, s in zip(results, seeds, strict=True) if r.dtype.is_differentiable]
    return [r for r, _ in pairs], list(sources), _tensors([s for _, s in pairs])


def _jvp(sample: Sample, arrays: Sequence[Array], directions: Sequence[Array]) -> list[Any]:
    tensors = _tensors(arrays)
    pairs = [
        (x, d)
        for x, d in zip(tensors, _tensors(directions), strict=True)
        if x.dtype.is_differentiable
    ]
    with ForwardAccumulator([x for x, _ in pairs], [d for _, d in pairs]) as accumulator:
        results = _outputs(sample, tensors)
    tangents = [accumulator.jvp(r) if r.dtype.is_differentiable else None for r in results]
    return _numbers(tangents)


def _inner_gradients(sample: Sample, tensors: Sequence[Tensor], seeds: Sequence[Array]) -> Any:
    sources = _followed(tensors)
    with GradientTape() as tape:
        tape.watch(sources)
        results = _outputs(sample, tensors)
    return tape.gradient(*_weigh(results, seeds, sources))


def _floats(arrays: Sequence[Array], tensors: Sequence[Tensor]) -> list[Tensor]:
    return [a for a, t in zip(_tensors(arrays), tensors, strict=True) if t.dtype.is_differentiable]


def _reverse_reverse(
    sample: Sample, arrays: Any, seeds: Any, directions: Any, weights: Any
) -> float:
    tensors = _tensors(arrays)
    sources = _followed(tensors)
    with GradientTape() as outer:
        outer.watch(sources)
        gradients = _inner_gradients(sample, tensors, seeds)
    pairs = [
        (g, w) for g, w in zip(gradients, _floats(weights, tensors), strict=True) if g is not None
    ]
    second = outer.gradient([g for g, _ in pairs], sources, [w for _, w in pairs])
    return _slope(_numbers(second), _numbers(_floats(directions, tensors)))


def _forward_reverse(
    sample: Sample, arrays: Any, seeds: Any, directions: Any, weights: Any
) -> float:
    tensors = _tensors(arrays)
    with ForwardAccumulator(_followed(tensors), _floats(directions, tensors)) as accumulator:
        gradients = _inner_gradients(sample, tensors, seeds)
    tangents = [None if gradient is None else accumulator.jvp(gradient) for gradient in gradients]
    return _slope(_numbers(tangents), _numbers(_floats(weights, tensors)))


def _check_batching(sample: Sample, examples: list[list[Array]], batched: tuple[bool, ...]) -> None:
    stacked = [
        np.stack([e[i] for e in examples]) if flag else examples[0][i]
        for i, flag in enumerate(batched)
    ]
    mapped = vmap(
        lambda *xs: _outputs(sample, xs), in_axes=[0 if flag else None for flag in batched]
    )
    results = mapped(*_tensors(stacked))
    for number, example in enumerate(examples):
        point = [example[i] if flag else examples[0][i] for i, flag in enumerate(batched)]
        alone = _outputs(sample, _tensors(point))
        for together, single in zip(results, alone, strict=True):
            np.testing.assert_allclose(
                together.numpy()[number], single.numpy(), rtol=1e-7, atol=1e-9
            )


def _single(array: Array) -> Array:
    if array.dtype.kind == "f":
        return array.astype(np.float32)
    return array.astype(np.complex64) if array.dtype.kind == "c" else array
