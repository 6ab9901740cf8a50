#!/usr/bin/env bash
# Trains the digit classifier. Arguments go to the demo, e.g.: bash ci/demo.sh --epochs 10
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

ensure_venv progress
exec "$PYTHON" -m tapegrad demo "$@"
