#!/usr/bin/env bash
# Builds the sdist and the wheel, and uses the wheel with all versions of Python on this machine, each
# with the oldest and the newest NumPy. Arguments go to ci/matrix.py; ci/support.json has the results.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

python="$(find_python)" || exit 1
exec "$python" ci/matrix.py "$@"
