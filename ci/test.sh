#!/usr/bin/env bash
# Everything that must pass before a change is merged: the static checks and all tests.
# Arguments go to pytest, e.g.: bash ci/test.sh tests/api -k variable
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

ensure_venv dev
# The test processes already fill the cores; more threads in each would only make them wait.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
# Compiled loops of the tests' programs, kept for the next run.
export TAPEGRAD_CACHE="${TAPEGRAD_CACHE:-$ROOT/.cache/loops}"
static_checks
step "pytest" "$PYTHON" -m pytest -n auto --maxprocesses=8 "$@"
finish
