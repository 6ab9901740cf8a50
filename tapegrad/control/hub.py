"""The control channel's server: it notices failures and tells all processes.

It runs in a thread of the launcher, or in a process that rank 0 starts: while MPI is loaded, no
other thread of rank 0 can run. Every process has one connection to it. A message is one line of
JSON. Lines that start with "cmd=" are PMI-1, in which MPI libraries exchange addresses (pmi.py).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tapegrad.control.pmi import PmiServer
from tapegrad.errors import AbortedError

SILENCE = 7.0
"""Seconds without a message after which a process counts as hung; it sends two per second."""

JOINING = 120.0
"""Seconds within which all processes must have connected."""

ENDING = 60.0
"""Seconds that processes have to end after the last one has said that it does."""

REMEMBERED = 4096
"""How many of the last collective calls are compared."""

Message = dict[str, Any]
Failed = Callable[[int, str], None]


class Member:
    """What the hub knows about one process."""

    def __init__(self, rank: int, writer: asyncio.StreamWriter) -> None:
        self.rank = rank
        self.writer = writer
        self.heard = time.monotonic()
        self.calls = 0
        """The number of collective calls that it has begun."""
        self.waits_in = ""
        self.is_at_end = False
        """Whether it has finished its program and waits for the others."""
        self.is_ready = False
        """Whether it can go on without processes that are lost."""
        self.has_left = False
        self.stack = ""


class Hub:
    """Accepts the processes of a world and watches over them.

    In an elastic world, processes that end or hang are *lost*: the others go on in a new
    *generation* of the world, with new ranks. The hub knows processes by their first rank.
    """

    def __init__(self, size: int, on_failure: Failed | None = None) -> None:
        self.ranks = {*range(size)}
        """The processes that belong to the world."""
        self.lost: dict[int, str] = {}
        """Why processes do not belong to it any more."""
        self.failure: tuple[int, str] | None = None
        self.is_elastic = False
        """Whether some process can go on without others."""
        self._generation = 0
        self.everyone_left = threading.Event()
        self._on_failure = on_failure
        self._members: dict[int, Member] = {}
        self._calls: dict[int, tuple[int, str]] = {}
        self._texts: dict[str, str] = {}
        self._new_text = asyncio.Condition()
        self._pmi = PmiServer(size)
        self._loop = asyncio.new_event_loop()
        self._opened = time.monotonic()
        self._first = 0.0
        """When the first process has connected."""
        self.connections = 0
        """How many connections are open; that of an MPI library is until its process has ended."""

    def start(self, host: str, port: int = 0) -> int:
        """Listen in a thread, and return the port."""
        # One family of addresses, since the system would choose another port for each.
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, host, port))
        self._loop.create_task(self._watch())
        threading.Thread(target=self._loop.run_forever, name="tapegrad-hub", daemon=True).start()
        found: int = server.sockets[0].getsockname()[1]
        return found

    def is_deserted(self) -> bool:
        """Whether no process has connected in a long time."""
        return not self._members and time.monotonic() - self._opened > JOINING

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            line = await reader.readline()
            if line.startswith(b"cmd="):
                await self._pmi.serve(line, reader, writer)
            elif line:
                await self._serve(json.loads(line), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # a process that was killed; the end of its connection is noticed below
        finally:
            self.connections -= 1
            writer.close()

    async def _serve(
        self, hello: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._first = self._first or time.monotonic()
        member = Member(hello["rank"], writer)
        if member.rank in self.lost:
            self._send(member, _failure(member.rank, self.lost[member.rank]))
            return
        self._members[member.rank] = member
        if self.failure is not None:
            self._tell_failure(member)
        try:
            while line := await reader.readline():
                member.heard = time.monotonic()
                self._take(member, json.loads(line))
        finally:
            if not member.has_left:
                self._lose(member.rank, "It has ended without an error message, as if killed.")

    def _take(self, member: Member, message: Message) -> None:
        kind = message["kind"]
        if kind == "beat":
            self._send(member, {"kind": "beat"})
        if message.get("generation", self._generation) != self._generation:
            return  # sent before the process went on without one that is lost
        if member.rank in self.lost:
            return
        if kind == "beat":
            self._compare(member, message["calls"])
            member.waits_in = message["waits_in"]
            self._find_leavers(member)
        elif kind == "ready":
            member.is_ready = self.is_elastic = True
        elif kind == "failed":
            self._lose(member.rank, message["why"])
        elif kind == "overdue":
            self._loop.create_task(self._blame(member, message["seconds"]))
        elif kind == "stack":
            member.stack = message["text"]
        elif kind == "publish":
            self._loop.create_task(self._publish(message["key"], message["value"]))
        elif kind == "look_up":
            self._loop.create_task(self._answer(member, message["key"]))
        elif kind == "end":
            member.is_at_end = True
            for other in self._members.values():
                self._find_leavers(other)
            self._end_together()
        elif kind == "bye":
            member.has_left = True
            self._note_leaving()

    def _note_leaving(self) -> None:
        if sum(member.has_left for member in self._members.values()) == len(self.ranks):
            self.everyone_left.set()

    def _compare(self, member: Member, calls: list[tuple[int, str]]) -> None:
        """Fail if a process makes another collective call than the others."""
        for number, call in calls:
            member.calls = number
            rank, other = self._calls.setdefault(number, (member.rank, call))
            self._calls.pop(number - REMEMBERED, None)
            if other != call:
                self._fail(
                    member.rank,
                    f"Its collective call number {number} is {call}, but that of rank {rank} is "
                    f"{other}. All processes must make the same calls in the same order.",
                )

    def _find_leavers(self, waiting: Member) -> None:
        """Fail if a process waits for one that has ended."""
        if waiting.is_at_end or not waiting.waits_in:
            return
        for other in self._members.values():
            if other.is_at_end and other.calls < waiting.calls:
                self._fail(
                    other.rank,
                    f"It has ended after {other.calls} collective calls, while rank {waiting.rank} "
                    f"waits for it in {waiting.waits_in}.",
                )

    def _end_together(self) -> None:
        """Let the processes go once all of them are at the end of the program."""
        members = self._members.values()
        if self.failure is None and sum(one.is_at_end for one in members) == len(self.ranks):
            for member in members:
                self._send(member, {"kind": "go"})

    async def _blame(self, waiting: Member, seconds: float) -> None:
        """Fail because of the processes that have not begun a call for which others wait."""
        late = [other for other in self._members.values() if other.calls < waiting.calls]
        if not late:
            return
        for member in late:
            self._send(member, {"kind": "where"})
        generation = self._generation
        await asyncio.sleep(1.0)
        if generation != self._generation:
            return
        self._lose(
            late[0].rank,
            f"Rank {waiting.rank} has waited {seconds:.0f} s for rank "
            f"{', '.join(str(member.rank) for member in late)} in {waiting.waits_in}.\n"
            + "".join(f"Rank {m.rank} is here:\n{m.stack}" for m in late if m.stack),
        )

    async def _watch(self) -> None:
        while not self.everyone_left.is_set() and self.failure is None:
            await asyncio.sleep(0.25)
            now = time.monotonic()
            for member in [*self._members.values()]:
                if not member.has_left and now - member.heard > SILENCE:
                    self._lose(
                        member.rank,
                        f"It has been silent for {SILENCE:.0f} s: it is stopped, its machine is "
                        "out of reach, or it holds Python's interpreter lock.",
                    )
            missing = sorted(self.ranks - {*self._members})
            if self._members and missing and now - self._first > JOINING:
                self._fail(
                    missing[0],
                    f"It has not called distribute.init() within {JOINING:.0f} s, as others have.",
                )

    def _lose(self, rank: int, why: str) -> None:
        """Let the others go on without a process if all of them can, or end."""
        if rank in self.lost or self.failure is not None:
            return
        member = self._members.get(rank)
        rest = self.ranks - {rank}
        if member is None or not rest or not all(one.is_ready for one in self._members.values()):
            self._fail(rank, why)
            return
        self._generation += 1
        self.ranks, self.lost[rank] = rest, why
        self._calls.clear()
        del self._members[rank]
        self._send(member, _failure(rank, why))
        message = {"kind": "shrink", "generation": self._generation, "ranks": sorted(rest)}
        for other in self._members.values():
            other.calls, other.waits_in, other.is_at_end = 0, "", False
            self._send(other, {**message, "rank": rank, "why": why})
        self._note_leaving()

    def _fail(self, rank: int, why: str) -> None:
        if self.failure is not None:
            return
        self.failure = rank, why
        for member in self._members.values():
            self._tell_failure(member)
        if self._on_failure is not None:
            self._on_failure(rank, why)

    def _tell_failure(self, member: Member) -> None:
        self._send(member, _failure(*(self.failure or (0, ""))))

    async def _publish(self, key: str, value: str) -> None:
        async with self._new_text:
            self._texts[key] = value
            self._new_text.notify_all()

    async def _answer(self, member: Member, key: str) -> None:
        async with self._new_text:
            await self._new_text.wait_for(lambda: key in self._texts)
        self._send(member, {"kind": "text", "key": key, "value": self._texts[key]})

    def _send(self, member: Member, message: Message) -> None:
        if not member.writer.is_closing():
            member.writer.write(json.dumps(message).encode() + b"\n")


def _failure(rank: int, why: str) -> Message:
    return {"kind": "failure", "rank": rank, "why": why}


def start_process(size: int, port: int = 0) -> int:
    """Start a hub that listens on all addresses in another process, and return its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(size), str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # it outlives the processes to tell how they ended
    )
    assert process.stdout is not None
    with process.stdout as answer:
        line = answer.readline()
    if not line:
        raise AbortedError(
            f"The control channel could not be opened at port {port}; the reason is printed above. "
            "If another program uses this port, choose another one."
        )
    return int(line)


def _main(size: int, port: int) -> None:
    hub = Hub(size)
    sys.stdout.write(f"{hub.start('0.0.0.0', port)}\n")
    sys.stdout.close()
    while not hub.everyone_left.wait(0.5) and hub.failure is None:
        if hub.is_deserted():
            return
    if hub.failure:
        time.sleep(2 * SILENCE)  # until all have read the last message
    # MPICH crashes if the hub does not answer the message that it sends when a process ends.
    until = time.monotonic() + ENDING
    while hub.connections and time.monotonic() < until:
        time.sleep(0.05)


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
