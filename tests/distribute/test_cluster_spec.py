"""tf.train.ClusterSpec and the resolvers that return it."""

from __future__ import annotations

import json

import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError

CLUSTER = {"worker": ["host0:1", "host1:1"], "ps": {3: "host2:1", 1: "host3:1"}}


def test_jobs_and_tasks() -> None:
    cluster = tf.train.ClusterSpec(CLUSTER)

    assert cluster.jobs == ["ps", "worker"]
    assert cluster.num_tasks("worker") == 2
    assert cluster.task_indices("ps") == [1, 3]
    assert cluster.job_tasks("ps") == [None, "host3:1", None, "host2:1"]
    assert cluster.task_address("worker", 1) == "host1:1"
    assert cluster.as_dict() == {"ps": {1: "host3:1", 3: "host2:1"}, "worker": CLUSTER["worker"]}
    assert cluster == tf.train.ClusterSpec(cluster) == CLUSTER
    assert not tf.train.ClusterSpec({})


def test_what_is_not_there_is_named() -> None:
    cluster = tf.train.ClusterSpec(CLUSTER)

    with pytest.raises(ArgumentError, match=r"no job 'chief'. Its jobs: ps, worker"):
        cluster.num_tasks("chief")
    with pytest.raises(ArgumentError, match=r"no task 0; it has \[1, 3\]"):
        cluster.task_address("ps", 0)
    with pytest.raises(ArgumentTypeError, match=r"'worker' needs a list of addresses"):
        tf.train.ClusterSpec({"worker": "host0:1"})
    with pytest.raises(ArgumentTypeError, match=r"a dict from names of jobs"):
        tf.train.ClusterSpec(["host0:1"])


def test_resolvers_return_it(monkeypatch: pytest.MonkeyPatch) -> None:
    resolvers = tf.distribute.cluster_resolver
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1"]}}))

    assert resolvers.TFConfigClusterResolver().cluster_spec().as_dict() == {"worker": ["a:1"]}
    assert resolvers.SimpleClusterResolver({"worker": ["b:1"]}).cluster_spec().jobs == ["worker"]
    assert not resolvers.ClusterResolver().cluster_spec()
