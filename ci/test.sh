#!/usr/bin/env bash
# What must pass before a change is merged: the static checks and the tests that need no GPU.
# Not run here: tests/gpu, and the same tests on CUDA (ci/gpu.sh); tests/full, which trains every
# example in full; the lowest supported versions (ci/lowest.sh); the wheel (ci/wheel.sh). The last
# lines say which GPU tests have not run on these sources; that fails nothing.
# Arguments go to pytest, e.g.: bash ci/test.sh tests/api -k variable
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

ensure_venv dev
# The test processes already fill the cores; more threads in each would only make them wait.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
# Compiled loops of the tests' programs, kept for the next run.
export TAPEGRAD_CACHE="${TAPEGRAD_CACHE:-$ROOT/.cache/loops}"
style_checks
start_type_checks
step "pytest" "$PYTHON" -m pytest -p tests.economy -n auto --maxprocesses=8 "$@"
# Results must not depend on the engine; a minute of tests without it.
[ $# -gt 0 ] || step "plain" bash ci/plain.sh
# A tenth of Keras' own tests with Keras on tapegrad: about two minutes.
[ $# -gt 0 ] || step "keras" bash ci/keras.sh
step "mypy" finish_type_checks
echo "== GPU report (for information)"
"$PYTHON" ci/gpu_report.py --check || true
finish
