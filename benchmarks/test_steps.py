"""tapegrad's steps for pytest-benchmark, to see what a change of the engine makes slower.

Before it: `pytest benchmarks --benchmark-autosave`; after it: `pytest benchmarks
--benchmark-compare`.

Peers are not run here: `tapegrad bench` does that, with every library in a process of its own.
"""

from __future__ import annotations

import pytest

from tapegrad_bench.adapters import CONTENDERS
from tapegrad_bench.workload import Kind
from tapegrad_bench.workloads import WORKLOADS

OURS = [c for c in CONTENDERS if c.library == "tapegrad"]
ROWS = [
    pytest.param(workload, device, id=f"{workload.name}-{device}")
    for device in ("cpu", "cuda")
    for workload in WORKLOADS.values()
    if device in workload.default_on and workload.kind is not Kind.FOOTPRINT
]


@pytest.mark.parametrize("contender", OURS, ids=lambda contender: contender.mode)
@pytest.mark.parametrize(("workload", "device"), ROWS)
def test_step(benchmark, prepare, workload, device, contender):
    benchmark.group = f"{workload.name} on {device}"

    benchmark(prepare(contender, workload, device))
