"""TensorFlow's `tf.train.ClusterSpec`: the addresses of the processes of a cluster, by job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapegrad.errors import ArgumentError, ArgumentTypeError


class ClusterSpec:
    """The jobs of a cluster: lists of addresses, or dicts of addresses by the number of the task.

    >>> cluster = ClusterSpec({"worker": ["host0:1", "host1:1"], "ps": {3: "host2:1"}})
    >>> cluster.jobs, cluster.num_tasks("worker"), cluster.task_address("ps", 3)
    (['ps', 'worker'], 2, 'host2:1')
    >>> cluster.as_dict()["worker"]
    ['host0:1', 'host1:1']
    """

    def __init__(self, cluster: Any) -> None:
        if isinstance(cluster, ClusterSpec):
            cluster = cluster.as_dict()
        if not isinstance(cluster, Mapping):
            raise ArgumentTypeError(
                "A cluster is a dict from names of jobs to lists of addresses. "
                f"Got {type(cluster).__name__}."
            )
        self._jobs = {str(job): _tasks(str(job), tasks) for job, tasks in sorted(cluster.items())}

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """Return the number of tasks of a job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Return the numbers of the tasks of a job."""
        return sorted(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Return the address of a task."""
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ArgumentError(f"Job {job_name!r} has no task {task_index!r}; it has {[*tasks]}.")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Return the addresses of a job in the order of the tasks, None where there is no task."""
        tasks = self._job(job_name)
        return [tasks.get(index) for index in range(max(tasks, default=-1) + 1)]

    def as_dict(self) -> dict[str, Any]:
        """Return a list of addresses by job, or a dict where numbers of tasks are missing."""
        return {
            job: [*tasks.values()] if [*tasks] == [*range(len(tasks))] else dict(tasks)
            for job, tasks in self._jobs.items()
        }

    def _job(self, name: str) -> dict[int, str]:
        if name not in self._jobs:
            known = ", ".join(self._jobs)
            raise ArgumentError(f"The cluster has no job {name!r}. Its jobs: {known}.")
        return self._jobs[name]

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterSpec | Mapping):
            return NotImplemented
        return self._jobs == ClusterSpec(other)._jobs

    __hash__ = None  # type: ignore[assignment]  # it equals a dict

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"


def _tasks(job: str, tasks: Any) -> dict[int, str]:
    found = tasks if isinstance(tasks, Mapping) else None
    if isinstance(tasks, list | tuple):
        found = dict(enumerate(tasks))
    if found is None or not all(isinstance(address, str) for address in found.values()):
        raise ArgumentTypeError(
            f"Job {job!r} needs a list of addresses, or a dict of addresses by number. "
            f"Got {tasks!r:.80}."
        )
    return {int(index): found[index] for index in sorted(found, key=int)}
