"""Explain in one sentence why a gradient is None, and name the lines where values left the tape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tapegrad.autodiff.plan import FAILED, Plan
from tapegrad.core import exits
from tapegrad.core.call_site import warn_outside
from tapegrad.core.exits import Cut, CutLog
from tapegrad.core.recorder import RELEASED, Node
from tapegrad.core.values.variable import Variable
from tapegrad.errors import UnconnectedGradientError

CONNECTED = "The target depends on the source: this gradient is not None."
_MOST_NAMED = 3
_MOST_REMEMBERED = 1000

_reasons: dict[int, str] = {}
"""By the numbers of variables whose last gradient was None, where values left the tape."""


def explain(tape: Any, targets: list[Any], source: Any) -> str:
    """Return why the gradient of `targets` with respect to `source` is None, or that it is not."""
    if not tape._was_entered:
        return (
            "The tape was never entered, so it has recorded nothing. Compute inside `with tape:`."
        )
    if tape._used_up == FAILED:
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
    is_connected = _connected(tape, ends, starts)
    if is_connected is None:
        return (
            f"The tape is used up: {tape._used_up} It has freed the history of this target. Use "
            "GradientTape(persistent=True) to ask about other targets and sources, or ask first."
        )
    if is_connected:
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
    if tape._used_up:
        return (
            "The source was never watched, or another tape has watched it since this one was used "
            "up: call tape.watch(x) inside the block before using it, or make it a Variable."
        )
    return (
        "The source was never watched: call tape.watch(x) inside the block before using it, or "
        "make it a Variable."
    )


def _connected(tape: Any, ends: list[Node], starts: list[Node]) -> bool | None:
    """Return whether a path leads from `starts` to `ends`; None if its history has been freed."""
    if tape._swept and set(map(id, ends)) == set(tape._swept):
        if not set(tape._found).isdisjoint(map(id, starts)):
            return True
        return False if set(tape._asked).issuperset(map(id, starts)) else None
    reached = Plan(ends, starts, tape.token).nodes
    if not set(starts).isdisjoint(reached):
        return True
    return None if any([node.params is RELEASED for node in reached]) else False


def _cuts(tape: CutLog, starts: list[Node]) -> str:
    """Return where the tape lost values that depend on the source: the last three places."""
    return _where_lost(tape, list(reversed(tape.cuts.values())), starts)


def _where_lost(tape: CutLog, cuts: list[Cut], starts: list[Node]) -> str:
    certain = _dependent(tape, cuts, starts)
    if certain:
        return f" A value made from the source ended here: {_named(certain)}."
    possible = [cut for cut in cuts if any([ref() is None for ref in cut.nodes])]
    if possible:
        return f" A value that the tape followed ended here: {_named(possible)}."
    return ""


def _dependent(tape: Any, cuts: list[Cut], starts: list[Node]) -> list[Cut]:
    """Return the cuts that lost a value which depends on one of the sources."""
    nodes = [node for cut in cuts for ref in cut.nodes if (node := ref()) is not None]
    plan = Plan(nodes, starts, tape.token)
    leading = set(plan.nodes) if plan.needed is None else plan.needed
    return [cut for cut in cuts if any([ref() in leading for ref in cut.nodes])]


def _named(cuts: Iterable[Cut]) -> str:
    return "; ".join([str(cut) for cut in cuts][:_MOST_NAMED])


def where_left(log: CutLog) -> str:
    """Return a sentence that names the last lines where values left the tape, or nothing."""
    found = log.exits
    return f" A value that the tape followed ended here: {_named(found)}." if found else ""


def report(sentence: str, on_none: str) -> None:
    """Warn or raise with an explanation."""
    if sentence == CONNECTED:
        sentence = "The target depends on the source, but a gradient rule in between gave none."
    if on_none == "raise":
        raise UnconnectedGradientError(f"A gradient is None. {sentence}")
    warn_outside(f"A gradient is None. {sentence}")


def report_lost(tape: Any, sources: list[Any], is_zero: bool) -> None:
    """Warn if values that depend on sources without gradient have left the tape.

    There is no second warning of the same lines. Zeros from a transform hide what is lost, so they
    are reported also where values were read by `numpy()`. An optimizer that gets no gradient for a
    variable names the lines too.
    """
    starts = [node for source in sources for node in tape._source_nodes(source)]
    found = tape.exits if starts and tape.cuts else []
    _remember(sources, _where_lost(tape, found, starts))
    if not is_zero:
        found = [cut for cut in found if not cut.is_deliberate]
    lines = _where_lost(tape, found, starts) if _are_news(tape, found) else ""
    if lines:
        exits.report(f"A gradient is {'zero' if is_zero else 'None'}.{lines}")


def report_zero_tangent(log: CutLog) -> None:
    """Warn that a tangent is zero if values have left the accumulator at lines not yet reported."""
    if _are_news(log, log.exits):
        log.warned |= {cut.where for cut in log.exits}
        exits.report(f"A tangent is zero.{where_left(log)}")


def _are_news(log: CutLog, cuts: list[Cut]) -> bool:
    """Whether no warning of a recorder has named one of the lines yet."""
    return any([cut.where not in log.warned for cut in cuts])


def _remember(sources: list[Any], lines: str) -> None:
    for source in sources:
        if isinstance(source, Variable):
            _reasons.pop(source.number, None)
            if lines and len(_reasons) < _MOST_REMEMBERED:
                _reasons[source.number] = lines


def why_without_gradient(variables: Iterable[Variable]) -> str:
    """Return where values left the tape whose gradient for one of the variables was None."""
    found = [_reasons[v.number] for v in variables if v.number in _reasons]
    return found[0] if found else ""
