"""The loss of a recurrent network with diagonal weights over a text, and its gradient."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad_gradbench.evaluations import compiled, tensor, to_list
from tapegrad_gradbench.protocol import Entry


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def cell(weight: Any, bias: Any, hidden: Any, memory: Any, x: Any) -> tuple[Any, Any]:
    """Return the hidden state and the memory of one layer after `x`."""
    gates = np.concatenate([x, hidden, x, hidden]) * weight + bias
    forget, write, out, change = np.split(gates, 4)
    memory = memory * sigmoid(forget) + sigmoid(write) * np.tanh(change)
    return sigmoid(out) * np.tanh(memory), memory


def loss(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    def step(carried: Any, pair: Any) -> Any:
        state, total = carried
        x, target = pair
        x = x * extra[0]
        after = []
        for i in range(0, len(main), 2):
            x, memory = cell(main[i], main[i + 1], state[i], state[i + 1], x)
            after += [x, memory]
        predicted = x * extra[1] + extra[2]
        normalized = predicted - np.log(np.sum(np.exp(predicted)) + 2)
        return np.stack(after), total + np.sum(target * normalized)

    start = (state, np.zeros((), dtype=state.dtype))
    _, total = tg.foldl(step, (sequence[:-1], sequence[1:]), start)
    count, width = sequence.shape
    return -total / ((count - 1) * width)


objective = compiled(loss)
gradients = compiled(tg.grad(loss, argnums=(0, 1)))


def prepare(given: Any) -> tuple[Any, ...]:
    return tuple(
        tensor(given[name]) for name in ("main_params", "extra_params", "state", "sequence")
    )


def flat(found: Any) -> Any:
    main, extra = found
    return [*to_list(main.reshape(-1)), *to_list(extra.reshape(-1))]


FUNCTIONS = {
    "objective": Entry(prepare, objective, float),
    "jacobian": Entry(prepare, gradients, flat),
}
