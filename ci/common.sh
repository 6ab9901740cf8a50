# Shared by the scripts beside it; meant to be sourced, not run.
# Finds a Python, keeps a virtual environment in .venv up to date, and counts failed steps.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"
PYTHON="$VENV/bin/python"
failed_steps=()

# The environment must see this tree only.
unset PYTHONPATH PYTHONHOME
export PIP_DISABLE_PIP_VERSION_CHECK=1
# Compiled tests are kept: pytest takes as long to rewrite their assertions as to collect them.
unset PYTHONDONTWRITEBYTECODE

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Prints the first Python that is new enough. Each candidate is run, because a name on the PATH
# may be a wrapper around a version that is not installed.
find_python() {
    local candidate
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    die "tapegrad needs Python 3.11 or newer, and none of python3, python3.14, python3.13," \
        "python3.12, python3.11 on the PATH is. Install one and run this script again."
}

# False when .venv is missing, was made by a Python that is gone or too old, or has lost its pip.
is_venv_usable() {
    "$PYTHON" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11) or sys.prefix == sys.base_prefix)' \
        >/dev/null 2>&1
}

make_venv() {
    local python
    python="$(find_python)" || exit 1
    echo "Creating .venv with $("$python" --version)."
    rm -rf "$VENV"
    "$python" -m venv "$VENV" || die "$python could not create a virtual environment." \
        "On Debian and Ubuntu the package python3-venv is needed for that."
}

# What an installation depends on: the configuration, and where this tree is.
fingerprint() {
    cksum <"$ROOT/pyproject.toml"
    echo "$ROOT"
}

# ensure_venv EXTRA: make .venv hold tapegrad, editable, with that extra of pyproject.toml.
# Installs only if pyproject.toml changed since it last did ("dev" includes all extras but "docs").
# Modules are compiled at their first import: for pip to compile all takes longer than to install.
ensure_venv() {
    local extra="$1" stamp stamps
    is_venv_usable || make_venv
    stamps=("$VENV/installed-$extra")
    [ "$extra" = docs ] || stamps+=("$VENV/installed-dev")
    for stamp in "${stamps[@]}"; do
        if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ]; then
            return
        fi
    done
    echo "Installing tapegrad[$extra] into .venv (only needed when pyproject.toml changes)."
    "$PYTHON" -m pip install --quiet --no-compile --editable "$ROOT[$extra]" ||
        die "pip could not install tapegrad[$extra]; its message is above."
    fingerprint >"$VENV/installed-$extra"
}

# step NAME COMMAND...: run a check and remember its name if it fails, so that one run shows
# everything that is wrong.
step() {
    local name="$1"
    shift
    echo "== $name"
    "$@" || failed_steps+=("$name")
}

# Exits with 1 and the names of the failed steps, or with 0.
finish() {
    if [ "${#failed_steps[@]}" -gt 0 ]; then
        local IFS=,
        echo "FAILED: ${failed_steps[*]}" >&2
        exit 1
    fi
    echo "All passed."
}

style_checks() {
    step "ruff format" "$PYTHON" -m ruff format --check "$ROOT"
    step "ruff check" "$PYTHON" -m ruff check "$ROOT"
}

# start_type_checks, and later finish_type_checks: mypy keeps one core busy for half a minute, so
# other steps may run meanwhile.
start_type_checks() {
    type_report="$(mktemp)"
    "$PYTHON" -m mypy >"$type_report" 2>&1 &
    type_checks=$!
}

finish_type_checks() {
    local status=0
    wait "$type_checks" || status=$?
    cat "$type_report"
    rm -f "$type_report"
    return "$status"
}
