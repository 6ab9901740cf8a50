"""`tf.compat.v1.app`: `absl.app`, and the flags."""

from __future__ import annotations

from typing import Any

from tapegrad.compat.v1 import flags

__all__ = ["flags", "run"]


def run(main: Any = None, argv: Any = None) -> None:
    """Read the flags and call `main(argv)`, by the package absl."""
    from absl import app  # an extra package, which few programs need

    app.run(main, argv)
