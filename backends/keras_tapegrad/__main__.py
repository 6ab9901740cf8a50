"""`python -m keras_tapegrad script.py` runs a script with Keras on this backend."""

from __future__ import annotations

import os
import runpy
import sys

from keras_tapegrad.import_hook import NAME


def main() -> None:
    """Run the script that the first argument names, with the other arguments."""
    if len(sys.argv) < 2:
        raise SystemExit("Name a script: python -m keras_tapegrad script.py [arguments]")
    os.environ["KERAS_BACKEND"] = NAME
    del sys.argv[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
