#!/usr/bin/env bash
# Run the GPU tests and benchmarks on a machine with a CUDA device; write ci/gpu-report.json.
# Works in a bare tree: needs Python 3.11+, NumPy, CuPy and what CONTRIBUTING.md names beside them,
# nothing of tapegrad installed. Arguments go to ci/gpu_report.py; BENCH_BUDGET is in seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD:$PWD/backends:$PWD/benchmarks${PYTHONPATH:+:$PYTHONPATH}"
if python3 -c "import torch" 2>/dev/null; then
    # What torch.compile keeps on disk fills beside the tests: the benchmark has no time for it.
    python3 benchmarks/warm_torch.py &
fi
failed=0
python3 ci/gpu_report.py --run "$@" || failed=1
wait
python3 ci/gpu_report.py --bench --keras --sizes default --budget "${BENCH_BUDGET:-400}" || failed=1
exit "$failed"
