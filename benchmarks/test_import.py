"""The seconds of `import tapegrad` beyond NumPy's, each in a fresh process."""

from __future__ import annotations

from tapegrad_bench.footprint import import_seconds


def test_import(benchmark):
    benchmark.group = "import"

    benchmark.pedantic(import_seconds, args=("tapegrad",), rounds=5, warmup_rounds=1)
