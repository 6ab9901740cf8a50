"""Text from GPT-2, token by token, with the keys and values of all tokens before in a cache."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.hub.gpt2 import GPT2
from tapegrad.program.function_decorator import function


def generate(
    model: GPT2,
    tokens: Any,
    max_new_tokens: int,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    stop: int | None = None,
    seed: int | None = None,
) -> np.ndarray:
    """Return token numbers of shape (batch, places) followed by generated ones.

    With temperature 0 each token is the most likely one. Otherwise tokens are drawn, among the
    `top_k` most likely ones if that is given. After the token `stop` a text repeats it. One
    recorded function computes each token; it reads the keys and values of earlier tokens from a
    cache.

    >>> config = {"vocab_size": 11, "n_positions": 8, "n_embd": 4, "n_layer": 1, "n_head": 2}
    >>> generate(GPT2(config), [[1, 2, 3]], 2).shape
    (1, 5)
    """
    known = np.asarray(tokens)
    if known.ndim != 2 or not known.shape[1]:
        raise ShapeError(
            f"generate needs tokens of shape (batch, places), at least one. Got {known.shape}."
        )
    if temperature < 0 or (top_k is not None and top_k < 1):
        raise ArgumentError("generate needs a temperature of at least 0 and a top_k of at least 1.")
    batch, length = known.shape
    total = length + int(max_new_tokens)
    step = _step_of(model)
    rng = np.random.default_rng(seed)
    texts = np.concatenate([known, np.zeros((batch, total - length), known.dtype)], 1)
    is_done = np.zeros(batch, bool)
    for place in range(length, total):
        if place == length:
            logits, cache = model.first_logits(known, total)
        else:
            logits, cache = step(texts[:, place - 1], np.asarray(place - 1), cache)
        chosen = _choose(np.asarray(logits), temperature, top_k, rng)
        if stop is not None:
            chosen = np.where(is_done, stop, chosen)
            is_done |= chosen == stop
        texts[:, place] = chosen
        if is_done.all():
            texts[:, place + 1 :] = stop
            break
    return texts


_steps: weakref.WeakKeyDictionary[GPT2, Any] = weakref.WeakKeyDictionary()


def _step_of(model: GPT2) -> Any:
    """Return the recorded step of a model, kept as long as the model."""
    if model not in _steps:
        method: Any = weakref.WeakMethod(model.next_logits)  # the model must be able to go
        _steps[model] = function(lambda *args: method()(*args))
    return _steps[model]


def _choose(
    logits: np.ndarray, temperature: float, top_k: int | None, rng: np.random.Generator
) -> np.ndarray:
    if temperature == 0:
        return np.asarray(np.argmax(logits, -1))
    scaled = logits.astype(np.float64) / temperature
    if top_k is not None and top_k < scaled.shape[-1]:
        least = np.partition(scaled, -top_k, -1)[:, -top_k, np.newaxis]
        scaled = np.where(scaled < least, -np.inf, scaled)
    # The largest of logits with Gumbel noise is a draw from their softmax.
    return np.asarray(np.argmax(scaled + rng.gumbel(size=scaled.shape), -1))
