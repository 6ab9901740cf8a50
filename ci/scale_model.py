"""Predict memory, bytes and seconds of a training step on 1 to 4,096 devices.

Every process trains with Adam in mixed precision: float32 weights, gradients and slots, products in
bfloat16. `P` is the number of weights, so each of the four arrays has 4 P bytes. A process sends
what ring or tree algorithms send; on several nodes, sums have a stage inside of the nodes, one
between them, and one inside again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

BUCKET = 25_000_000
"""Bytes of gradients that travel together."""

MODES = ("whole", "states", "weights", "tensor")
"""Data parallel, ZeRO-1, FSDP, and tensor parallel in a node with data parallel between nodes."""


@dataclass(frozen=True)
class Model:
    """A model of the family of GPT-2."""

    name: str
    layers: int
    width: int
    vocabulary: int = 50_257
    length: int = 1024

    @property
    def weights(self) -> int:
        """The number of weights; the head shares those of the embedding."""
        layer = 12 * self.width**2 + 13 * self.width
        return (self.vocabulary + self.length + 2) * self.width + self.layers * layer

    def flops(self, tokens: int) -> float:
        """Operations of a step: two per weight forward, four backward, and those of attention."""
        embedding = self.length * self.width
        attention = 6 * self.layers * self.length * self.width  # half of the pairs are masked
        return tokens * (6.0 * (self.weights - embedding) + attention)


MODELS = (
    Model("124M", 12, 768),
    Model("355M", 24, 1024),
    Model("774M", 36, 1280),
    Model("1.6B", 48, 1600),
    Model("6.7B", 32, 4096),
    Model("13B", 40, 5120),
)


@dataclass(frozen=True)
class Link:
    """A network between processes: seconds per message, and bytes per second of a process."""

    latency: float
    speed: float

    def gathered(self, nbytes: float, count: int) -> float:
        """Seconds to gather parts that have so many bytes together; to reduce and scatter is alike.

        >>> Link(0.0, 100.0).gathered(200.0, 2)
        1.0
        """
        if count == 1:
            return 0.0
        # Both send the same bytes; a tree needs fewer messages.
        return (
            math.ceil(math.log2(count)) * self.latency + (count - 1) / count * nbytes / self.speed
        )


@dataclass(frozen=True)
class Cluster:
    """Nodes of several devices."""

    per_node: int
    inside: Link
    outside: Link
    flops: float
    """Operations per second of a device, in a step of training."""
    memory: float
    bandwidth: float

    def gathered(self, nbytes: float, count: int) -> float:
        """Seconds to gather parts over processes, or to reduce and scatter: two stages."""
        inner = min(count, self.per_node)
        outer = count // inner
        return self.outside.gathered(nbytes / inner, outer) + self.inside.gathered(nbytes, inner)

    def summed(self, nbytes: float, count: int) -> float:
        """Seconds to add arrays over processes."""
        return 2 * self.gathered(nbytes, count)


def state_bytes(
    mode: str,
    weights: float,
    largest: float,
    count: int,
    inner: int = 8,
    bucket: float = BUCKET,
) -> float:
    """Return the most bytes of weights, gradients and slots during a step.

    `largest` is the number of weights of the largest layer. Two buckets travel at once, or the
    weights of the next layer and the gradients of the last one. Sharded states have new and old
    weights, parts and slots at the same time, because a step that fails changes nothing.

    >>> [state_bytes(mode, 1.0, 0.0, 4) for mode in ("states", "weights")]
    [14.0, 4.0]
    """
    if mode == "whole":
        return 16 * weights + (min(2 * bucket, 4 * weights) if count > 1 else 0.0)
    if mode == "states":
        return 8 * weights + 24 * weights / count if count > 1 else 16 * weights
    if mode == "weights":
        return 16 * weights / count + (16 * largest if count > 1 else 0.0)
    parts = min(count, inner)
    return 16 * weights / parts + (2 * bucket if count > parts else 0.0)


def activation_bytes(model: Model, tokens: int, parts: int = 1) -> float:
    """Return the bytes that the reverse sweep needs, in half precision, and those of the loss.

    A layer keeps its inputs and the operands of its products: 34 bytes per token and column.
    """
    layers = 34.0 * model.layers * model.width * tokens / parts
    return layers + 6.0 * model.vocabulary * tokens / parts


def sent(mode: str, weights: float, count: int, item: int = 4) -> dict[str, float]:
    """Return the bytes of the operands of a step's collective calls, by their name.

    `item` is the size of an element that travels for FSDP. The first of its layers needs no second
    gather, because nothing is differentiated by the data.

    >>> sent("states", 10.0, 2)
    {'reduce_scatter': 40.0, 'all_gather': 20.0}
    """
    if count == 1:
        return {}
    if mode == "whole":
        return {"all_reduce": 4 * weights}
    if mode == "states":
        return {"reduce_scatter": 4 * weights, "all_gather": 4 * weights / count}
    return {"all_gather": 2 * item * weights / count, "reduce_scatter": item * weights}


@dataclass(frozen=True)
class Step:
    """A predicted step of training."""

    nbytes: float
    compute: float
    communication: float
    tokens: int

    @property
    def tokens_per_second(self) -> float:
        """Tokens of all processes if communication waits for computation."""
        return self.tokens / (self.compute + self.communication)

    @property
    def most_tokens_per_second(self) -> float:
        """Tokens of all processes if communication overlaps all computation."""
        return self.tokens / max(self.compute, self.communication)


def predicted(model: Model, mode: str, count: int, cluster: Cluster, tokens: int) -> Step:
    """Predict a step; every process has so many tokens, or with "tensor" every node."""
    weights, inner = model.weights, min(count, cluster.per_node)
    parts = inner if mode == "tensor" else 1
    largest = model.vocabulary * model.width
    nbytes = state_bytes(mode, weights, largest, count, cluster.per_node)
    nbytes += activation_bytes(model, tokens, parts)
    sharded = {"whole": 1, "states": count, "weights": count, "tensor": parts}[mode]
    compute = model.flops(tokens) / parts / cluster.flops
    compute += 28 * weights / sharded / cluster.bandwidth  # Adam reads four arrays, writes three
    if mode == "whole":
        communication = cluster.summed(4 * weights, count)
    elif mode == "states":
        communication = 2 * cluster.gathered(4 * weights, count)
    elif mode == "weights":
        messages = 3 * cluster.gathered(0.0, count) * 6 * model.layers
        communication = 3 * cluster.gathered(2 * weights, count) + messages
    else:
        layer = cluster.inside.gathered(2.0 * tokens * model.width, parts)
        communication = 8 * model.layers * layer  # two sums forward, two backward
        communication += 2 * cluster.outside.gathered(4 * weights / parts, count // parts)
    return Step(nbytes, compute, communication, tokens * count // parts)
