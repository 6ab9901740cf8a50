"""The control channel outlives the processes that it serves."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

from tapegrad.control import member
from tapegrad.control.hub import Hub


def test_the_hub_answers_an_mpi_library_until_its_process_has_ended():
    command = [sys.executable, "-m", "tapegrad.control.hub", "1", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = ("127.0.0.1", int(process.stdout.readline()))
        with member.connect(address) as library:
            library.sendall(b"cmd=init pmi_version=1 pmi_subversion=1\n")
            assert b"response_to_init" in library.recv(200)
            with member.connect(address) as control:
                for message in ({"rank": 0}, {"kind": "end"}):
                    control.sendall(json.dumps(message).encode() + b"\n")
                assert b'"go"' in control.recv(200)
                control.sendall(b'{"kind": "bye"}\n')
            time.sleep(1.7)  # a process on a busy machine may need longer to end
            library.sendall(b"cmd=finalize\n")
            assert library.recv(200) == b"cmd=finalize_ack rc=0\n"
        assert process.wait(20) == 0


def joined(hub: Hub, port: int, rank: int) -> socket.socket:
    """Return the connection of a process that can go on without others."""
    connection = member.connect(("127.0.0.1", port))
    say(connection, {"rank": rank})
    say(connection, {"kind": "ready"})
    say(connection, {"kind": "beat", "calls": [], "waits_in": "", "generation": 0})
    assert heard(connection) == {"kind": "beat"}
    return connection


def say(connection: socket.socket, message: dict[str, object]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def heard(connection: socket.socket) -> dict[str, object]:
    with connection.makefile("r") as lines:
        message: dict[str, object] = json.loads(lines.readline())
    return message


def test_processes_that_are_ready_learn_who_is_left() -> None:
    hub = Hub(3)
    port = hub.start("127.0.0.1")
    others = [joined(hub, port, rank) for rank in range(3)]
    others.pop(1).close()

    for connection in others:
        message = heard(connection)
        assert (message["kind"], message["rank"]) == ("shrink", 1)
        assert (message["generation"], message["ranks"]) == (1, [0, 2])
    assert {*hub.lost} == {1}
    assert hub.failure is None

    # A call of the first generation is not compared with those of the second.
    old = {"kind": "beat", "calls": [[1, "all_gather"]], "waits_in": "", "generation": 0}
    say(others[0], old)
    say(others[1], {**old, "calls": [[1, "all_reduce"]], "generation": 1})
    assert [heard(one) for one in others] == [{"kind": "beat"}] * 2
    assert hub.failure is None

    others.pop(1).close()
    assert heard(others[0])["ranks"] == [0]
    others.pop(0).close()
    until = time.monotonic() + 5
    while hub.failure is None and time.monotonic() < until:
        time.sleep(0.01)
    assert hub.failure is not None
    assert hub.failure[0] == 0


def test_a_world_fails_before_all_of_its_processes_are_ready() -> None:
    hub = Hub(3)
    port = hub.start("127.0.0.1")
    first, second = (joined(hub, port, rank) for rank in range(2))
    with member.connect(("127.0.0.1", port)) as third, first:
        say(third, {"rank": 2})
        say(third, {"kind": "beat", "calls": [], "waits_in": ""})
        assert heard(third) == {"kind": "beat"}
        second.close()

        assert heard(first)["kind"] == "failure"
    assert hub.failure is not None
