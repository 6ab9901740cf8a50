"""Ranks in the environment variables of launchers, as their documentation describes them."""

from __future__ import annotations

import json

import pytest

from tapegrad.distribute.environment import find_place
from tapegrad.errors import ArgumentError

CLUSTER = {"chief": ["a:1000"], "worker": ["a:1001", "b:1002", "b:1003"], "ps": ["c:1"]}


def tf_config(kind: str, index: int) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": kind, "index": index}})}


TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
OPENMPI = {f"OMPI_COMM_WORLD_{name}": n for name, n in (("RANK", "2"), ("SIZE", "3"))}
HYDRA = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "6",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "node[07-08],gpu2",
    "SLURM_JOB_ID": "40123",
}


@pytest.mark.parametrize(
    ("env", "rank", "size", "local_rank", "hub"),
    [
        ({}, 0, 1, 0, None),
        ({**TORCHRUN, "MASTER_ADDR": "h", "MASTER_PORT": "7000"}, 5, 8, 1, ("h", 7001)),
        ({**TORCHRUN, "TAPEGRAD_HUB": "127.0.0.1:9"}, 5, 8, 1, ("127.0.0.1", 9)),
        ({**OPENMPI, "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, 2, 3, 1, None),
        (HYDRA, 2, 4, 1, None),
        (SLURM, 3, 6, 1, ("node07", 20123)),
        ({name: SLURM[name] for name in ("SLURM_PROCID", "SLURM_NTASKS")}, 0, 1, 0, None),
        (tf_config("chief", 0), 0, 4, 0, ("a", 1000)),
        (tf_config("worker", 0), 1, 4, 1, ("a", 1000)),
        (tf_config("worker", 2), 3, 4, 1, ("a", 1000)),
        (tf_config("ps", 0), 0, 1, 0, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, 0, 1, 0, None),
    ],
)
def test_the_rank_is_found(env, rank, size, local_rank, hub) -> None:
    place = find_place(env)

    assert (place.rank, place.size, place.local_rank, place.hub) == (rank, size, local_rank, hub)


def test_a_rank_beyond_the_size_is_refused() -> None:
    with pytest.raises(ArgumentError, match="torchrun says that this process has rank 4 of 4"):
        find_place({"RANK": "4", "WORLD_SIZE": "4"})
