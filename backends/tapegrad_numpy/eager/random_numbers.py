"""Let the random kernels draw many numbers in C."""

from __future__ import annotations

from typing import Any

from tapegrad_numpy.kernels.philox_words import draw_compiled_by


@draw_compiled_by
def _draw(name: str, state: Any, size: int, **numbers: int) -> tuple[Any, ...] | None:
    # Imported with the first such draw, because the C generator takes a while to import.
    from tapegrad_numpy.loops.draws import draw

    return draw(name, state, size, **numbers)
