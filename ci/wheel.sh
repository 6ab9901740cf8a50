#!/usr/bin/env bash
# Builds the wheel, looks into it, installs it into a fresh environment and uses it from there,
# with the source tree out of reach.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

ensure_venv dev
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

"$PYTHON" -m build --wheel --outdir "$work" "$ROOT" >"$work/build.log" 2>&1 || {
    cat "$work/build.log" >&2
    die "the wheel could not be built; the log is above."
}
wheel="$(echo "$work"/*.whl)"
"$PYTHON" "$ROOT/ci/wheel_contents.py" "$wheel"

"$PYTHON" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet "$wheel"
cd "$work"
"$work/venv/bin/python" -I - <<'PYTHON'
import tapegrad as tf

x = tf.Variable(3.0)
with tf.GradientTape() as tape:
    y = x * x
gradient = float(tape.gradient(y, x))
assert gradient == 6.0, gradient
assert "site-packages" in tf.__file__, tf.__file__
PYTHON
# Type checkers find every public name in the installed package, those of lazy modules included.
"$work/venv/bin/python" -I "$ROOT/ci/public_names.py" >"$work/names.py"
"$PYTHON" -m mypy --strict --cache-dir "$work/mypy" --config-file /dev/null \
    --python-executable "$work/venv/bin/python" "$work/names.py"
"$work/venv/bin/tapegrad" info
"$work/venv/bin/tapegrad" demo --epochs 2
"$work/venv/bin/tapegrad" bench --devices cpu --workloads chain --sizes small --budget 1
echo "The wheel works outside the source tree."
