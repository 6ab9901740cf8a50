#!/usr/bin/env bash
# The tests with TAPEGRAD_PLAIN=1, which switches tapegrad/engine off: results must not depend on it.
# By default a part that takes about a minute on two cores: derivatives of the sample table, the
# tests of tapes, and programs under tapes. Arguments go to pytest in place of these, e.g.:
# bash ci/plain.sh tests/rules tests/api tests/program
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

ensure_venv dev
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
export TAPEGRAD_CACHE="${TAPEGRAD_CACHE:-$ROOT/.cache/loops}"
export TAPEGRAD_PLAIN=1
if [ $# -eq 0 ]; then
    set -- tests/rules/test_samples.py::test_derivatives \
        tests/api/test_gradient.py tests/api/test_gradient_paths.py tests/api/test_half_precision.py \
        tests/api/test_jacobian.py tests/api/test_memory.py tests/api/test_optimizers.py \
        tests/api/test_tape_lifecycle.py tests/api/test_tape_use.py tests/api/test_watch.py \
        tests/program/test_functions_and_tapes.py tests/program/test_seeds_from_outside.py
fi
step "pytest without the engine" "$PYTHON" -m pytest -n auto --maxprocesses=8 "$@"
finish
