"""Explain in one sentence why a gradient is None."""

from __future__ import annotations

import warnings
import weakref
from typing import Any, NamedTuple

from tapegrad.autodiff.plan import Plan
from tapegrad.core.recorder import Node
from tapegrad.core.values.variable import Variable
from tapegrad.errors import UnconnectedGradientError

CONNECTED = "The target depends on the source: this gradient is not None."


class Cut(NamedTuple):
    """A place where the tape lost a followed value.

    The reference to the node is weak, so that explanations keep no computation alive.
    """

    reason: str
    node: weakref.ref[Node]
    where: str


def explain(tape: Any, targets: list[Any], source: Any) -> str:
    """Return why the gradient of `targets` with respect to `source` is None, or that it is not."""
    if tape._used_up:
        return f"The tape is used up: {tape._used_up} Record the computation again."
    if not source.dtype.is_differentiable:
        return f"The source has dtype {source.dtype}; only floating and complex values have one."
    starts = tape._source_nodes(source)
    if not starts:
        return _why_not_followed(tape, source)
    live = [t for t in targets if t.dtype.is_differentiable]
    if not live:
        return (
            f"The target has dtype {targets[0].dtype}; only floating and complex values have "
            f"a gradient.{_cuts(tape, starts)}"
        )
    ends = [node for target in live for node in tape._source_nodes(target)]
    if any(_connected(tape, [end], starts) for end in ends):
        return CONNECTED
    cuts = _cuts(tape, starts)
    if cuts:
        return f"The target does not depend on the source as the tape saw it.{cuts}"
    if not ends:
        return (
            "The target was made outside the tape's block (or from values the tape does not "
            "follow). Compute it inside `with tape:`."
        )
    return "The target was computed from other watched values; the source does not enter it."


def _why_not_followed(tape: Any, source: Any) -> str:
    if isinstance(source, Variable):
        if not source.trainable:
            return (
                f"Variable {source.name!r} is not trainable, so reads do not watch it: call "
                "tape.watch(variable) inside the block."
            )
        if not tape.watches_variables:
            return (
                f"Variable {source.name!r} was never watched: the tape was made with "
                "watch_accessed_variables=False, so call tape.watch(variable)."
            )
        return (
            f"Variable {source.name!r} was never read inside the tape's block (assigning to it "
            "is a change of state, which has no gradient)."
        )
    return (
        "The source was never watched: call tape.watch(x) inside the block before using it, or "
        "make it a Variable."
    )


def _connected(tape: Any, ends: list[Node], starts: list[Node]) -> bool:
    return not set(starts).isdisjoint(Plan(ends, starts, tape.token).nodes)


def _cuts(tape: Any, starts: list[Node]) -> str:
    """Return where the tape lost values that depend on the source: the last three places."""
    certain: dict[str, None] = {}
    possible: dict[str, None] = {}
    for cut in reversed(tape.cuts):
        node = cut.node()
        if node is None:
            possible[f"{cut.reason} ({cut.where})"] = None
        elif _connected(tape, [node], starts):
            certain[f"{cut.reason} ({cut.where})"] = None
    if certain:
        return f" A value made from the source ended here: {'; '.join(list(certain)[:3])}."
    if possible:
        return f" A value that the tape followed ended here: {'; '.join(list(possible)[:3])}."
    return ""


def report(sentence: str, on_none: str) -> None:
    """Warn or raise with an explanation."""
    if sentence == CONNECTED:
        sentence = "The target depends on the source, but a gradient rule in between gave none."
    if on_none == "raise":
        raise UnconnectedGradientError(f"A gradient is None. {sentence}")
    warnings.warn(f"A gradient is None. {sentence}", stacklevel=4)
