"""The reverse sweep: from the cotangents of targets to the cotangents of sources.

`Plan` says which nodes are visited, and in which order. An `Accelerator` computes. If no recorder
is active, cotangents are raw arrays; otherwise they are tensors, so that the recorders see the
sweep.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tapegrad.autodiff.accelerator import Cotangents, make_accelerator
from tapegrad.autodiff.checked_sweep import CheckingAccelerator
from tapegrad.autodiff.examples_apart import ApartAccelerator
from tapegrad.autodiff.plan import Plan
from tapegrad.autodiff.pullback import add_cotangents
from tapegrad.autodiff.recalled import with_recalled
from tapegrad.autodiff.reported import reported_sweep
from tapegrad.core.event_log import LOGS
from tapegrad.core.number_checks import is_checking_numbers
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.recorder import RAW, RELEASED, Node, Token, active_stack, call_with_stack
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.ops.indexing.gather import RowGradient

Seeds = list[tuple[Node, Any]]
"""Cotangents of targets by node."""


class Sweep:
    """One reverse sweep over a plan; with `release`, nodes are freed after their visit.

    With a level, what examples share gets one cotangent for each of them: see examples_apart.py.
    """

    def __init__(self, plan: Plan, token: Token, release: bool, level: int | None = None) -> None:
        self._plan = plan
        self._token = token
        self._release = release
        self._level = level

    def run(self, seeds: Seeds) -> dict[Node, Any]:
        """Sweep from seeds and return the cotangents of the sources as tensors.

        The list is emptied, so that a seed is freed after its use.
        """
        if LOGS:
            found: dict[Node, Any] = reported_sweep(self._plan.nodes, partial(self._run, seeds))
            return found
        return self._run(seeds)

    def _run(self, seeds: Seeds) -> dict[Node, Any]:
        cotangents: Cotangents = {}
        is_batched = self._level is not None or any([type(seed) is not Tensor for _, seed in seeds])
        if active_stack().tokens or is_batched:
            self._sweep(seeds, cotangents, on_tensors=True)
        else:
            seeds[:] = [(node, seed.array) for node, seed in seeds]
            call_with_stack(RAW, self._sweep, seeds, cotangents, False)
        sources = self._plan.sources
        return {node: _as_tensor(cotangents[node]) for node in sources if node in cotangents}

    def _sweep(self, seeds: Seeds, cotangents: Cotangents, on_tensors: bool) -> None:
        """Visit the nodes, latest first; `cotangents` ends up with those of the sources."""
        _start(seeds, cotangents)
        if not cotangents:
            return
        plan = self._plan
        accelerator = with_recalled(make_accelerator(plan, cotangents, on_tensors))
        if self._level is not None:
            accelerator = ApartAccelerator(accelerator, self._level)
        if is_checking_numbers():
            accelerator = CheckingAccelerator(accelerator)
        pull_back, accumulate = accelerator.pull_back, accelerator.accumulate
        kept = [node for node in plan.sources if node.primitive is not None]
        take, releases = cotangents.pop, self._release
        for node in plan.nodes:
            if node.primitive is None:
                if node.specs is not None and node in cotangents:
                    cotangents[node] = accelerator.cast(node, cotangents[node])
                continue
            cotangent = cotangents.get(node) if kept and node in kept else take(node, None)
            if cotangent is None:
                continue
            input_cotangents = pull_back(node, cotangent)
            if input_cotangents:
                inputs: Any = node.inputs  # an input with a cotangent has a node
                for source, input_cotangent in zip(inputs, input_cotangents):
                    if input_cotangent is None:
                        continue
                    if source in cotangents:
                        # Not in a variable: the old total would stay alive through the next node.
                        cotangents[source] = accumulate(source, cotangents[source], input_cotangent)
                    else:
                        cotangents[source] = input_cotangent
                input_cotangents = ()
            if releases and (len(node.tokens) == 1 or self._is_last_user(node)):
                node.inputs = ()
                node.params = RELEASED
                node.primitive = node.saved = node.specs = None
        accelerator.finish()

    def _is_last_user(self, node: Node) -> bool:
        """Whether no other open tape needs how the value was made."""
        return not any([
            token is not self._token and token.open and token.keeps_history
            for token in node.tokens
        ])  # fmt: skip


def release(node: Node) -> None:
    """Forget how a value was made: to a tape that follows it from now on it is a leaf."""
    node.inputs = ()
    node.params = RELEASED
    node.primitive = node.saved = node.specs = None


def _start(seeds: Seeds, cotangents: Cotangents) -> None:
    while seeds:
        node, seed = seeds.pop()
        known = cotangents.get(node)
        cotangents[node] = seed if known is None else add_cotangents(known, seed)


def _as_tensor(value: Any) -> Any:
    if type(value) is Tensor or type(value) in INTERPRETERS:
        return value
    if isinstance(value, RowGradient):
        return value.as_indexed_slices()
    return wrap(value)
