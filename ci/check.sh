#!/usr/bin/env bash
# The static checks: format, lint and types. Seconds, not minutes; good before every commit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

ensure_venv dev
style_checks
step "mypy" "$PYTHON" -m mypy
finish
