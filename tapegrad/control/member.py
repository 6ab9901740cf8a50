"""The control channel of one process: it reports to the hub and learns of failures elsewhere.

A thread sends a message twice per second, also while the process computes or waits in a library. If
another process fails, the main thread gets the reason as an `AbortedError` at its next collective
call; if it makes none, the process is ended.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tapegrad.control.hub import SILENCE
from tapegrad.errors import AbortedError

INTERVAL = 0.5
"""Seconds between two messages to the hub."""

GRACE = 1.5
"""Seconds that a process has to end by itself after another one has failed."""

CONNECTING = 60.0
"""Seconds within which the hub must be reachable."""

Address = tuple[str, int]


class ProcessLostError(AbortedError):
    """Another process was lost in an elastic world, in which the others can go on."""


class Control:
    """The connection of this process to the hub; implements `Peers`."""

    def __init__(self, address: Address, rank: int, timeout: float) -> None:
        self._rank = rank
        self._timeout = timeout
        self._socket = connect(address)
        self._sending = threading.Lock()
        self._failure: str | None = None
        self.loss = ""
        """Why the last process was lost."""
        self._generation = self._newest = 0
        """The generation of the world that the program is in, and that of the hub."""
        self.ranks: tuple[int, ...] = ()
        """The first ranks of the processes of the newest generation."""
        self._on_loss: list[Callable[[], None]] = []
        self._is_told = threading.Event()
        self._has_left = False
        self._may_go = threading.Event()
        self._calls: list[tuple[int, str]] = []
        self._number = 0
        self._waits_in = ""
        self._began = 0.0
        self._is_overdue = False
        self._texts: dict[str, str] = {}
        self._new_text = threading.Condition()
        self._send({"rank": rank})
        for work in (self._beat, self._listen):
            threading.Thread(target=work, name="tapegrad-control", daemon=True).start()
        self._old_hook = sys.excepthook
        sys.excepthook = self._report

    def begin(self, call: str | None, is_new: bool = True) -> None:
        self._raise_failure()
        self._began, self._is_overdue = time.monotonic(), False
        if call is not None and is_new:
            self._number += 1
            self._calls.append((self._number, call))
        self._waits_in = call or "recv"

    def poll(self) -> None:
        self._raise_failure()

    def end(self) -> None:
        self._waits_in = ""

    def publish(self, key: str, value: str) -> None:
        self._send({"kind": "publish", "key": f"{self._generation} {key}", "value": value})

    def look_up(self, key: str) -> str:
        generation = self._generation
        key = f"{generation} {key}"
        self._send({"kind": "look_up", "key": key})
        with self._new_text:
            while key not in self._texts:
                self._new_text.wait(0.1)
                self._raise_failure(generation)
        return self._texts[key]

    def on_loss(self, call: Callable[[], None]) -> None:
        self._on_loss.append(call)
        if self.has_lost:
            self._say_loss()

    def say_ready(self) -> None:
        """Say that this process can go on without others that are lost."""
        self._send({"kind": "ready"})

    @property
    def has_lost(self) -> bool:
        """Whether a process was lost that the program still counts on."""
        return self._newest != self._generation

    def go_on(self) -> tuple[int, ...]:
        """Enter the newest generation, and return the first ranks of its processes."""
        with self._sending:  # so that no message has calls of one and the number of the other
            self._generation, ranks = self._newest, self.ranks
            self._calls, self._number, self._waits_in = [], 0, ""
        return ranks

    def wait_for_end(self) -> None:
        """Wait until all processes have reached the end of their program."""
        self._send_calls()
        self._send({"kind": "end", "generation": self._generation})
        while not self._may_go.wait(0.1):
            self._raise_failure()

    def leave(self) -> None:
        """Say that this process ends; after a failure, end it now.

        Libraries would otherwise wait at exit for processes that do not exist any more.
        """
        if self._failure is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
        self._has_left = True
        self._send({"kind": "bye"})
        sys.excepthook = self._old_hook

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def _raise_failure(self, generation: int | None = None) -> None:
        if self._failure is not None:
            raise AbortedError(self._failure)
        if self._newest != (self._generation if generation is None else generation):
            raise ProcessLostError(self.loss)

    def _report(
        self, kind: type[BaseException], error: BaseException, tb: TracebackType | None
    ) -> None:
        """Tell the others of an error that ends this process."""
        self._old_hook(kind, error, tb)
        if self._failure is None:
            self._failure = "This process has failed."
            text = "".join(traceback.format_exception(kind, error, tb))
            self._send({"kind": "failed", "why": text})
            self._is_told.wait(GRACE)  # until the hub has read it

    def _beat(self) -> None:
        while not self._has_left:
            self._send_calls()
            waited = time.monotonic() - self._began
            if self._waits_in and waited > self._timeout and not self._is_overdue:
                self._is_overdue = True
                generation = self._generation
                self._send({"kind": "overdue", "seconds": waited, "generation": generation})
            time.sleep(min(INTERVAL, self._timeout / 4))

    def _send_calls(self) -> None:
        with self._sending:
            calls, self._calls = self._calls, []
            message = {"calls": calls, "waits_in": self._waits_in, "generation": self._generation}
        self._send({"kind": "beat", **message})

    def _listen(self) -> None:
        self._socket.settimeout(SILENCE)
        try:
            for line in self._socket.makefile("r", encoding="utf-8"):
                self._take(json.loads(line))
            why = "The control channel was closed: the process of rank 0 or the launcher has ended."
        except OSError:
            why = f"The control channel in rank 0 or the launcher is silent for {SILENCE:.0f} s."
        if not self._has_left:
            self._fail(why)

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "failure":
            self._is_told.set()
            if message["rank"] != self._rank or self._failure is None:
                self._fail(f"Rank {message['rank']} has failed. {message['why']}")
        elif kind == "shrink":
            self.ranks = tuple(message["ranks"])
            self.loss = f"Rank {message['rank']} is lost. {message['why'].strip()}"
            self._newest = message["generation"]
            self._say_loss()
        elif kind == "go":
            self._may_go.set()
        elif kind == "text":
            with self._new_text:
                self._texts[message["key"]] = message["value"]
                self._new_text.notify_all()
        elif kind == "where":
            frame = sys._current_frames()[threading.main_thread().ident or 0]
            self._send({"kind": "stack", "text": "".join(traceback.format_stack(frame))})

    def _say_loss(self) -> None:
        """Call the functions that wait for a loss."""
        while self._on_loss:
            self._on_loss.pop()()

    def _fail(self, why: str) -> None:
        """Keep the reason for the main thread, and end the process if that does not end."""
        self._failure = self._failure or why
        time.sleep(GRACE)
        sys.stderr.write(f"tapegrad: rank {self._rank} ends. {self._failure}\n")
        sys.stderr.flush()
        os._exit(1)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            with self._sending:
                self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # the listening thread says what is wrong with the connection


def connect(address: Address) -> socket.socket:
    """Connect to the hub, which may not be there yet."""
    until = time.monotonic() + CONNECTING
    while True:
        try:
            found = socket.create_connection(address, timeout=5.0)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found.settimeout(None)
            return found
        except OSError as error:
            if time.monotonic() > until:
                raise AbortedError(
                    f"There is no control channel at {address[0]}:{address[1]} ({error}). Rank 0 "
                    "opens it when it calls distribute.init(); check that it has started there."
                ) from error
            time.sleep(0.1)
