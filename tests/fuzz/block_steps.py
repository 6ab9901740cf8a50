"""Random steps of larger parts: products, windows, matrices, loops, branches, tapes, variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tf
from tests.fuzz.drawing import Draw, Drawer, Step
from tests.fuzz.elementwise_steps import BINARY, UNARY


def product(draw: Draw) -> Step | None:
    """Matrix products of a value with itself, another one or a constant."""
    x = draw.pick(lambda value: value.ndim > 1)
    if x is None:
        return None
    shape, kind = draw.shape(x), draw.whole(0, 9)
    dtype = draw.values[x].dtype.as_numpy_dtype
    weights = np.round(draw.rng.normal(size=(shape[-1], draw.whole(1, 6))), 2).astype(dtype)
    row = weights[:, 0].copy()
    functions = (
        lambda v: tf.matmul(v, v, transpose_b=True) * 0.2,
        lambda v: tf.matmul(v, v, transpose_a=True) * 0.2,
        lambda v: tf.matmul(v, weights) + weights[0],
        lambda v: tf.nn.relu(tf.matmul(tf.tanh(v), weights)) * 0.5,
        lambda v: tf.linalg.matvec(v, row),
        lambda v: tf.einsum("...ij,...ik->...jk", v, v * 0.3),
        lambda v: tf.tensordot(v, weights, 1),
        lambda v: tf.einsum("...i,...j->...ij", v, v)[..., 0, :],
        lambda v: tf.reduce_sum(v[..., :, None] * weights, axis=-2),
    )
    return Step(f"product {kind} {weights.shape}", (x,), functions[kind])


def windows(draw: Draw) -> Step | None:
    """Convolutions and pools of a few channels; stencils."""
    x = draw.pick(lambda value: value.ndim > 1 and min(value.shape[-2:]) >= 3)
    if x is None:
        return None
    shape, kind = draw.shape(x), draw.whole(0, 8)
    dtype = draw.values[x].dtype.as_numpy_dtype
    weights = np.round(draw.rng.normal(size=(3, 3, 1, draw.whole(1, 3))), 2).astype(dtype)
    padding, step = draw.choice(["SAME", "VALID"]), draw.whole(1, 3)

    def images(value: Any) -> Any:
        return tf.reshape(value, (-1, *shape[-2:], 1))

    functions: tuple[Callable[[Any], Any], ...] = (
        lambda v: tf.nn.conv2d(images(v), weights, step, padding),
        lambda v: tf.nn.conv2d(images(v), weights[..., :1], 1, padding)[..., 0] * 0.3,
        lambda v: tf.nn.max_pool2d(images(v), 2, step, padding),
        lambda v: tf.nn.avg_pool2d(images(v), 2, step, padding),
        lambda v: tf.nn.depthwise_conv2d(images(v), weights, (1, step, step, 1), padding),
        lambda v: tf.nn.conv1d(tf.reshape(v, (-1, *shape[-2:])),
                               np.ones((2, shape[-1], 2), dtype) * 0.1, step, padding),
        lambda v: v[..., 1:, 1:] - 0.5 * v[..., :-1, :-1] + v[..., 1:, :-1] * v[..., :-1, 1:],
        lambda v: tf.roll(v, 1, -1) + tf.roll(v, -1, -1) + tf.roll(v, 1, -2) - 3.0 * v,
    )  # fmt: skip
    return Step(f"windows {kind} {weights.shape} {padding} {step}", (x,), functions[kind])


def matrices(draw: Draw) -> Step | None:
    """Factors, inverses and solutions of well-conditioned matrices; Fourier transforms."""
    x = draw.pick(lambda value: value.ndim > 1 and max(value.shape[-2:]) <= 6)
    if x is None or draw.values[x].dtype.name not in ("float32", "float64"):
        return None
    size, kind = draw.shape(x)[-1], draw.whole(0, 7)

    def definite(value: Any) -> Any:
        small = tf.tanh(value)
        return tf.matmul(small, small, transpose_a=True) + 2.0 * tf.eye(size, dtype=value.dtype)

    functions: tuple[Callable[[Any], Any], ...] = (
        lambda v: tf.linalg.inv(definite(v)),
        lambda v: tf.linalg.cholesky(definite(v)),
        lambda v: tf.linalg.solve(definite(v), tf.linalg.matrix_transpose(v)),
        lambda v: tf.linalg.logdet(definite(v)),
        lambda v: tf.linalg.triangular_solve(tf.linalg.cholesky(definite(v)), definite(v) * 0.1),
        lambda v: tf.math.real(tf.signal.ifft(tf.signal.fft(tf.complex(v, v * v)) * 0.5)),
        lambda v: tf.abs(tf.signal.rfft(v)) ** 2 * 0.1,
    )
    return Step(f"matrices {kind}", (x,), functions[kind])


def _body(draw: Draw, values: int) -> Callable[..., Any]:
    """Return a random function of values of one shape that returns one of them in (-1, 1)."""
    steps = []
    for _ in range(draw.whole(2, 6)):
        if draw.coin():
            steps.append((UNARY[draw.choice(list(UNARY))], [draw.whole(0, values)]))
        else:
            operands = [draw.whole(0, values), draw.whole(0, values)]
            steps.append((BINARY[draw.choice(list(BINARY))], operands))
        values += 1

    def body(*given: Any) -> Any:
        found = list(given)
        for function, operands in steps:
            found.append(function(*[found[k] for k in operands]))
        return tf.tanh(0.5 * given[0] + found[-1])

    return body


def loop(draw: Draw) -> Step | None:
    """Loops with a fixed number of rounds or with a condition, over entries or not."""
    x = draw.pick(lambda value: value.ndim > 0 and value.shape[0] <= 12)
    if x is None:
        return None
    body, kind, rounds = _body(draw, 2), draw.whole(0, 6), draw.whole(2, 12)
    reverse = draw.coin()
    dtype = draw.values[x].dtype

    def counted(v: Any) -> Any:
        first = tf.zeros_like(v)
        return tf.while_loop(
            lambda k, _: k < rounds, lambda k, s: (k + 1, body(s, v)), [tf.constant(0), first]
        )[1]

    def conditional(v: Any) -> Any:
        def is_on(k: Any, state: Any) -> Any:
            return (tf.reduce_sum(tf.abs(state)) < 3.1) & (k < rounds)

        return tf.while_loop(
            is_on, lambda k, s: (k + 1, body(s, v)), [tf.constant(0), v * 0.1],
            maximum_iterations=20,
        )[1]  # fmt: skip

    def pair(v: Any) -> Any:
        def step(state: Any, row: Any) -> Any:
            a, b = state
            return body(a, row), b + 0.1 * a

        a, b = tf.scan(step, v, (tf.zeros_like(v[0]), tf.ones_like(v[0])))
        return a - b

    functions: tuple[Callable[[Any], Any], ...] = (
        lambda v: tf.scan(lambda s, row: body(s, row), v, tf.zeros_like(v[0]), reverse=reverse),
        lambda v: tf.scan(lambda s, row: body(s, row), v, reverse=reverse),
        counted,
        conditional,
        pair,
        lambda v: tf.map_fn(lambda row: body(row, row * row), v, fn_output_signature=dtype),
    )
    return Step(f"loop {kind} rounds={rounds} reverse={reverse}", (x,), functions[kind])


def branch(draw: Draw) -> Step | None:
    """One of two functions, chosen by a value."""
    x = draw.pick()
    if x is None:
        return None
    one, other, kind = _body(draw, 1), _body(draw, 1), draw.whole(0, 3)

    def is_large(v: Any) -> Any:
        return tf.reduce_mean(v) > 0.05

    functions: tuple[Callable[[Any], Any], ...] = (
        lambda v: tf.cond(is_large(v), lambda: one(v), lambda: other(v)),
        lambda v: tf.switch_case(tf.cast(is_large(v), "int32"), [lambda: one(v), lambda: other(v)]),
        lambda v: tf.where(is_large(v), one(v), other(v)),
    )
    return Step(f"branch {kind}", (x,), functions[kind])


def derivative(draw: Draw) -> Step | None:
    """A gradient, a gradient of it, a tangent or a custom rule inside the program."""
    x = draw.pick()
    if x is None:
        return None
    body, kind = _body(draw, 1), draw.whole(0, 6)

    def gradient(v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = tf.reduce_sum(body(v))
        return tape.gradient(y, v, unconnected_gradients="zero")

    def second(v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(v)
            y = tf.reduce_sum(gradient(v) * v)
        return tape.gradient(y, v, unconnected_gradients="zero")

    def tangent(v: Any) -> Any:
        with tf.autodiff.ForwardAccumulator(v, tf.ones_like(v)) as accumulator:
            y = body(v)
        found = accumulator.jvp(y)
        return tf.zeros_like(v) if found is None else found

    @tf.custom_gradient
    def custom(v: Any) -> Any:
        return body(v), lambda t: t * tf.cos(v)

    functions: tuple[Callable[[Any], Any], ...] = (
        gradient,
        second,
        tangent,
        custom,
        tf.recompute_grad(body),
        tf.function(body),
    )
    return Step(f"derivative {kind}", (x,), functions[kind])


def variable(draw: Draw) -> Step | None:
    """A variable that is read, assigned, or written in part."""
    x = draw.pick()
    if x is None or draw.values[x].dtype != draw.variables[0].dtype:
        return None
    number, kind = draw.whole(0, len(draw.variables)), draw.whole(0, 5)

    def used(variables: Any, v: Any) -> Any:
        one = variables[number]
        change = tf.tanh(tf.reduce_mean(v))
        if kind == 1:
            one.assign(one * 0.9 + change)
        elif kind == 2:
            one.assign_sub(0.1 * one.value() + change)
        elif kind == 3:
            one[0].assign(one[1] * 0.5 + change)
        elif kind == 4:
            one.scatter_nd_add([[1]], tf.reshape(change + one[0], (1, -1)))
        return one * 0.5

    return Step(f"variable {kind} {number}", (x,), used, reads_variables=True)


DRAWERS: tuple[Drawer, ...] = (
    product, product, windows, matrices, loop, loop, branch, derivative, variable, variable,
)  # fmt: skip
