"""The control channel outlives the processes that it serves."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from tapegrad.control import member


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
