"""Primitives for random draws from a given state, and one function per distribution.

A state is a uint64 tensor `[seed, offset]`; the kernels return the same numbers on every device. A
`Source` provides the state: a generator, the global generator, or a pair of seeds.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from tapegrad.core.argument_checks import check_count, check_wholes
from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.errors import ArgumentError, ArgumentTypeError
from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.control.vmap_hook import each_example
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.elementwise.special_functions import random_gamma_grad
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.indexing.sorting import argsort
from tapegrad.ops.shape.primitives import broadcast_p

Shape = tuple[int, ...]

random_uniform_p = nondifferentiable("random_uniform")
random_normal_p = nondifferentiable("random_normal")
random_truncated_normal_p = nondifferentiable("random_truncated_normal")
random_integers_p = nondifferentiable("random_integers")
random_permutation_p = nondifferentiable("random_permutation")
random_bernoulli_p = nondifferentiable("random_bernoulli")
random_categorical_p = nondifferentiable("random_categorical")
random_poisson_p = nondifferentiable("random_poisson")
random_gamma_p = Primitive("random_gamma")


def _with_joint_batches(primitive: Primitive) -> Primitive:
    """Return a variant of a primitive that draws different numbers for each example of a batch.

    The primitive itself is a function of its state: all examples get the same random words.
    """

    def run(xp: Any, state: Any, parameter: Any, **params: Any) -> Any:
        return primitive.kernel(type(state))(state, parameter, **params)

    def batch(size: int, batched: Any, state: Any, parameter: Any, **params: Any) -> Any:
        if "shape" in params:
            params["shape"] = (size, *params["shape"])
        return variant(state, parameter, **params)

    variant = Primitive(f"{primitive.name}s", run, differentiable=primitive.differentiable)
    variant.batch(batch)
    return variant


random_categoricals_p = _with_joint_batches(random_categorical_p)
for _primitive in (random_categorical_p, random_categoricals_p):
    # A kernel draws one number for each sample and class.
    _primitive.result_shape = lambda state, x, *, num_samples, dtype: (*x.shape, num_samples)
random_poissons_p = _with_joint_batches(random_poisson_p)
random_gammas_p = _with_joint_batches(random_gamma_p)

# Reparameterized: the derivative of a sample with respect to alpha, for fixed random words.
for _primitive in (random_gamma_p, random_gammas_p):
    _primitive.vjps(None, lambda t, x2, y: t * random_gamma_grad(x2, y))
    _primitive.jvps(None, lambda t, x2, y: t * random_gamma_grad(x2, y))

_JOINT_BATCHES = {
    random_categorical_p: random_categoricals_p,
    random_poisson_p: random_poissons_p,
    random_gamma_p: random_gammas_p,
}


class Source(Protocol):
    """Provides the states of draws."""

    spreads: bool
    """Whether the examples of a vmap get different numbers; otherwise all get the same."""

    def take(self) -> Any:
        """Return the state of the next draw."""


def _draw(source: Source, primitive: Primitive, shape: Shape, **params: Any) -> Any:
    state = source.take()
    if not source.spreads:
        return primitive(state, shape=shape, **params)
    return each_example(lambda full: primitive(state, shape=full, **params), shape)


def _draw_with(source: Source, primitive: Primitive, parameter: Any, **params: Any) -> Any:
    """Draw with a tensor of parameters, which is first batched inside vmap."""
    state = source.take()
    if source.spreads:
        primitive = _JOINT_BATCHES[primitive]
        zero = each_example(lambda full: zeros_for(state, full, parameter.dtype), ())
        if type(zero) is not type(state):
            parameter = parameter + zero
    return primitive(state, parameter, **params)


def as_shape(shape: Any, name: str = "shape") -> Shape:
    """Return a shape as a tuple of ints, from a number, a sequence or an integer tensor."""
    return check_wholes(name, shape)


def _floating(dtype: Any, name: str) -> DType:
    wanted = as_dtype(dtype)
    if not wanted.is_floating:
        raise ArgumentTypeError(f"{name} draws floating-point numbers. Got dtype {wanted}.")
    return wanted


def _parameter(value: Any, dtype: DType) -> Any:
    return value if type(value) in NUMBERS else in_dtype(as_operand(value), dtype)


def _scale_and_shift(y: Any, scale: Any, shift: Any, dtype: DType) -> Any:
    """Return y * scale + shift, differentiable in both; skip a scale of 1 and a shift of 0."""
    if not (type(scale) in NUMBERS and scale == 1):
        y = y * _parameter(scale, dtype)
    if not (type(shift) in NUMBERS and shift == 0):
        y = y + _parameter(shift, dtype)
    return y


def draw_normal(source: Source, shape: Any, mean: Any, stddev: Any, dtype: Any) -> Any:
    wanted = _floating(dtype, "normal")
    y = _draw(source, random_normal_p, as_shape(shape), dtype=wanted.dtype)
    return _scale_and_shift(y, stddev, mean, wanted)


def draw_truncated_normal(source: Source, shape: Any, mean: Any, stddev: Any, dtype: Any) -> Any:
    wanted = _floating(dtype, "truncated_normal")
    y = _draw(source, random_truncated_normal_p, as_shape(shape), dtype=wanted.dtype)
    return _scale_and_shift(y, stddev, mean, wanted)


def draw_uniform(source: Source, shape: Any, minval: Any, maxval: Any, dtype: Any) -> Any:
    wanted = as_dtype(dtype)
    if wanted.is_integer:
        if maxval is None:
            raise ArgumentError(f"uniform needs maxval for the integer dtype {wanted}. Got None.")
        return draw_integers(source, shape, minval, maxval, wanted)
    _floating(wanted, "uniform")
    y = _draw(source, random_uniform_p, as_shape(shape), dtype=wanted.dtype)
    if maxval is None:
        maxval = 1.0
    if type(minval) in NUMBERS and type(maxval) in NUMBERS:
        return _scale_and_shift(y, maxval - minval, minval, wanted)
    low, high = _parameter(minval, wanted), _parameter(maxval, wanted)
    return _scale_and_shift(y, high - low, low, wanted)


def draw_integers(source: Source, shape: Any, minval: Any, maxval: Any, dtype: Any) -> Any:
    wanted = as_dtype(dtype)
    low, high = int(minval), int(maxval)
    if not wanted.is_integer or not low < high:
        raise ArgumentError(
            f"Random integers need an integer dtype and minval < maxval. "
            f"Got {wanted}, minval={low}, maxval={high}."
        )
    return _draw(source, random_integers_p, as_shape(shape), dtype=wanted.dtype, low=low, high=high)


def draw_full_int(source: Source, shape: Any, dtype: Any) -> Any:
    wanted = as_dtype(dtype)
    if not wanted.is_integer:
        raise ArgumentTypeError(f"uniform_full_int draws integers. Got dtype {wanted}.")
    return draw_integers(source, shape, wanted.min, int(wanted.max) + 1, wanted)


def draw_mask(source: Source, shape: Shape, rate: float) -> Any:
    """Draw booleans that are False with probability `rate`."""
    return _draw(source, random_bernoulli_p, shape, rate=rate)


def draw_gamma(source: Source, shape: Shape, alpha: Any, beta: Any, dtype: Any) -> Any:
    """Draw from gamma distributions; alpha and beta broadcast to `shape`."""
    wanted = _floating(dtype, "gamma")
    concentration = broadcast_p(in_dtype(as_operand(alpha), wanted), shape=shape)
    y = _draw_with(source, random_gamma_p, concentration, shape=shape, dtype=wanted.dtype)
    return y if beta is None else y / in_dtype(as_operand(beta), wanted)


def draw_poisson(source: Source, shape: Shape, lam: Any, dtype: Any) -> Any:
    """Draw from Poisson distributions; the rates broadcast to `shape`."""
    wanted = as_dtype(dtype)
    rate = as_operand(lam)
    rate = rate if rate.dtype.is_floating else cast(rate, "float64")
    rate = broadcast_p(rate, shape=shape)
    return _draw_with(source, random_poisson_p, rate, shape=shape, dtype=wanted.dtype)


def draw_categorical(source: Source, logits: Any, num_samples: int, dtype: Any) -> Any:
    x = as_operand(logits)
    if not x.shape or not x.shape[-1]:
        raise ArgumentError(
            f"categorical takes logits [..., classes] with at least one class. Got shape {x.shape}."
        )
    wanted = as_dtype("int64" if dtype is None else dtype)
    return _draw_with(
        source,
        random_categorical_p,
        x,
        num_samples=check_count("num_samples", num_samples, "categorical"),
        dtype=wanted.dtype,
    )


def shuffled(source: Source, value: Any) -> Any:
    """Return the rows of `value` in a random order; gradients follow the rows."""
    x = as_operand(value)
    if not x.shape:
        raise ArgumentError("shuffle takes a tensor of at least one dimension. Got a scalar.")
    if not source.spreads:
        return gather(x, random_permutation_p(source.take(), n=x.shape[0]))
    # The same definition of a permutation as in the kernel, which also works for a batch.
    keys = draw_full_int(source, (x.shape[0],), "uint64")
    return gather(x, argsort(keys, stable=True))


def parameter_shape(*parameters: Any) -> Shape:
    """Return the broadcast shape of the parameters that are not None."""
    shapes = [tuple(as_operand(p).shape) for p in parameters if p is not None]
    return tuple(np.broadcast_shapes(*shapes))
