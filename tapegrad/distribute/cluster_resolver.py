"""TensorFlow's `tf.distribute.cluster_resolver`: one process, and no TPUs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.distribute.cluster_spec import ClusterSpec
from tapegrad.errors import ArgumentError

__all__ = ["ClusterResolver", "SimpleClusterResolver", "TFConfigClusterResolver",
           "TPUClusterResolver"]  # fmt: skip


class ClusterResolver:
    """Base class of descriptions of a cluster; training uses this process alone.

    >>> ClusterResolver().task_id is None
    True
    """

    task_type: Any = None
    task_id: Any = None
    rpc_layer: Any = None

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """Return the address of the session, which is empty for this process."""
        return ""

    def cluster_spec(self) -> ClusterSpec:
        """Return the addresses of the tasks by job."""
        return ClusterSpec({})


class SimpleClusterResolver(ClusterResolver):
    """A cluster whose tasks are given.

    >>> SimpleClusterResolver({"worker": ["localhost:1"]}, task_type="worker").task_type
    'worker'
    """

    def __init__(
        self,
        cluster_spec: Any,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: Any = None,
        rpc_layer: str | None = None,
    ) -> None:
        self._cluster, self._master = ClusterSpec(cluster_spec), master
        self.task_type, self.task_id, self.rpc_layer = task_type, task_id, rpc_layer
        self.environment = environment

    def cluster_spec(self) -> ClusterSpec:
        """Return the addresses of the tasks by job."""
        return self._cluster

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """Return the address that was given."""
        return self._master


class TFConfigClusterResolver(ClusterResolver):
    """The cluster that the environment variable TF_CONFIG describes.

    >>> TFConfigClusterResolver().cluster_spec() == {}
    True
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        found = json.loads(os.environ.get("TF_CONFIG", "{}"))
        task = found.get("task", {})
        self._cluster = ClusterSpec(found.get("cluster", {}))
        self.task_type = task_type or task.get("type")
        index = task.get("index") if task_id is None else task_id
        self.task_id = None if index is None else int(index)
        self.rpc_layer = rpc_layer or found.get("rpc_layer")

    def cluster_spec(self) -> ClusterSpec:
        """Return the addresses of the tasks by job."""
        return self._cluster


class TPUClusterResolver(ClusterResolver):
    """TPUs are not supported: making one raises a ValueError, as TensorFlow does without a TPU.

    Programs catch it and use another strategy.

    >>> TPUClusterResolver()
    Traceback (most recent call last):
    tapegrad.errors.ArgumentError: There is no TPU here. Devices are CPUs and CUDA GPUs.
    """

    def __init__(self, tpu: Any = None, *args: Any, **kwargs: Any) -> None:
        raise ArgumentError("There is no TPU here. Devices are CPUs and CUDA GPUs.")

    @classmethod
    def connect(cls, tpu: Any = None, zone: Any = None, project: Any = None) -> ClusterResolver:
        """Raise the error that there is no TPU."""
        return cls(tpu)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("distribute.cluster_resolver", name)


_check_calls(globals(), __all__)
