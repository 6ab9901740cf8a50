"""PMI-1, the protocol in which the processes of MPICH and its relatives find each other.

A process stores its address under a key, waits for the others, and reads theirs. `mpiexec` speaks
this protocol; with it here, programs that torchrun or `tapegrad run` has started can use MPI.
"""

from __future__ import annotations

import asyncio
import uuid


class PmiServer:
    """The key-value store and the barrier of one world."""

    def __init__(self, size: int) -> None:
        self._size = size
        # MPI names shared memory after it, so it must differ between programs.
        self._name = f"tapegrad_{uuid.uuid4().hex}"
        self._values: dict[str, str] = {}
        self._arrived = 0
        self._round = asyncio.Event()

    async def serve(
        self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer the requests of one process, of which `line` is the first."""
        while line:
            request = dict(part.split("=", 1) for part in line.decode().split())
            writer.write((await self._answer(request) + "\n").encode())
            if request["cmd"] == "finalize":
                return
            line = await reader.readline()

    async def _answer(self, request: dict[str, str]) -> str:
        command, key = request["cmd"], request.get("key", "")
        if command == "barrier_in":
            await self._wait_for_all()
        elif command == "put":
            self._values[key] = request["value"]
        elif command == "get":
            if key not in self._values:
                return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
            return f"cmd=get_result rc=0 msg=success value={self._values[key]}"
        return {
            "init": "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
            "get_maxes": "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024",
            "get_appnum": "cmd=appnum rc=0 appnum=0",
            "get_my_kvsname": f"cmd=my_kvsname rc=0 kvsname={self._name}",
            "get_universe_size": f"cmd=universe_size rc=0 size={self._size}",
            "put": "cmd=put_result rc=0 msg=success",
            "barrier_in": "cmd=barrier_out rc=0",
            "finalize": "cmd=finalize_ack rc=0",
        }.get(command, f"cmd={command} rc=-1 msg=unknown_command")

    async def _wait_for_all(self) -> None:
        round = self._round
        self._arrived += 1
        if self._arrived == self._size:
            self._arrived, self._round = 0, asyncio.Event()
            round.set()
        await round.wait()
