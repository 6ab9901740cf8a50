"""The workloads with a network in them, as `tapegrad.keras` models that a user might write.

Layers come in the order of the workload's parameters, so that `trainable_variables` are those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import tapegrad as tf
from tapegrad_bench.adapters.keras_gpt2 import GPT2
from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Array, Arrays, Dims, Problem
from tapegrad_bench.workloads.convnet import BLOCKS
from tapegrad_bench.workloads.mlp import widths

layers = tf.keras.layers


@dataclass(frozen=True)
class Network:
    """A model, its loss, and the batch as the model takes it."""

    model: Any
    loss: Callable[..., Array]
    """Of what the model says, and of the arrays that come after the first one of the batch."""
    arrange: Callable[[Arrays], Arrays] = list
    """Bring the workload's batch into the order of axes that the model takes."""


def network_of(problem: Problem) -> Network:
    """Return the workload as a model, which has no weights yet.

    >>> from tapegrad_bench.workloads import WORKLOADS
    >>> workload = WORKLOADS["mlp_small"]
    >>> len(network_of(Problem(workload, workload.check, "float32")).model.layers)
    3
    """
    return NETWORKS[problem.workload.name](problem.dims, problem.dtype)


def policy_of(dtype: str) -> str:
    """Return the policy under which layers compute in `dtype`; half precision keeps f32 weights.

    >>> policy_of("bfloat16"), policy_of("float64")
    ('mixed_bfloat16', 'float64')
    """
    return f"mixed_{dtype}" if is_half(dtype) else dtype


def _classifier(dims: Dims, dtype: str) -> Network:
    dense = partial(layers.Dense, dtype=policy_of(dtype))
    *hidden, outputs = widths(dims)[1:]
    stack = [*[dense(width, activation="relu") for width in hidden], dense(outputs)]
    return Network(tf.keras.Sequential(stack), _cross_entropy(dtype))


def _plain_network(dims: Dims, dtype: str) -> Network:
    dense = partial(layers.Dense, use_bias=False, dtype=policy_of(dtype))
    *hidden, outputs = widths(dims)[1:]
    stack = [*[dense(width, activation="relu") for width in hidden], dense(outputs)]
    return Network(tf.keras.Sequential(stack), _mean_square)


def _recurrent(dims: Dims, dtype: str) -> Network:
    layer = layers.SimpleRNN(dims["hidden"], dtype=policy_of(dtype))
    # The workload's sequences have the steps first, and zeros for the state beside them.
    return Network(
        tf.keras.Sequential([layer]), _mean_square, lambda batch: [batch[0].swapaxes(0, 1).copy()]
    )


def _convolutional(dims: Dims, dtype: str) -> Network:
    policy = policy_of(dtype)
    stack: list[Any] = []
    for factor, stride in BLOCKS:
        stack += [
            _Conv2D(factor * dims["width"], 3, stride, "same", use_bias=False, dtype=policy),
            layers.BatchNormalization(epsilon=1e-5, dtype=policy),
            layers.ReLU(dtype=policy),
        ]
    stack += [layers.GlobalAveragePooling2D(dtype=policy), layers.Dense(10, dtype=policy)]
    return Network(tf.keras.Sequential(stack), _cross_entropy(dtype))


class _Conv2D(layers.Conv2D):
    """With a margin on all sides; Keras' "same" puts that of a strided one at the far sides."""

    def call(self, inputs: Array) -> Array:
        margins = ((0, 0), (1, 1), (1, 1), (0, 0))
        return tf.nn.conv2d(inputs, self.kernel, self.strides, margins)


def _gpt2(dims: Dims, dtype: str) -> Network:
    model = GPT2(
        layers=dims["layers"],
        width=dims["width"],
        heads=dims["heads"],
        length=dims["length"],
        vocabulary=dims["vocabulary"],
        dtype=policy_of(dtype),
    )
    return Network(model, _next_token)


def _cross_entropy(dtype: str) -> Callable[..., Array]:
    kept = dtype if dtype == "float64" else None
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, dtype=kept)
    return lambda logits, labels: loss(labels, logits)


def _mean_square(y: Array) -> Array:
    y = _single(y)
    return tf.reduce_mean(y * y)


def _next_token(logits: Array, following: Array) -> Array:
    # Keras' own loss would make a copy of all logits in float32, the largest array of the step.
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits
    return tf.reduce_mean(_single(loss(labels=following, logits=logits)))


def _single(x: Array) -> Array:
    return tf.cast(x, "float32") if is_half(x.dtype.name) else x


NETWORKS: dict[str, Callable[[Dims, str], Network]] = {
    "mlp_small": _classifier,
    "mlp_mid": _classifier,
    "mlp_large": _plain_network,
    "rnn": _recurrent,
    "convnet": _convolutional,
    "gpt2": _gpt2,
}
"""By the name of the workload."""
