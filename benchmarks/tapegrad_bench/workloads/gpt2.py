"""`gpt2`: a step of GPT-2 small, or of a smaller one of the same build."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapegrad_bench.results import Size
from tapegrad_bench.workload import Array, Arrays, Cost, Dims, Kind, Ops, Optimizer, Workload

PER_LAYER = 12


def make(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw the weights as GPT-2 does, then tokens and the tokens that follow them."""
    layers, width, vocabulary = dims["layers"], dims["width"], dims["vocabulary"]

    def draw(*shape: int, scale: float = 0.02) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)

    def norm() -> Arrays:
        return [np.ones(width, np.float32), np.zeros(width, np.float32)]

    def dense(n: int, m: int, scale: float = 0.02) -> Arrays:
        return [draw(n, m, scale=scale), np.zeros(m, np.float32)]

    towards_residual = 0.02 * (2 * layers) ** -0.5
    params = [draw(vocabulary, width), draw(dims["length"], width)]
    for _ in range(layers):
        params += [*norm(), *dense(width, 3 * width), *dense(width, width, towards_residual)]
        params += [*norm(), *dense(width, 4 * width), *dense(4 * width, width, towards_residual)]
    params += norm()
    tokens = rng.integers(0, vocabulary, (dims["batch"], dims["length"] + 1))
    return params, [tokens[:, :-1].copy(), tokens[:, 1:].reshape(-1).copy()]


def forward(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return the cross entropy of the next token; embedding and last layer share their table."""
    tokens, following = batch
    table, positions = params[:2]
    x = ops.half(ops.embedding(table, tokens) + positions)
    x = ops.reshape(x, (dims["batch"] * dims["length"], dims["width"]))
    for layer in range(dims["layers"]):
        start = 2 + PER_LAYER * layer
        x = _block(ops, dims, x, [ops.half(p) for p in params[start : start + PER_LAYER]])
    x = ops.layer_norm(x, ops.half(params[-2]), ops.half(params[-1]))
    return ops.cross_entropy(ops.matmul_t(x, ops.half(table)), following)


def _block(ops: Ops, dims: Dims, x: Array, params: Sequence[Array]) -> Array:
    gain, bias, w_in, b_in, w_out, b_out = params[:6]
    qkv = ops.layer_norm(x, gain, bias) @ w_in + b_in
    x = x + (ops.attention(qkv, dims["batch"], dims["heads"]) @ w_out + b_out)
    gain, bias, w_in, b_in, w_out, b_out = params[6:]
    return x + (ops.gelu(ops.layer_norm(x, gain, bias) @ w_in + b_in) @ w_out + b_out)


def size(dims: Dims) -> Size:
    """Label by layers, width, batch and length."""
    label = (
        f"{dims['layers']} layers, {dims['width']} wide, {dims['batch']} x {dims['length']} tokens"
    )
    elements = dims["batch"] * dims["length"]
    return Size(label, elements, batch=dims["batch"], depth=dims["layers"])


def cost(dims: Dims, dtype: str) -> Cost:
    """Six operations per token and weight, and attention over half of all pairs of tokens."""
    layers, width, tokens = dims["layers"], dims["width"], dims["batch"] * dims["length"]
    weights = 12 * layers * width**2 + dims["vocabulary"] * width
    pairs = tokens * dims["length"] // 2
    small = layers * 13 * width + 2 * width + dims["length"] * width
    return Cost(
        # Weights and two moments are read and written by the optimizer.
        bytes=24 * (weights + small),
        flops=6 * weights * tokens + 3 * layers * 4 * pairs * width,
        parameters=weights + small,
    )


def _dims(
    layers: int, width: int, heads: int, batch: int, length: int, vocabulary: int = 50304
) -> Dims:
    return {
        "layers": layers,
        "width": width,
        "heads": heads,
        "batch": batch,
        "length": length,
        "vocabulary": vocabulary,
    }


GPT2 = Workload(
    name="gpt2",
    summary="GPT-2 small, tied embedding, causal attention, AdamW; f32 master weights",
    kind=Kind.TRAINING,
    defaults={"cpu": _dims(2, 64, 4, 2, 64, 1000), "cuda": _dims(12, 768, 12, 8, 1024)},
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    default_on=("cuda",),
    size=size,
    cost=cost,
    make=make,
    forward=forward,
    check=_dims(2, 64, 2, 2, 64, 128),
    scaling=tuple(_dims(12, 768, 12, batch, 1024) for batch in (1, 2, 4)),
    optimizer=Optimizer("adamw", rate=3e-4, weight_decay=0.1),
    tolerance={"float64": 1e-9, "float32": 1e-3, "bfloat16": 5e-2, "float16": 2e-2},
)
