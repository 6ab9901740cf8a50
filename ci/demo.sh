#!/usr/bin/env bash
# Trains the digit classifier. Arguments go to the demo, e.g.: bash ci/demo.sh --epochs 10
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# The matrices are small: a BLAS thread that waits for a busy core costs more than it computes.
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"

ensure_venv progress
exec "$PYTHON" -m tapegrad demo "$@"
