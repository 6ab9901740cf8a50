#!/usr/bin/env bash
# The documentation site: generated pages, links, spelling and the API reference are checked, then
# Sphinx builds .cache/site/html, with broken references as errors. Minutes.
#   bash ci/docs.sh            everything
#   bash ci/docs.sh --check    only the checks, without Sphinx: seconds
#   bash ci/docs.sh --write    write the generated pages, then do the same
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT"

ensure_venv docs
GENERATORS=(ci/pages/picture.py ci/pages/figures.py ci/support_page.py benchmarks/readme_examples.py
    benchmarks/comparison_table.py ci/functions_page.py ci/tensorflow_page.py ci/scale_page.py)
if [ "${1:-}" = "--write" ]; then
    for generator in "${GENERATORS[@]}"; do "$PYTHON" "$generator"; done
fi
for generator in "${GENERATORS[@]}"; do step "$generator" "$PYTHON" "$generator" --check; done
step "links" "$PYTHON" ci/pages/links.py
step "spelling" "$PYTHON" ci/pages/spelling.py
step "reference" "$PYTHON" ci/pages/reference.py
if [ "${1:-}" != "--check" ]; then
    step "pages" "$PYTHON" ci/pages/stage.py .cache/site/source
    step "sphinx" "$PYTHON" -m sphinx -q -W --keep-going -c ci/pages -d .cache/site/doctrees \
        .cache/site/source .cache/site/html
    echo "The site is in .cache/site/html."
fi
finish
