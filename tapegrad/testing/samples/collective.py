"""Samples of collective functions. The samples run in one process; `tests/distribute` has more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops import creation
from tapegrad.ops.collective import conditional, functions as collective, parts, primitives
from tapegrad.ops.collective.started import wait_p
from tapegrad.testing.sample import Sample, normal


def _same(x: Any) -> Any:
    return x


def _flat(x: Any) -> Any:
    return x.reshape(-1)


def _as_2_3(x: Any) -> Any:
    return x.reshape(2, 3)


def _there_and_back(x: Any) -> Any:
    receipt = collective.send(x, to=0)
    return collective.recv(x, source=0) + receipt


def _scattered(x: Any) -> Any:
    return conditional.scatter_when_p(creation.constant(True), x, group=None)[0]


def _gathered(x: Any) -> Any:
    whole = creation.zeros([2, 3], x.dtype)
    return conditional.gather_when_p(creation.constant(True), x, whole, group=None)[0]


def _rounded(x: Any) -> Any:
    sent = x.astype("float32").astype(x.dtype)
    return sent, x - sent, 0 * x


def _started(start: Any, **params: Any) -> Callable[[Any], Any]:
    return lambda x: wait_p(start(x, **params), x, **params)


SAMPLES = [
    Sample("all_reduce", collective.all_reduce, [normal(2, 3)], _same),
    Sample("all_reduce-max", lambda x: collective.all_reduce(x, "max"), [normal(2, 3)], _same),
    Sample("reduce_scatter", lambda x: collective.reduce_scatter(x, axis=1), [normal(2, 3)], _same),
    Sample("all_gather", lambda x: collective.all_gather(x, axis=1), [normal(2, 3)], _same),
    Sample("broadcast_from", collective.broadcast, [normal(2, 3)], _same),
    Sample(
        "all_to_all",
        lambda x: collective.all_to_all(x, split_axis=1, concat_axis=0),
        [normal(2, 3)],
        _same,
    ),
    Sample(
        "gather_shards",
        lambda x: parts.gather_shards_p(x, shape=(2, 3), group=None),
        [normal(6)],
        _as_2_3,
    ),
    Sample(
        "scatter_shards",
        lambda x: parts.scatter_shards_p(x, shape=(2, 3), group=None),
        [normal(2, 3)],
        _flat,
    ),
    Sample("own_shard", parts.own_shard_p, [normal(2, 3)], _flat, differentiable=False),
    Sample("sum_in_group", lambda x: parts.sum_in_group_p(x, group=None), [normal(2, 3)], _same),
    Sample(
        "sum_over_replicas",
        lambda x: parts.sum_over_replicas_p(x, group=None),
        [normal(2, 3)],
        _same,
    ),
    Sample(
        "sum_when",
        lambda x: conditional.sum_when_p(creation.constant(True), x, group=None)[0],
        [normal(2, 3)],
        _same,
        differentiable=False,
    ),
    Sample("scatter_when", _scattered, [normal(2, 3)], _flat, differentiable=False),
    Sample("gather_when", _gathered, [normal(6)], _as_2_3, differentiable=False),
    Sample(
        "rounded_sum_when",
        lambda x: conditional.rounded_sum_when_p(
            creation.constant(True), x, 0 * x, 0 * x, group=None, dtype=np.dtype("float32")
        ),
        [normal(6)],
        _rounded,
        differentiable=False,
    ),
    *[
        Sample(
            f"{start.name}-wait", _started(start, **params), drawn, expected, differentiable=False
        )
        for start, params, drawn, expected in (
            (parts.start_sum_p, {"group": None}, [normal(2, 3)], _same),
            (parts.start_gather_p, {"shape": (2, 3), "group": None}, [normal(6)], _as_2_3),
            (parts.start_scatter_p, {"shape": (2, 3), "group": None}, [normal(2, 3)], _flat),
            (primitives.start_all_reduce_p, {}, [normal(2, 3)], _same),
            (primitives.start_reduce_scatter_p, {}, [normal(1, 6)], _flat),
            (primitives.start_all_gather_p, {}, [normal(2, 3)], lambda x: x[None]),
        )
    ],
    Sample("copy_to_group", lambda x: parts.copy_to_group_p(x, group=None), [normal(2, 3)], _same),
    Sample(
        "join_in_group",
        lambda x: parts.join_in_group_p(x, axis=-1, group=None),
        [normal(2, 3)],
        _same,
    ),
    Sample("own_part", lambda x: parts.own_part_p(x, axis=-2, group=None), [normal(2, 3)], _same),
    Sample("send-recv", _there_and_back, [normal(2, 3)], _same),
]
