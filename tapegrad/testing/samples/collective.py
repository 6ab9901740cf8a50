"""Samples of collective functions. The samples run in one process; `tests/distribute` has more."""

from __future__ import annotations

from typing import Any

from tapegrad.ops.collective import functions as collective
from tapegrad.testing.sample import Sample, normal


def _same(x: Any) -> Any:
    return x


def _there_and_back(x: Any) -> Any:
    receipt = collective.send(x, to=0)
    return collective.recv(x, source=0) + receipt


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
    Sample("send-recv", _there_and_back, [normal(2, 3)], _same),
]
