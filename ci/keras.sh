#!/usr/bin/env bash
# Keras on tapegrad: installs Keras into an environment of its own, then runs tests/keras with it and
# a tenth of Keras' own tests; the next commit runs the next tenth. Arguments go to
# ci/keras_suite.py, e.g. `bash ci/keras.sh --all`. JAX is installed, too, because many of the tests
# ask it for the expected dtype. Tests that need TensorFlow or PyTorch are counted as missing unless
# KERAS_SUITE_LIBRARIES names them: KERAS_SUITE_LIBRARIES="tensorflow torch" bash ci/keras.sh
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

venv="$ROOT/.cache/keras-venv"
if [ ! -x "$venv/bin/python" ]; then
    python="$(find_python)" || exit 1
    "$python" -m venv "$venv"
fi
# shellcheck disable=SC2086  # a list of names
if ! "$venv/bin/python" -m pip install --quiet --no-compile "keras==3.15.1" "numpy>=2.4.2" jax \
    scipy pillow pandas scikit-learn pytest pytest-xdist pytest-timeout \
    ${KERAS_SUITE_LIBRARIES:-}; then
    echo "Keras cannot be installed here, so the tests with it are not run."
    exit 0
fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
export TAPEGRAD_CACHE="${TAPEGRAD_CACHE:-$ROOT/.cache/loops}"
step "tests/keras" "$venv/bin/python" -m pytest -q -p no:cacheprovider -n 2 \
    tests/keras/test_real_keras*.py tests/keras/test_import_hook.py
step "Keras' own tests" "$venv/bin/python" ci/keras_suite.py "$@"
finish
