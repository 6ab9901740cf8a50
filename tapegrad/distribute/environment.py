"""Find the rank of this process in the environment variables of the program that has started it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tapegrad.errors import ArgumentError

HUB = "TAPEGRAD_HUB"
"""Names the address of the control channel, as "host:port"; `tapegrad run` sets it."""

Address = tuple[str, int]


@dataclass(frozen=True)
class Place:
    """The place of this process among those that were started together."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    launcher: str = "none"
    hub: Address | None = None
    """Where rank 0 listens for control messages; None if MPI has to announce it."""
    hub_is_running: bool = False
    """Whether the launcher has opened the control channel, so that rank 0 need not."""
    has_mpi: bool = False
    """Whether the launcher tells MPI libraries where the processes are."""


def find_place(env: Mapping[str, str]) -> Place:
    """Return the place that the environment describes, or that of a process alone.

    >>> found = find_place({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "node1"})
    >>> found.rank, found.size, found.hub, found.launcher
    (1, 4, ('node1', 29501), 'torchrun')
    """
    for read in (_from_torchrun, _from_openmpi, _from_pmi, _from_slurm, _from_tf_config):
        place = read(env)
        if place is not None:
            if not 0 <= place.rank < place.size:
                raise ArgumentError(
                    f"The environment of {place.launcher} says that this process has rank "
                    f"{place.rank} of {place.size} processes. Ranks are counted from 0."
                )
            return place if place.size > 1 else Place(launcher=place.launcher)
    return Place()


def _from_torchrun(env: Mapping[str, str]) -> Place | None:
    """RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR: torchrun's variables and those of many others."""
    if "RANK" not in env or "WORLD_SIZE" not in env:
        return None
    given = _address(env)
    # torchrun itself listens on MASTER_PORT.
    hub = given or (env.get("MASTER_ADDR", "127.0.0.1"), int(env.get("MASTER_PORT", "29500")) + 1)
    return Place(
        int(env["RANK"]),
        int(env["WORLD_SIZE"]),
        int(env.get("LOCAL_RANK", "0")),
        int(env.get("LOCAL_WORLD_SIZE", "1")),
        "tapegrad run" if given else "torchrun",
        hub,
        hub_is_running=given is not None,
    )


def _from_openmpi(env: Mapping[str, str]) -> Place | None:
    if "OMPI_COMM_WORLD_RANK" not in env:
        return None
    return Place(
        int(env["OMPI_COMM_WORLD_RANK"]),
        int(env["OMPI_COMM_WORLD_SIZE"]),
        int(env.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")),
        int(env.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1")),
        "Open MPI",
        _address(env),
        has_mpi=True,
    )


def _from_pmi(env: Mapping[str, str]) -> Place | None:
    """PMI_RANK and PMI_SIZE: mpiexec of MPICH, Intel MPI and their relatives."""
    if "PMI_RANK" not in env or "PMI_SIZE" not in env:
        return None
    local = env.get("MPI_LOCALRANKID", env.get("SLURM_LOCALID", "0"))
    size = env.get("MPI_LOCALNRANKS", "1")
    rank = int(env["PMI_RANK"])
    return Place(
        rank, int(env["PMI_SIZE"]), int(local), int(size), "PMI", _address(env), has_mpi=True
    )


def _from_slurm(env: Mapping[str, str]) -> Place | None:
    """The variables of `srun`; a batch script has some of them too, but is no step of the job."""
    if "SLURM_PROCID" not in env or "SLURM_STEP_ID" not in env:
        return None
    nodes = env.get("SLURM_STEP_NODELIST", env.get("SLURM_NODELIST", "127.0.0.1"))
    port = 20_000 + int(env.get("SLURM_JOB_ID", "0")) % 20_000
    return Place(
        int(env["SLURM_PROCID"]),
        int(env.get("SLURM_STEP_NUM_TASKS", env.get("SLURM_NTASKS", "1"))),
        int(env.get("SLURM_LOCALID", "0")),
        int(re.match(r"\d+", env.get("SLURM_STEP_TASKS_PER_NODE", "1"))[0]),  # type: ignore[index]
        "Slurm",
        _address(env) or (_first_host(nodes), port),
        has_mpi="PMIX_RANK" in env,
    )


def _first_host(nodes: str) -> str:
    """Return the first host of a list such as "node[03-07,9],other"."""
    name, numbers = re.match(r"([^,\[]+)(?:\[([^\],-]+))?", nodes).groups()  # type: ignore[union-attr]
    return f"{name}{numbers or ''}"


def _from_tf_config(env: Mapping[str, str]) -> Place | None:
    """TF_CONFIG: chief and workers are ranks in this order; other tasks are alone."""
    config = json.loads(env.get("TF_CONFIG") or "{}")
    task, cluster = config.get("task", {}), config.get("cluster", {})
    tasks = [(job, i) for job in ("chief", "worker") for i in range(len(cluster.get(job, ())))]
    here = (task.get("type"), int(task.get("index", 0)))
    if here not in tasks:
        return None
    addresses = [cluster[job][i] for job, i in tasks]
    rank = tasks.index(here)
    hosts = [address.rpartition(":")[0] for address in addresses]
    host, _, port = addresses[0].rpartition(":")
    return Place(
        rank,
        len(tasks),
        hosts[:rank].count(hosts[rank]),
        hosts.count(hosts[rank]),
        "TF_CONFIG",
        _address(env) or (host, int(port)),
    )


def _address(env: Mapping[str, str]) -> Address | None:
    host, _, port = env.get(HUB, "").rpartition(":")
    return (host, int(port)) if host else None
