#!/usr/bin/env bash
# Tests with the lowest supported versions of NumPy and the other libraries, in a fresh environment.
# Arguments go to pytest; without any, the tests of rules, of NumPy's names and of the API run.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

python="$(find_python)" || exit 1
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$python" ci/lowest_versions.py | tee "$work/lowest.txt"
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --requirement "$work/lowest.txt"
# Its dependencies are those above: pip must not choose newer ones.
"$work/venv/bin/python" -m pip install --quiet --no-deps --editable "$ROOT"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
[ "$#" -gt 0 ] || set -- tests/rules tests/numpy tests/api
"$work/venv/bin/python" -m pytest -q -p no:cacheprovider -n auto --maxprocesses=8 "$@"
