"""Steps as one would write them by hand on NumPy or CuPy arrays: no library to differentiate them.

They are the limit of what an eager library can reach and, in float64, the reference for the
others. `xp` is numpy or cupy; half precision is computed in single.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad_bench.workload import Array, Dims, Optimizer

Result = tuple[Any, list[Any]]
"""The loss (or output) and the gradients."""


def _single(x: Array) -> Array:
    return x.astype("float32") if x.dtype.itemsize == 2 else x


def chain(xp: Any, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Result:
    """See workloads/elementwise.py."""
    (z,) = params
    for _ in range(dims["links"]):
        z = z * 1.001 + 0.01
    g = xp.ones_like(z)
    for _ in range(dims["links"]):
        g = g * 1.001
    return z.sum(), [g]


def elementwise(xp: Any, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Result:
    """See workloads/elementwise.py."""
    x, w, b = params
    y = xp.tanh(x * w + b)
    g = 1 - y * y
    return y.sum(), [g * w, g * x, g]


def _cross_entropy(xp: Any, logits: Array, labels: Array) -> tuple[Array, Array]:
    rows = xp.arange(len(labels))
    top = logits.max(axis=1, keepdims=True)
    e = xp.exp(logits - top)
    total = e.sum(axis=1, keepdims=True)
    loss = (xp.log(total[:, 0]) + top[:, 0] - logits[rows, labels]).mean()
    e /= total
    e[rows, labels] -= 1
    e /= len(labels)
    return loss, e


def softmax_xent(xp: Any, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Result:
    """See workloads/row_wise.py."""
    loss, g = _cross_entropy(xp, _single(params[0]), batch[0])
    return loss, [g.astype(params[0].dtype)]


def layernorm(xp: Any, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Result:
    """See workloads/row_wise.py."""
    x, gain, bias, g = [_single(array) for array in (*params, batch[0])]
    x = x - x.mean(axis=1, keepdims=True)
    factor = 1 / xp.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)
    x *= factor
    y = x * gain + bias
    gx = g * gain
    gx = factor * (gx - gx.mean(axis=1, keepdims=True) - x * (gx * x).mean(axis=1, keepdims=True))
    found = [array.astype(params[0].dtype) for array in (y, gx, (g * x).sum(axis=0), g.sum(axis=0))]
    return found[0], found[1:]


def mlp(xp: Any, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Result:
    """See workloads/mlp.py: the classifier."""
    hs, labels = [batch[0]], batch[1]
    layers = len(params) // 2
    for i in range(layers):
        z = hs[-1] @ params[2 * i] + params[2 * i + 1]
        hs.append(xp.maximum(z, 0) if i < layers - 1 else z)
    loss, g = _cross_entropy(xp, hs[-1], labels)
    gradients: list[Any] = []
    for i in reversed(range(layers)):
        gradients[:0] = [hs[i].T @ g, g.sum(axis=0)]
        if i:
            g = (g @ params[2 * i].T) * (hs[i] > 0)
    return loss, gradients


def mlp_plain(xp: Any, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Result:
    """See workloads/mlp.py: matrices alone."""
    hs = [batch[0]]
    for i, w in enumerate(params):
        z = hs[-1] @ w
        hs.append(xp.maximum(z, 0) if i < len(params) - 1 else z)
    g = hs[-1] * (2 / hs[-1].size)
    gradients: list[Any] = []
    for i in reversed(range(len(params))):
        gradients.insert(0, hs[i].T @ g)
        if i:
            g = (g @ params[i].T) * (hs[i] > 0)
    return (hs[-1] * hs[-1]).mean(), gradients


def rnn(xp: Any, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Result:
    """See workloads/rnn.py."""
    wx, wh, b = params
    x, h = batch
    hs = [h]
    for t in range(dims["steps"]):
        h = xp.tanh(x[t] @ wx + h @ wh + b)
        hs.append(h)
    g = h * (2 / h.size)
    gx, gh, gb = xp.zeros_like(wx), xp.zeros_like(wh), xp.zeros_like(b)
    for t in reversed(range(dims["steps"])):
        gz = g * (1 - hs[t + 1] * hs[t + 1])
        gx += x[t].T @ gz
        gh += hs[t].T @ gz
        gb += gz.sum(axis=0)
        g = gz @ wh.T
    return (h * h).mean(), [gx, gh, gb]


def hvp(xp: Any, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Result:
    """See workloads/second_order.py."""
    (x,), (matrix, v) = params, batch
    a = xp.tanh(matrix @ x)
    b = xp.tanh(matrix @ a)
    slope = 1 - a * a
    da = slope * (matrix @ v)
    gb = 1 - b * b
    dgb = -2 * b * gb * (matrix @ da)
    ga, dga = matrix.T @ gb, matrix.T @ dgb
    return b.sum(), [matrix.T @ (dga * slope - 2 * ga * a * da)]


def jacobian(xp: Any, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Result:
    """See workloads/second_order.py."""
    (x,), matrix = params, batch[0]
    a = xp.tanh(matrix @ x)
    b = xp.tanh(matrix @ a)
    return b, [((1 - b * b)[:, None] * matrix) @ ((1 - a * a)[:, None] * matrix)]


STEPS: dict[str, Callable[..., Result]] = {
    "chain": chain,
    "scalar_chain": chain,
    "elementwise": elementwise,
    "softmax_xent": softmax_xent,
    "layernorm": layernorm,
    "mlp_small": mlp,
    "mlp_mid": mlp,
    "mlp_large": mlp_plain,
    "rnn": rnn,
    "hvp": hvp,
    "jacobian": jacobian,
}
"""By the name of the workload; missing models are too long to be differentiated by hand."""


class Updates:
    """An optimizer's state and its update, in place."""

    def __init__(self, xp: Any, optimizer: Optimizer, params: Sequence[Array]) -> None:
        self._xp, self._optimizer, self._params, self._count = xp, optimizer, params, 0
        slots = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}[optimizer.name]
        self._slots = [[xp.zeros_like(p) for _ in range(slots)] for p in params]

    def restart(self) -> None:
        """Forget all updates, but leave the parameters as they are."""
        self._count = 0
        for slot in [slot for slots in self._slots for slot in slots]:
            slot[...] = 0

    def moments(self) -> list[Array]:
        """Return Adam's running means of the gradients; other rules have none."""
        return [slots[0] for slots in self._slots if len(slots) == 2]

    def apply(self, gradients: Sequence[Array]) -> None:
        """Change the parameters."""
        o = self._optimizer
        self._count += 1
        rate = o.rate
        if o.name in ("adam", "adamw"):
            rate *= (1 - o.beta_2**self._count) ** 0.5 / (1 - o.beta_1**self._count)
        for p, g, slots in zip(self._params, gradients, self._slots):
            if o.name == "sgd":
                p -= o.rate * g
            elif o.name == "momentum":
                (m,) = slots
                m *= o.momentum
                m -= o.rate * g
                p += m
            else:
                self._adam(p, g, slots, rate)

    def _adam(self, p: Array, g: Array, slots: Sequence[Array], rate: float) -> None:
        o, (m, v) = self._optimizer, slots
        if o.weight_decay:
            p *= 1 - o.rate * o.weight_decay
        m *= o.beta_1
        m += (1 - o.beta_1) * g
        v *= o.beta_2
        v += (1 - o.beta_2) * g * g
        p -= rate * m / (self._xp.sqrt(v) + o.epsilon)
