"""`tapegrad bench --peers jax,torch script.py`: runs a script and compares its functions.

Each library has a process, so that one that fails or runs out of memory does not end the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad_bench.process import Worker, WorkerError
from tapegrad_bench.scripts.agreement import Agreement
from tapegrad_bench.scripts.peer_side import PeerSession
from tapegrad_bench.scripts.report import Row, table
from tapegrad_bench.scripts.tapegrad_side import GRADIENT, Found, ScriptSession
from tapegrad_bench.translation import LIBRARIES

MOST_SECONDS = 1.0
"""For the timed steps of one contender."""

PATIENCE = 900.0
"""Seconds in which a library must have compiled and run a part."""

MODES = {"numpy": "numpy", "jax": "jax.jit", "torch": "torch.compile"}


@dataclass(frozen=True)
class Plan:
    """What to run."""

    script: str
    arguments: tuple[str, ...] = ()
    peers: tuple[str, ...] = ("jax", "torch")
    device: str = "cpu"
    threads: int = 1
    budget: float = 120.0


def run(plan: Plan) -> int:
    """Run the script, print the table, and return the exit status."""
    for name in plan.peers:
        if name not in LIBRARIES:
            raise ArgumentError(f"A script is compared with {', '.join(LIBRARIES)}. Got {name!r}.")
    print(table(list(rows(plan))))
    return 0


def rows(plan: Plan) -> Iterator[Row]:
    """Yield the rows of the table."""
    ours = Worker(plan.device, plan.threads, session=ScriptSession)
    workers = {name: Worker(plan.device, plan.threads, session=PeerSession) for name in plan.peers}
    try:
        try:
            found: list[Found] = ours.request("run", plan.script, plan.arguments)
        except WorkerError as error:
            raise ArgumentError(f"{plan.script} failed. {error}") from error
        if not found:
            raise ArgumentError(f"{plan.script} has called no tapegrad.function.")
        parts = sum(len(function.parts) for function in found)
        share = plan.budget / max(1, parts * (1 + len(workers)))
        contest = _Contest(ours, workers, min(MOST_SECONDS, share))
        for index, function in enumerate(found):
            yield from contest.rows(index, function)
    finally:
        for worker in (ours, *workers.values()):
            worker.stop()


class _Contest:
    """The processes, and the seconds for each of them."""

    def __init__(self, ours: Worker, workers: dict[str, Worker], seconds: float) -> None:
        self._ours, self._workers, self._seconds = ours, workers, seconds

    def rows(self, index: int, function: Found) -> Iterator[Row]:
        """Yield the rows of one function."""
        if not function.parts:
            yield Row(function.name, "tapegrad", function.reason)
            return
        try:
            packed: bytes = self._ours.request("packed", index)
        except WorkerError as error:
            yield Row(function.name, "tapegrad", f"cannot be translated: {error}")
            return
        for part in function.parts:
            yield from self._part(index, function, part, packed)

    def _part(self, index: int, function: Found, part: str, packed: bytes) -> Iterator[Row]:
        name = function.name if part != GRADIENT else f"{function.name}, gradient"
        checked = {peer: self._checked(peer, part, packed) for peer in self._workers}
        agree = [peer for peer, (agreement, _) in checked.items() if agreement.holds]
        if not agree and checked:
            yield Row(name, "tapegrad", "not timed: no peer agrees")
            ours: tuple[float, ...] = ()
        else:
            ours = tuple(self._ours.request("time", index, part, self._seconds))
            first = function.first_seconds if part != GRADIENT else None
            yield Row(name, "tapegrad", "", ours, ours, first)
        for peer, (agreement, first_seconds) in checked.items():
            yield self._peer_row(name, peer, part, agreement, first_seconds, ours)

    def _checked(self, peer: str, part: str, packed: bytes) -> tuple[Agreement, float | None]:
        worker = self._workers[peer]
        try:
            # A process that has ended knows nothing of earlier requests.
            worker.request("load", peer, timeout=PATIENCE)
            worker.request("take", packed, timeout=PATIENCE)
            found: tuple[Agreement, float] = worker.request("check", part, timeout=PATIENCE)
        except WorkerError as error:
            return Agreement(False, str(error)), None
        return found

    def _peer_row(
        self,
        name: str,
        peer: str,
        part: str,
        agreement: Agreement,
        first_seconds: float | None,
        ours: tuple[float, ...],
    ) -> Row:
        label, times = MODES[peer], ()
        words = agreement.words
        if agreement.holds:
            try:
                request: Any = self._workers[peer].request
                times = tuple(request("time", part, self._seconds, timeout=PATIENCE))
            except WorkerError as error:
                words = str(error)
        return Row(name, label, words, times, ours, first_seconds)


def plan_of(
    script: str, arguments: Sequence[str], peers: tuple[str, ...], devices: tuple[str, ...],
    threads: int, budget: float,
) -> Plan:  # fmt: skip
    """Return the plan that the words of the command line make."""
    if len(devices) > 1:
        raise ArgumentError(f"A script runs on one device. Got --devices {','.join(devices)}.")
    device = devices[0] if devices else "cpu"
    if device not in ("cpu", "cuda"):
        raise ArgumentError(f"--device is cpu or cuda. Got {device!r}.")
    chosen = () if peers == ("none",) else peers or ("jax", "torch")
    return Plan(script, tuple(arguments), chosen, device, threads, budget)
