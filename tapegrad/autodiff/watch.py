"""Start to follow a value, for `GradientTape.watch` and the primals of an accumulator."""

from __future__ import annotations

import threading
from typing import Any

from tapegrad.core.recorder import Node, Token, active_stack, make_leaf
from tapegrad.core.values.tensor import Tensor

# Tapes of several threads may start to follow the same tensor at the same time.
_lock = threading.Lock()


def follow(tensor: Tensor, token: Token) -> Node:
    """Mark `tensor` as followed by the recorder of `token` and return its node.

    If other open recorders follow the tensor, it keeps its history for them.
    """
    with _lock:
        node = tensor.node
        if node is None or not any([t.open for t in node.tokens]):
            node = tensor.node = make_leaf(_canonical((token,)))
        elif token not in node.tokens:
            node.tokens = _canonical((*(t for t in node.tokens if t.open), token))
        return node


def _canonical(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Return the tuple of the active stack if it has the same tokens: fast paths test identity."""
    active = active_stack().tokens
    if active == tokens:
        return active
    return active if len(active) == len(tokens) and set(active) == set(tokens) else tokens


def is_followed(value: Any, token: Token) -> bool:
    """Whether the recorder of `token` follows a tensor."""
    node = value.node
    return node is not None and token in node.tokens
