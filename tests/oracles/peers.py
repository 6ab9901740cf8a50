"""JAX and PyTorch as oracles: they run a recorded program and differentiate it by their own rules.

A program has the primitives of one call of a sample. `tapegrad_bench.translation` turns each
into a call of the library, so the derivatives share no rule with those of tapegrad. A gradient is
that of tapegrad and TensorFlow: the direction of steepest ascent, which for JAX means to conjugate
the seed and the result.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad_bench.translation import Peer

Array = np.ndarray
Run = Callable[[Sequence[Any]], Sequence[Any]]

PACKAGES = {"jax": ("jax",), "torch": ("torch", "array_api_compat")}
"""What must be installed for a library to run a program."""


MOST_CALLS = {"jax": 150, "torch": 100_000}
"""The longest programs that a library is asked about: XLA compiles each call, for minutes."""

# Before JAX is imported: its time goes into compiling programs that run once.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")


def installed() -> list[str]:
    """Return the libraries that can be asked here."""
    return [name for name, need in PACKAGES.items() if all(map(importlib.util.find_spec, need))]


def version(library: str) -> str:
    """Return the name and the version of a library."""
    return f"{library} {importlib.import_module(library).__version__}"


def values_and_gradients(
    peer: Peer, run: Run, arrays: Sequence[Array], seeds: Sequence[Array | None], is_short: bool
) -> tuple[list[Array], list[Array | None]]:
    """Return the results of a program and the gradients of its results, weighted with seeds.

    A result whose seed is None is not differentiated; an integer argument has no gradient. A short
    program may be compiled as a whole.
    """
    inputs = [peer.array(array) for array in arrays]
    is_followed = [array.dtype.kind in "fc" for array in arrays]
    weights = [None if seed is None else peer.array(seed) for seed in seeds]
    differentiate = _with_jax if peer.name == "jax" else _with_torch
    values, gradients = differentiate(run, inputs, is_followed, weights, is_short)
    found = iter(gradients)
    taken = [next(found) if flag else None for flag in is_followed]
    hosts = [None if gradient is None else peer.host(gradient) for gradient in taken]
    return [peer.host(value) for value in values], hosts


def _with_jax(
    run: Run, inputs: list[Any], is_followed: list[bool], weights: list[Any], is_short: bool
) -> tuple[Sequence[Any], list[Any]]:
    jax: Any = importlib.import_module("jax")

    def chosen(*followed: Any) -> tuple[list[Any], list[Any]]:
        given = iter(followed)
        results = run([next(given) if f else x for f, x in zip(is_followed, inputs, strict=True)])
        return [y for y, w in zip(results, weights, strict=True) if w is not None], [*results]

    def both(*followed: Any) -> tuple[list[Any], list[Any]]:
        _, pull, results = jax.vjp(chosen, *followed, has_aux=True)
        gradients = pull([jax.numpy.conj(w) for w in weights if w is not None])
        return results, [jax.numpy.conj(g) for g in gradients]

    sources = [x for f, x in zip(is_followed, inputs, strict=True) if f]
    if not sources or all(w is None for w in weights):
        return run(inputs), [None for _ in sources]
    try:
        # One compilation takes less time than one of each call, unless there are many.
        return (jax.jit(both) if is_short else both)(*sources)
    except Exception:  # a kernel that reads values
        return both(*sources)


def _with_torch(
    run: Run, inputs: list[Any], is_followed: list[bool], weights: list[Any], is_short: bool
) -> tuple[Sequence[Any], list[Any]]:
    torch: Any = importlib.import_module("torch")
    for flag, x in zip(is_followed, inputs, strict=True):
        x.requires_grad_(flag)
    sources = [x for f, x in zip(is_followed, inputs, strict=True) if f]
    # A result that is an argument itself would be a leaf of the graph.
    results = [y + 0 if y.requires_grad else y for y in run(inputs)]
    pairs = [(y, w) for y, w in zip(results, weights, strict=True) if w is not None]
    pairs = [(y, w) for y, w in pairs if y.requires_grad]
    if not pairs or not sources:
        return results, [None for _ in sources]
    gradients = torch.autograd.grad(
        [y for y, _ in pairs], sources, [w for _, w in pairs], allow_unused=True
    )
    return results, [*gradients]
