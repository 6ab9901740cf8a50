"""`rnn`: a plain recurrent network, many small operations that wait for each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapegrad_bench.results import Size
from tapegrad_bench.workload import Array, Arrays, Cost, Dims, Kind, Ops, Optimizer, Workload


def make(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw the two matrices, the bias and the sequence; the state starts at 0."""
    steps, batch, hidden = dims["steps"], dims["batch"], dims["hidden"]

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(0.1)

    params = [draw(hidden, hidden), draw(hidden, hidden), draw(hidden)]
    x = rng.standard_normal((steps, batch, hidden), dtype=np.float32)
    return params, [x, np.zeros((batch, hidden), np.float32)]


def forward(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return the mean square of the last state of h = tanh(x_t Wx + h Wh + b)."""
    wx, wh, b = [ops.half(p) for p in params]
    x, h = batch
    for t in range(dims["steps"]):
        h = ops.tanh(x[t] @ wx + h @ wh + b)
    h = ops.single(h)
    return ops.mean(h * h)


def size(dims: Dims) -> Size:
    """Label by steps, batch and hidden units."""
    steps, batch, hidden = dims["steps"], dims["batch"], dims["hidden"]
    label = f"{steps} steps, batch {batch}, hidden {hidden}"
    return Size(label, steps * batch * hidden, batch=batch, depth=steps)


def cost(dims: Dims, dtype: str) -> Cost:
    """Two products per step forward, three backward: the sequence has no gradient."""
    steps, batch, hidden = dims["steps"], dims["batch"], dims["hidden"]
    parameters = 2 * hidden * hidden + hidden
    return Cost(
        bytes=4 * (steps * batch * hidden + 2 * parameters),
        flops=5 * 2 * steps * batch * hidden * hidden,
        parameters=parameters,
    )


def _dims(steps: int, batch: int, hidden: int) -> Dims:
    return {"steps": steps, "batch": batch, "hidden": hidden}


RNN = Workload(
    name="rnn",
    summary="h = tanh(x_t Wx + h Wh + b) over a sequence, mean square of the last h, SGD",
    kind=Kind.TRAINING,
    defaults={"cpu": _dims(32, 32, 64), "cuda": _dims(64, 32, 256)},
    dtypes={"cpu": "float32", "cuda": "float32"},
    default_on=("cpu", "cuda"),
    size=size,
    cost=cost,
    make=make,
    forward=forward,
    check=_dims(5, 4, 8),
    scaling=(
        *(_dims(steps, 32, 64) for steps in (8, 16, 64, 128)),
        *(_dims(32, 32, hidden) for hidden in (128, 256, 512)),
    ),
    optimizer=Optimizer("sgd", rate=0.01),
)
