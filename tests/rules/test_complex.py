"""Complex input: every function has the right gradient or refuses it with one sentence.

The samples are the table of all functions. Each real argument gets an imaginary part, and the
gradient is compared with differences along random complex directions.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import DTypeError
from tapegrad.testing import checks
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tapegrad.testing.variants import with_imaginary_part

INTERNAL = re.compile(r"_update|_and_gradient|segment_ties|matmul_sum|matmul_with_sums|^ties")
"""Primitives of the engine and the optimizers, which are called with checked operands."""


def _complex_samples() -> list[Sample]:
    found = []
    seen: Counter[str] = Counter()
    for sample in all_samples():
        # Two samples of a function: most others differ in shapes only.
        base = sample.name.split("-")[0]
        seen[base] += 1
        if seen[base] > 2:
            continue
        kinds = [array.dtype.kind for array in sample.make()]
        if "f" not in kinds or not sample.differentiable or INTERNAL.search(sample.name):
            continue
        makers = [with_imaginary_part(maker) for maker in sample.args]
        found.append(replace(sample, args=makers))
        if kinds.count("f") > 1:
            for k, kind in enumerate(kinds):
                if kind == "f":
                    args = [makers[i] if i == k else own for i, own in enumerate(sample.args)]
                    found.append(replace(sample, args=args, name=f"{sample.name}-only-{k}"))
    return found


def _refusal(sample: Sample) -> TypeError | None:
    try:
        sample.function(*checks._tensors(sample.make()))
    except TypeError as error:
        return error
    return None


@pytest.mark.parametrize("sample", _complex_samples(), ids=repr)
def test_gradients_of_complex_input_are_right_or_refused(sample: Sample) -> None:
    with np.errstate(all="ignore"):
        refusal = _refusal(sample)
        if refusal is not None:
            assert type(refusal).__module__ == "tapegrad.errors", refusal
            assert "ufunc" not in str(refusal)
            return
        for check in (checks.check_vjp, checks.check_jvp, checks.check_second_order):
            check(sample)


REAL_ONLY: dict[str, Any] = {
    "softplus": tf.math.softplus,
    "log_sigmoid": tf.math.log_sigmoid,
    "softsign": tf.nn.softsign,
    "mish": tf.keras.activations.mish,
    "gelu": tf.nn.gelu,
    "lgamma": tf.math.lgamma,
    "erf": tf.math.erf,
    "bessel_i0": tf.math.bessel_i0,
    "polygamma": lambda z: tf.math.polygamma(1.0, z),
    "zeta": lambda z: tf.math.zeta(z, 2.0),
    "igamma": lambda z: tf.math.igamma(1.0, z),
    "betainc": lambda z: tf.math.betainc(1.0, 2.0, z),
    "floor": tf.math.floor,
    "complex": lambda z: tf.complex(z, z),
    "layer_norm": tf.nn.layer_norm,
    "rms_norm": tf.nn.rms_norm,
    "batch_norm": tf.nn.batch_norm,
    "scaled_dot_product_attention": lambda z: tf.nn.scaled_dot_product_attention(z, z, z),
    "softmax_cross_entropy_with_logits": lambda z: tf.nn.softmax_cross_entropy_with_logits(
        np.ones((2, 2)), z
    ),
    "sigmoid_cross_entropy_with_logits": lambda z: tf.nn.sigmoid_cross_entropy_with_logits(
        z, np.ones((2, 2))
    ),
    "cumulative_logsumexp": tf.math.cumulative_logsumexp,
    "huber": lambda z: tf.keras.losses.huber(z, z),
}
Z = np.array([[1 + 2j, 0.5], [3.0, -1j]])


def _refuses(name: str, function: Any, z: Any) -> None:
    with pytest.raises(DTypeError, match=f"{name} accepts real arguments only. Got complex128"):
        function(z)


@pytest.mark.parametrize("name", REAL_ONLY)
def test_real_functions_refuse_complex_input_by_name(name: str) -> None:
    function = REAL_ONLY[name]
    _refuses(name, function, tf.constant(Z))
    _refuses(name, function, tf.Variable(Z))
    _refuses(name, tf.function(function), tf.constant(Z))
    _refuses(name, lambda z: tf.vectorized_map(function, z), tf.constant(Z[None]))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("tensor_scatter_nd_update", lambda z: tf.tensor_scatter_nd_update([1.0], [[0]], z)),
        ("tensor_scatter_nd_max", lambda z: tf.tensor_scatter_nd_max([1.0], [[0]], z)),
        ("dynamic_stitch", lambda z: tf.dynamic_stitch([[0], [1]], [[1.0], z])),
        ("matrix_set_diag", lambda z: tf.linalg.set_diag([[1.0]], z)),
    ],
)
def test_complex_values_are_not_written_into_real_tensors(name: str, call: Any) -> None:
    with pytest.raises(DTypeError, match=rf"{name} cannot write complex128 .* tensor of float32"):
        call(tf.constant([1 + 2j]))


def test_an_implicit_cast_does_not_drop_the_imaginary_part() -> None:
    with pytest.raises(DTypeError, match="drop its imaginary part"):
        tf.random.stateless_normal([2], [1, 2], stddev=tf.constant(1 + 2j))


def test_a_complex_exponent_of_a_negative_number_has_a_gradient() -> None:
    z = tf.constant(1 + 1j)
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = tf.math.pow(tf.constant(-2.0, "float64"), z)
    expected = np.conj((-2 + 0j) ** (1 + 1j) * np.log(-2 + 0j))
    np.testing.assert_allclose(tape.gradient(y, z).numpy(), expected, rtol=1e-12)
