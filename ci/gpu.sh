#!/usr/bin/env bash
# Run the GPU tests and benchmarks on a machine with a CUDA device; write ci/gpu-report.json.
# Works in a bare tree: needs Python 3.11+, NumPy, CuPy and pytest, nothing of tapegrad installed.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD:$PWD/backends:$PWD/benchmarks${PYTHONPATH:+:$PYTHONPATH}"
python3 ci/gpu_report.py --run "$@"
python3 ci/gpu_report.py --bench --budget "${BENCH_BUDGET:-300}"
